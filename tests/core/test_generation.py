"""A model's generation config: read when it is loaded, followed or switched off by a setting, and always reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

import specdec_core as sd
from specdec_core.models.assembling import assemble
from specdec_core.models.generation import NOT_DONE, OFF, Generation

from .tiny import build, generate, tokenizer

PROMPT = [5, 9, 3, 22, 7]
LENGTH = 20


def _models(**asked: Any) -> sd.Models:
    """A random Llama whose authors ask for this."""
    names = tokenizer()
    model = build("llama", vocab_size=len(names))
    model.generation_config = GenerationConfig(eos_token_id=None, pad_token_id=0, **asked)
    return assemble(names, model, names=("asking",))


def _text(models: sd.Models, **chosen: Any) -> sd.Trace:
    return sd.decode(models, PROMPT, sd.Settings(proposer="prompt-lookup", max_new_tokens=LENGTH, **chosen))


@pytest.mark.parametrize("asked", [{"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 2}], ids=str)
def test_a_setting_left_open_follows_the_model_and_a_given_one_replaces_it(asked: dict[str, Any]) -> None:
    """`generate` follows the file by itself, so that is the oracle for both. Catches: a config that is read and not
    applied, or that cannot be switched off."""
    models = _models(**asked)
    assert dict(models.generation.requests) == asked
    model = models.target.model  # type: ignore[attr-defined]
    followed, off = _text(models), _text(models, **{name: OFF[name] for name in asked})
    assert followed.token_ids == generate(model, PROMPT, LENGTH)
    assert off.token_ids == generate(
        model, PROMPT, LENGTH, **{name: type(OFF[name])(OFF[name]) for name in asked}
    )
    assert followed.token_ids != off.token_ids, "the penalty changes nothing: this proves nothing"
    for name, value in asked.items():
        assert followed.header.settings[name] == value
        assert off.header.settings[name] == OFF[name]
    other = _text(models, repetition_penalty=1.2)
    assert other.header.settings["repetition_penalty"] == 1.2


def test_it_is_read_from_a_folder(tmp_path: Path) -> None:
    """Written to disk and loaded with `load_models`. Catches: a file beside the weights that nobody reads."""
    names = tokenizer()
    model = build("llama", vocab_size=len(names))
    model.generation_config = GenerationConfig(
        eos_token_id=None, pad_token_id=0, repetition_penalty=1.5, temperature=0.6, top_p=0.9, do_sample=True
    )
    model.save_pretrained(tmp_path)
    names.save_pretrained(tmp_path)
    models = sd.load_models(tmp_path, device="cpu", dtype="float32")
    assert dict(models.generation.requests) == {"repetition_penalty": 1.5}
    assert dict(models.generation.suggests) == {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
    with torch.inference_mode():
        assert _text(models).token_ids == generate(model, PROMPT, LENGTH)


def test_without_one_settings_mean_what_they_meant() -> None:
    """Catches: a default of transformers that is taken for a wish, a header that says more than was asked."""
    models = _models()
    assert models.generation == Generation() == Generation.read(None)
    trace = _text(models)
    assert [trace.header.settings[name] for name in OFF] == [None, None, None]
    assert models.generation.remarks(sd.Settings()) == []
    assert trace.token_ids == _text(models, repetition_penalty=1.0, min_p=0.0).token_ids


def test_the_sentences_say_what_becomes_of_it() -> None:
    """Catches: a penalty that is said to be applied while it is switched off, a wish that nobody mentions."""
    found = Generation.read(
        GenerationConfig(repetition_penalty=1.1, temperature=0.7, suppress_tokens=[3], min_p=0.05)
    )
    said = found.remarks(sd.Settings())
    assert (
        "repetition_penalty = 1.1" in said[0] and "min_p = 0.05" in said[0] and said[0].endswith("applied.")
    )
    assert "temperature = 0.7" in said[1] and "not applied" in said[1]
    assert "suppress_tokens" in said[2] and "does not support" in said[2]
    off = found.remarks(sd.Settings(repetition_penalty=1.0))
    assert "repetition_penalty = 1.1: switched off" in " ".join(off)
    assert "repetition_penalty = 1.1: 1.3 is used" in " ".join(
        found.remarks(sd.Settings(repetition_penalty=1.3))
    )


@pytest.mark.parametrize(
    ("suggested", "chosen", "named"),
    [
        ({"do_sample": False}, {}, None),
        ({"do_sample": False, "temperature": 0.6}, {}, None),
        ({"do_sample": False}, {"temperature": 0.7}, "do_sample = false"),
        ({"do_sample": True, "top_p": 0.9}, {}, "do_sample = true and top_p = 0.9"),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, {"temperature": 0.6, "top_p": 0.9}, None),
        (
            {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.9},
            {"temperature": 1.0, "top_k": 20},
            "temperature = 0.6 and top_p = 0.9",
        ),
    ],
    ids=str,
)
def test_a_suggestion_is_named_only_where_the_settings_differ_from_it(
    suggested: dict[str, Any], chosen: dict[str, Any], named: str | None
) -> None:
    """Catches: greedy decoding that is said not to follow `do_sample = false`, a suggestion followed and reported."""
    said = Generation.read(GenerationConfig(**suggested)).remarks(sd.Settings(**chosen))
    assert said == (
        []
        if named is None
        else [f"The model's authors suggest {named}, which is not applied; the settings here are used."]
    )


@pytest.mark.parametrize("name", list(NOT_DONE))
def test_what_is_not_done_is_named_where_it_has_an_effect(name: str) -> None:
    """Catches: a value that changes the text and is passed over, among them the token id 0; an idle one that is
    reported."""

    class Config:
        pass

    config = Config()
    for idle in (None, *NOT_DONE[name]):
        setattr(config, name, idle)
        assert Generation.read(config).not_done == ()
    setattr(config, name, 0 if name.startswith("forced") else 7 if "token" not in name else [0])
    assert Generation.read(config).not_done == (name,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repetition_penalty", 0.0),
        ("repetition_penalty", "a lot"),
        ("repetition_penalty", float("nan")),
        ("no_repeat_ngram_size", 10**9),
        ("min_p", [0.1] * 1_000),
    ],
)
def test_a_damaged_value_is_left_out_with_a_sentence(name: str, value: object) -> None:
    """Catches: a traceback at load, a value that is followed where no setting could hold it, an endless sentence."""

    class Config:
        pass

    config = Config()
    setattr(config, name, value)
    found = Generation.read(config)
    assert not found.requests
    (said,) = found.remarks(sd.Settings())
    assert name in said and len(said) < 300
