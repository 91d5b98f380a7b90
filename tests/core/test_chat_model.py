"""The small chat model that set-up brings: whole, found by its name, and decoded as transformers decodes it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from transformers import AutoModelForCausalLM

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.files import sources
from specdec_core.models.gguf_files import cache as conversions

from .tiny import generate, module

RUNS = (
    ("What do cows eat?", "none"),
    (
        "Repeat exactly: red, green, blue, red, green, blue",
        "prompt-lookup",
    ),  # its own words are right at times
)
LENGTH = 24


def test_the_entry_s_name_brings_a_chat_model(chat_models: sd.Models) -> None:
    """Catches: an end token that is not the chat's, a lost template, a count that differs from the catalogue's."""
    entry = catalogue.find(catalogue.CHAT)
    assert entry is not None
    assert chat_models.target.info.parameters == pytest.approx(entry.parameters * 1e6, rel=1e-3)
    assert chat_models.chat_template and chat_models.eos == {2}
    asked = chat_models.codec.names(chat_models.chat("Hello"))
    assert asked[0] == "<|im_start|>" and asked.count("<|im_end|>") == 2
    assert "".join(asked).endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.slow
@pytest.mark.parametrize(("prompt", "proposer"), RUNS)
def test_greedy_text_is_that_of_generate(chat_models: sd.Models, prompt: str, proposer: str) -> None:
    """Plain, and by prompt lookup up to the end token, up to the first near tie. Catches: packing or conversion that
    changes what is written, passes over several tokens that differ from passes over one."""
    ids = chat_models.chat(prompt)
    wanted = generate(module(chat_models), ids, LENGTH, pad_token_id=2)
    trace = sd.decode(chat_models, ids, sd.Settings(proposer=proposer, max_new_tokens=LENGTH))
    assert trace.audit() == []
    assert trace.token_ids == wanted or _near_tie(chat_models, ids, trace.token_ids, wanted)
    if proposer == "prompt-lookup":
        assert 0 < trace.stats.accepted < trace.stats.proposed, (
            "no pass kept several tokens, or none was undone"
        )


@pytest.mark.slow
def test_a_record_does_not_depend_on_the_number_of_threads(chat_models: sd.Models) -> None:
    """Which may change under way, as other programs come and go. Catches: sums that threads split."""
    ids = chat_models.chat(RUNS[0][0])
    settings = sd.Settings(proposer="eagle", max_new_tokens=LENGTH)
    one, all_ = (sd.decode(replace(chat_models, threads=count), ids, settings) for count in (1, 2))
    for round_of_one, other in zip(one.rounds, all_.rounds, strict=True):
        assert round_of_one.nodes == other.nodes and round_of_one.positions == other.positions


@pytest.mark.slow
def test_the_converted_weights_are_those_that_transformers_reads(
    chat_models: sd.Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, after rounding to bfloat16: what heads were trained on is what everybody decodes with. Catches: a
    conversion that drifts with a library's version."""
    import gguf
    from safetensors.torch import load_file
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    entry = catalogue.find(catalogue.CHAT)
    assert entry is not None and entry.package is not None
    file, folder = sources.packaged_file(entry.package), conversions.find(entry.name, entry.package.sha256)
    if file is None or folder is None:
        pytest.skip("the model came from the hub here")
    # transformers asks for the same table of names once for every module
    monkeypatch.setattr(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map))
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(module(chat_models).config)
    wanted = load_gguf_checkpoint(
        str(file), return_tensors=True, model_to_load=empty, torch_dtype=torch.bfloat16
    )["tensors"]
    found = load_file(folder / "model.safetensors")
    assert found.keys() == wanted.keys() and len(found) == 272
    assert all(torch.equal(found[name], weight) for name, weight in wanted.items())


def _near_tie(models: sd.Models, prompt: list[int], ours: list[int], theirs: list[int]) -> bool:
    """Whether the texts part where the two likeliest tokens are within 1e-4 of each other."""
    at = next(place for place, (mine, other) in enumerate(zip(ours, theirs, strict=False)) if mine != other)
    with torch.inference_mode():
        logits = module(models)(torch.tensor([prompt + theirs[:at]])).logits[0, -1]
    first, second = logits.topk(2).values.tolist()
    return bool(first - second < 1e-4)
