"""Settings for other programs: transformers takes them, runs them, and writes the same greedy tokens."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stdout
from typing import Any

import pytest
from transformers import GenerationConfig
from transformers.generation.candidate_generator import (
    AssistedCandidateGenerator,
    PromptLookupCandidateGenerator,
)

import specdec_core as sd
from specdec_core import portable

PROMPT = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n"
LENGTH = 24
TARGET, DRAFT = "specdec-target", "specdec-draft"
RUNS = {
    "plain": {"proposer": "none"},
    "draft": {"draft_length": 3},
    "draft-confident": {
        "draft_length": 6,
        "length_policy": "confidence",
        "length_options": {"threshold": 0.2},
    },
    "draft-heuristic": {"draft_length": 3, "length_policy": "heuristic"},
    "lookup": {"proposer": "prompt-lookup", "draft_length": 5, "options": {"max_ngram": 2, "match": "first"}},
    "early-exit": {"proposer": "early-exit", "draft_length": 2, "options": {"layer": 4}},
    "early-exit-third": {"proposer": "early-exit", "draft_length": 2},
    "stop": {"draft_length": 3, "stop": ("return",)},
}


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models(device="cpu", dtype="float32")


def settings(**choices: Any) -> sd.Settings:
    return sd.Settings(**{"max_new_tokens": LENGTH, **choices})


def code(wanted: sd.Settings) -> str:
    return portable.transformers_code(wanted, TARGET, DRAFT, layers=12)


def run(text: str) -> list[int]:
    """Execute what a visitor copies, word for word, and give the new tokens."""
    space: dict[str, Any] = {"prompt": PROMPT}
    with redirect_stdout(io.StringIO()):
        exec(compile(text, "copied", "exec"), space)
    return space["output"][0, space["inputs"]["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("name", RUNS)
def test_the_copied_code_runs_and_writes_the_lane_s_greedy_tokens(models: sd.Models, name: str) -> None:
    """Catches: an argument that transformers 5.23 does not know, or reads from somewhere else."""
    wanted = settings(**RUNS[name])
    assert run(code(wanted)) == sd.decode(models, PROMPT, wanted).token_ids


def test_every_name_is_one_that_transformers_knows_and_validates() -> None:
    known = set(GenerationConfig().to_dict())
    for choices in [
        *RUNS.values(),
        {"temperature": 0.7, "rule": "ensemble", "rule_options": {"weight": 0.3}},
    ]:
        found = portable.for_transformers(settings(**choices), layers=12)
        assert set(found.generate) | set(found.draft) <= known
        built = GenerationConfig(**found.generate, **found.draft)
        built.validate(strict=True)
        for name, value in {**found.generate, **found.draft}.items():
            assert getattr(built, name) == value


@pytest.mark.parametrize(("gamma", "schedule"), [(3, "fixed"), (5, "fixed")])
def test_the_draft_length_reaches_transformers(
    gamma: int, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers 5.23 ignores num_assistant_tokens in the call: without the assistant's own setting it drafts 20."""
    lengths = []
    ask = AssistedCandidateGenerator.get_candidates

    def watch(self: Any, ids: Any, **more: Any) -> Any:
        candidates = ask(self, ids, **more)
        lengths.append(candidates[0].shape[1] - ids.shape[1])
        return candidates

    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", watch)
    run(code(settings(draft_length=gamma, length_policy=schedule)))
    assert max(lengths) == gamma
    assert lengths[0] == gamma


def test_prompt_lookup_gets_its_length_and_ngram(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    build = PromptLookupCandidateGenerator.__init__

    def watch(self: Any, **given: Any) -> None:
        made.append((given["num_output_tokens"], given["max_matching_ngram_size"]))
        build(self, **given)

    monkeypatch.setattr(PromptLookupCandidateGenerator, "__init__", watch)
    run(code(settings(**RUNS["lookup"])))
    assert made == [(5, 2)]


def test_sampling_is_carried_over_whole() -> None:
    """Catches: transformers' own top_k of 50 slipping in where all tokens were meant."""
    found = portable.for_transformers(settings(temperature=0.7, top_k=0, top_p=0.9))
    assert found.generate == {
        "max_new_tokens": LENGTH, "do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 0.9,
    }  # fmt: skip
    assert any("random numbers" in sentence for sentence in found.missing)


@pytest.mark.parametrize("proposer", ["branching", "medusa", "eagle", "lookahead", "blind", "oracle", "you"])
def test_what_transformers_cannot_do_is_said_and_not_replaced(proposer: str) -> None:
    text = code(settings(proposer=proposer))
    assert f"# Not here: {sd.PROPOSERS[proposer].title}: transformers has no such way to guess" in text
    assert "assistant" not in re.sub(r"^#.*$", "", text, flags=re.M)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"rule": "typical"}, "rule = typical"),
        ({"rule": "block", "temperature": 0.5}, "rule = block"),
        ({"overlap": True}, "Drafting while the target checks"),
        ({"memory_budget_mb": 5.0}, "memory budget"),
        ({"length_policy": "cost-aware"}, "length policy = cost-aware"),
        ({"proposer": "prompt-lookup"}, "match = longest"),
        ({"temperature": 0.5, "seed": 9}, "seed = 9"),
    ],
)
def test_each_choice_without_a_counterpart_has_its_comment_line(choices: dict[str, Any], said: str) -> None:
    for line in code(settings(**choices)).splitlines():
        if said in line:
            assert line.startswith("# Not here: ")
            break
    else:
        raise AssertionError(f"nothing is said about {choices}")


def test_the_ensemble_s_weight_is_carried_over_where_it_works() -> None:
    lossy = {"rule": "ensemble", "rule_options": {"weight": 0.3}, "temperature": 0.8}
    assert portable.for_transformers(settings(**lossy)).generate["assistant_ensemble_weight"] == 0.3
    greedy = portable.for_transformers(settings(**lossy | {"temperature": 0.0}))
    assert "assistant_ensemble_weight" not in greedy.generate
    assert any("no such rule at temperature 0" in sentence for sentence in greedy.missing)


def served(wanted: sd.Settings) -> tuple[list[str], dict[str, Any] | None]:
    """The command as a shell reads it, and the configuration in it."""
    lines = [line for line in portable.vllm_code(wanted, "org/target", "org/draft").splitlines() if line]
    command = shlex.split("\n".join(line for line in lines if not line.startswith("#")))
    config = command[command.index("--speculative-config") + 1] if "--speculative-config" in command else None
    return command, json.loads(config) if config else None


@pytest.mark.parametrize(
    ("choices", "config"),
    [
        ({"proposer": "none"}, None),
        ({"draft_length": 3}, {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 3}),
        ({"rule": "block", "temperature": 0.5},
         {"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 4,
          "draft_sample_method": "probabilistic", "rejection_sample_method": "block"}),
        ({"proposer": "prompt-lookup", "draft_length": 6, "options": {"max_ngram": 2}},
         {"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 2, "prompt_lookup_min": 1}),
        ({"proposer": "lookahead"}, None),
        ({"proposer": "branching"}, None),
    ],
)  # fmt: skip
def test_vllm_gets_a_command_that_a_shell_and_json_read(
    choices: dict[str, Any], config: dict[str, Any] | None
) -> None:
    command, found = served(settings(**choices))
    assert command[:3] == ["vllm", "serve", "org/target"]
    assert found == config
    if config is None and choices["proposer"] != "none":
        assert "# Not here: " in portable.vllm_code(settings(**choices), "t")


def test_a_hostile_model_name_stays_text() -> None:
    """A trace's model name reaches code that people copy: it must stay one quoted word."""
    name = "x'; import os; os.system('boom') #\n$(boom) `boom`"
    lines = portable.transformers_code(settings(), name, name).splitlines()
    assert all("import os" not in line or repr(name) in line for line in lines)
    command = portable.vllm_code(settings(), name).split("# With each")[0]
    assert shlex.split(command, comments=True)[:3] == ["vllm", "serve", name]
