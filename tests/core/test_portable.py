"""Settings for other programs: transformers takes them, runs them, and writes the same greedy tokens."""

from __future__ import annotations

import copy
import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.candidate_generator import (
    AssistedCandidateGenerator,
    PromptLookupCandidateGenerator,
)

import specdec_core as sd
from specdec_core.models.generation import Generation
from specdec_measure.portable import servers as servers
from specdec_measure.portable import transformers_vllm as portable

from .tiny import build, tokenizer

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


@pytest.fixture(autouse=True, scope="module")
def _read_once() -> Iterator[None]:
    """The copied code opens its models each time it runs; here their files are read once, and each run gets a copy."""
    opened: dict[str, Any] = {}
    read = AutoModelForCausalLM.from_pretrained

    def from_pretrained(name: str, **options: Any) -> Any:
        key = repr((name, options))
        if key not in opened:
            opened[key] = read(name, **options)
        return copy.deepcopy(opened[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)
        yield


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models(device="cpu", dtype="float32")


def settings(**choices: Any) -> sd.Settings:
    return sd.Settings(**{"max_new_tokens": LENGTH, **choices})


def code(wanted: sd.Settings) -> str:
    return portable.transformers_code(wanted, TARGET, DRAFT, layers=12, prompt=PROMPT)


def run(text: str) -> list[int]:
    """Execute what a visitor copies, word for word and with nothing defined before it, and give the new tokens."""
    space: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(text, "copied", "exec"), space)
    return space["output"][0, space["inputs"]["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("name", RUNS)
def test_the_copied_code_runs_and_writes_the_lane_s_greedy_tokens(models: sd.Models, name: str) -> None:
    """Catches: an argument that transformers 5.24 does not know, or reads from somewhere else."""
    wanted = settings(**RUNS[name])
    assert run(code(wanted)) == sd.decode(models, PROMPT, wanted).token_ids


@pytest.mark.parametrize("proposer", ["text-draft", "shared-tokens"])
def test_the_copied_code_runs_with_a_draft_of_another_tokenizer(
    models: sd.Models, proposer: str, tmp_path: Path
) -> None:
    """Catches: an assistant without its tokenizer, an argument that transformers takes only of the other pair."""
    build("llama", vocab_size=len(tokenizer())).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    wanted = settings(proposer=proposer, draft_length=3)
    plain = sd.decode(models, PROMPT, settings(proposer="none")).token_ids
    assert run(portable.transformers_code(wanted, TARGET, str(tmp_path), prompt=PROMPT)) == plain
    sampled = portable.transformers_code(wanted.but(temperature=0.7), TARGET, str(tmp_path), prompt=PROMPT)
    assert 0 < len(run(sampled)) <= LENGTH  # drawn, so that it may end early
    assert ("# Differs: Drafting by text" in sampled) == (proposer == "text-draft")


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
    """transformers 5.24 ignores num_assistant_tokens in the call: without the assistant's own setting it drafts 20."""
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


def test_penalties_are_carried_over_and_what_is_left_open_stays_open() -> None:
    """Left open, both sides follow the model's own config; given, both use it. Catches: an explicit 1 that is dropped,
    so that a model's config applies there and not here; min-p in a request that vLLM refuses."""
    assert portable.for_transformers(settings()).generate.keys() == {"max_new_tokens", "do_sample"}
    greedy = settings(repetition_penalty=1.0, no_repeat_ngram_size=3, min_p=0.1)
    found = portable.for_transformers(greedy).generate
    assert (found["repetition_penalty"], found["no_repeat_ngram_size"]) == (1.0, 3)
    assert "min_p" not in found
    drawn = portable.for_transformers(greedy.but(temperature=0.7))
    assert drawn.generate["min_p"] == 0.1
    vllm = portable.for_vllm(greedy.but(temperature=0.7))
    assert vllm.generate["repetition_penalty"] == 1.0 and "min_p" not in vllm.generate
    assert any("min_p = 0.1" in said for said in vllm.missing)
    assert any("no_repeat_ngram_size = 3" in said for said in vllm.missing)
    alone = portable.for_vllm(greedy.but(temperature=0.7, proposer="none"))
    assert alone.generate["min_p"] == 0.1


@pytest.mark.parametrize("name", ["draft", "lookup"])
def test_the_code_writes_the_penalised_text_that_is_written_here(name: str, models: sd.Models) -> None:
    """Greedy, with transformers' own assisted decoding. Catches: a penalty that the code leaves out or misspells."""
    chosen = settings(**RUNS[name], repetition_penalty=1.3, no_repeat_ngram_size=4)
    ours = sd.decode(models, PROMPT, chosen).token_ids
    assert run(code(chosen)) == ours
    assert ours != sd.decode(models, PROMPT, settings(**RUNS[name])).token_ids


@pytest.mark.parametrize("stop", ["sub", "def", "(a, ", "b\n", PROMPT[-3:] + "{}"])
@pytest.mark.parametrize("name", ["plain", "draft", "lookup"])
def test_a_stop_string_ends_the_copied_code_s_text_where_it_ends_here(
    name: str, stop: str, models: sd.Models
) -> None:
    """Catches: transformers' own criterion, which a round of guesses runs past."""
    if "{}" in stop:  # it begins in the prompt
        stop = stop.format(sd.decode(models, PROMPT, settings(**RUNS[name])).text[:2])
    wanted = settings(**RUNS[name] | {"stop": (stop,), "max_new_tokens": 40})
    ours = sd.decode(models, PROMPT, wanted)
    assert ours.end == "stop" and run(code(wanted)) == ours.token_ids


def test_what_the_target_s_own_config_sets_is_said_where_it_is_not_supported_here() -> None:
    requested = Generation(not_done=("typical_p",))
    text = portable.transformers_code(settings(), TARGET, DRAFT, requested=requested)
    assert (
        "# Differs: The target's generation_config.json sets typical_p: applied there, not supported here."
        in text
    )


SERVERS: dict[str, Callable[..., str]] = {
    "SGLang": servers.sglang_code,
    "llama.cpp": servers.llama_cpp_code,
    "LM Studio": servers.lm_studio_code,
}


def flags_of(text: str) -> dict[str, str]:
    """The flags of the command in it, as a shell reads them."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    command = shlex.split("\n".join(lines).replace("\\\n", ""))
    flags = (place for place, word in enumerate(command) if word.startswith("-") and word != "-m")
    at = next(flags, len(command))
    return dict(zip(command[at::2], command[at + 1 :: 2], strict=True))


@pytest.mark.parametrize(
    ("choices", "sglang", "llama_cpp"),
    [
        ({"proposer": "none"}, {}, {}),
        (
            {"draft_length": 3},
            {"--speculative-algorithm": "STANDALONE", "--speculative-draft-model-path": "org/draft",
             "--speculative-num-steps": "3", "--speculative-eagle-topk": "1", "--speculative-num-draft-tokens": "4"},
            {"-md": "draft.gguf", "--spec-type": "draft-simple", "--spec-draft-n-max": "3",
             "--spec-draft-p-min": "0.0"},
        ),
        (
            {"proposer": "eagle", "options": {"depth": 6, "top_k": 10, "nodes": 59}},
            {"--speculative-algorithm": "EAGLE", "--speculative-draft-model-path": "path/to/eagle-head",
             "--speculative-num-steps": "6", "--speculative-eagle-topk": "10", "--speculative-num-draft-tokens": "60"},
            None,
        ),
        (
            {"proposer": "eagle3", "options": {"depth": 6, "top_k": 10, "nodes": 59}},
            {"--speculative-algorithm": "EAGLE3", "--speculative-draft-model-path": "path/to/eagle3-head",
             "--speculative-num-steps": "6", "--speculative-eagle-topk": "10", "--speculative-num-draft-tokens": "60"},
            None,
        ),
        (
            {"proposer": "mtp", "options": {"top_k": 1, "nodes": 3}},
            {"--speculative-algorithm": "NEXTN", "--speculative-num-steps": "3", "--speculative-eagle-topk": "1",
             "--speculative-num-draft-tokens": "4"},
            None,
        ),
        (
            {"proposer": "prompt-lookup", "draft_length": 8, "options": {"max_ngram": 3}},
            {"--speculative-algorithm": "NGRAM", "--speculative-num-draft-tokens": "8",
             "--speculative-ngram-max-match-window-size": "3", "--speculative-ngram-max-bfs-breadth": "1"},
            {"--spec-type": "ngram-simple", "--spec-ngram-simple-size-n": "3", "--spec-ngram-simple-size-m": "8"},
        ),
        ({"proposer": "lookahead"}, None, None),
    ],
)  # fmt: skip
def test_servers_get_a_command_that_a_shell_reads(
    choices: dict[str, Any], sglang: dict[str, str] | None, llama_cpp: dict[str, str] | None
) -> None:
    """Catches: a flag under another name or with another lane's number, and a proposer passed off as one they have."""
    for name, wanted in (("SGLang", sglang), ("llama.cpp", llama_cpp)):
        text = SERVERS[name](settings(**choices), "org/target", "org/draft")
        found = flags_of(text)
        found.pop("--model-path", None)
        assert found == (wanted or {})
        assert (f"{name} has no such proposer" in text) == (wanted is None)


@pytest.mark.parametrize("program", SERVERS)
@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"stop": ("x",)}, "The stop string itself"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size = 3"),
        ({"temperature": 0.7, "seed": 9}, "seed = 9"),
        ({"rule": "typical"}, "rule = typical"),
        ({"rule": "block", "temperature": 0.7}, "rule = block"),
        ({"length_policy": "cost-aware"}, "length policy = cost-aware: γ is 4"),
        ({"overlap": True}, "Drafting while the target checks"),
        ({"proposer": "medusa"}, "has no such proposer"),
    ],
)
def test_each_choice_without_a_counterpart_has_its_line_in_each_server(
    program: str, choices: dict[str, Any], said: str
) -> None:
    text = SERVERS[program](settings(**choices), "org/target", "org/draft")
    assert any(line.startswith("# Differs: ") and said in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({}, "tree_temperature: where one was measured for the head, it chooses the tree here;"),
        ({"options": {"tree_temperature": 0.5}}, "tree_temperature = 0.5;"),
        ({"options": {"tree_temperature": 0.5}, "temperature": 0.7}, "tree_temperature = 0.5;"),
        ({"options": {"tree_temperature": 1.0}}, None),
        ({"temperature": 0.7}, None),
        ({"options": {"top_k": 1}}, None),
    ],
)
def test_sglang_is_told_at_which_temperature_a_tree_was_chosen(
    choices: dict[str, Any], said: str | None
) -> None:
    text = SERVERS["SGLang"](settings(proposer="eagle", **choices), "org/target", "org/draft")
    lines = [line for line in text.splitlines() if line.startswith("# Differs: tree_temperature")]
    assert [f"# Differs: {said} SGLang chooses the tree at temperature 1."] * (said is not None) == lines


def test_a_tree_s_length_policy_is_said_without_γ() -> None:
    """Catches: the γ of chains, which says nothing of a tree; a threshold that SGLang's trees would not have."""
    for policy in ("confidence", "cost-aware"):
        text = SERVERS["SGLang"](settings(proposer="eagle", length_policy=policy), "org/target", "org/draft")
        assert (
            f"# Differs: length policy = {policy}: the same amount is drafted in every round there."
            in text.splitlines()
        )


def test_servers_are_sent_the_lane_s_own_sampling_and_not_their_defaults() -> None:
    """Catches: llama.cpp's top-k of 40 and min-p of 0.05, or its temperature after the cuts; a penalty of this lane's
    that a server applies differently, unsaid."""
    drawn = settings(temperature=0.7, top_k=0, top_p=0.9, repetition_penalty=1.2, seed=5)
    request = json.loads(servers.llama_cpp_code(drawn, "t").splitlines()[-1].removeprefix("# "))
    assert request == {
        "n_predict": LENGTH, "temperature": 0.7, "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
        "top_k": 0, "top_p": 0.9, "min_p": 0.0, "seed": 5, "repeat_penalty": 1.2, "repeat_last_n": 4096,
    }  # fmt: skip
    sglang = servers.for_sglang(drawn)
    assert sglang.generate["top_k"] == -1 and sglang.generate["repetition_penalty"] == 1.2
    assert any(line.startswith("repetition_penalty = 1.2") for line in sglang.missing)
    assert servers.for_lm_studio(drawn).generate["repeatPenalty"] == 1.2
    assert not any(
        "repetition_penalty" in line for line in servers.for_sglang(drawn.but(proposer="none")).missing
    )
    off = servers.for_sglang(drawn.but(repetition_penalty=1.0))
    assert not any("repetition_penalty" in line for line in off.missing)


def test_lm_studio_gets_python_that_asks_for_what_the_lane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run against a stand-in for its package, which is not installed. Catches: code that does not parse, or a message
    that loses its system line."""
    asked: list[Any] = []
    model = SimpleNamespace(
        complete=lambda prompt, config: asked.append((prompt, config)),
        respond=lambda chat, config: asked.append((chat, config)),
    )

    class Conversation(list[str]):
        def __init__(self, system: str = "") -> None:
            super().__init__([system])

        def add_user_message(self, text: str) -> None:
            self.append(text)

    fake = SimpleNamespace(llm=lambda name: asked.append(name) or model, Chat=Conversation)
    monkeypatch.setitem(sys.modules, "lmstudio", fake)
    wanted = settings(draft_length=3, length_policy="confidence", length_options={"threshold": 0.2})
    for chat, prompt in ((None, "p"), (sd.Chat("x", "Be brief."), ["Be brief.", "p"])):
        text = servers.lm_studio_code(wanted, "org/target", "org/draft", chat, "p")
        with redirect_stdout(io.StringIO()):
            exec(compile(text, "copied", "exec"), {})
        name, (said, config) = asked[-2:]
        assert (name, said) == ("org/target", prompt)
        assert (config["draftModel"], config["speculativeDecodingNumDraftTokensExact"]) == ("org/draft", 3)
        assert (
            config["speculativeDecodingMinContinueDraftingProbability"] == 0.2
            and config["temperature"] == 0.0
        )


@pytest.mark.parametrize(
    "proposer",
    [
        "branching",
        "medusa",
        "eagle",
        "eagle3",
        "mtp",
        "lookahead",
        "recycling",
        "suffix",
        "blind",
        "oracle",
        "you",
    ],
)
def test_what_transformers_cannot_do_is_said_and_not_replaced(proposer: str) -> None:
    text = code(settings(proposer=proposer))
    other = proposer == "mtp"  # it has them in the files of some targets
    said = (
        "transformers drafts with MTP modules (use_mtp) only"
        if other
        else "transformers has no such proposer"
    )
    assert f"# Differs: {sd.PROPOSERS[proposer].title}: {said}" in text
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
        ({"proposer": "branching", "temperature": 0.5, "seed": 9}, "seed = 9"),
    ],
)
def test_each_choice_without_a_counterpart_has_its_comment_line(choices: dict[str, Any], said: str) -> None:
    for line in code(settings(**choices)).splitlines():
        if said in line:
            assert line.startswith("# Differs: ")
            break
    else:
        raise AssertionError(f"nothing is said about {choices}")


def test_the_ensemble_s_weight_is_carried_over_where_it_works() -> None:
    lossy = {"rule": "ensemble", "rule_options": {"weight": 0.3}, "temperature": 0.8}
    assert portable.for_transformers(settings(**lossy)).generate["assistant_ensemble_weight"] == 0.3
    greedy = portable.for_transformers(settings(**lossy | {"temperature": 0.0}))
    assert "assistant_ensemble_weight" not in greedy.generate
    assert any("greedy text instead" in sentence for sentence in greedy.missing)


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
        ({"proposer": "suffix", "options": {"nodes": 24, "least": 0.2}},
         {"method": "suffix", "num_speculative_tokens": 24, "suffix_decoding_max_spec_factor": 8.0,
          "suffix_decoding_min_token_prob": 0.2, "suffix_decoding_max_cached_requests": 0}),
        ({"proposer": "suffix", "options": {"nodes": 24, "earlier": [[1, 2]]}},
         {"method": "suffix", "num_speculative_tokens": 24, "suffix_decoding_max_spec_factor": 8.0,
          "suffix_decoding_min_token_prob": 0.1}),
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
        assert "# Differs: " in portable.vllm_code(settings(**choices), "t")


MATCHES = ("longest", "first", "last", "most-frequent")


def earliest_of_the_longest(text: list[int], most: int, count: int) -> list[int]:
    """What vLLM's ngram proposer says that it copies, searched from the definition."""
    for size in range(most, 0, -1):
        for begin in range(len(text) - size):
            if text[begin : begin + size] == text[-size:]:
                return text[begin + size : begin + size + count]
    return []


@pytest.mark.parametrize("match", MATCHES)
def test_vllm_s_match_is_the_lab_s_first_and_no_other(match: str) -> None:
    """Random texts: an option that ever copies something else is noted, and one that never does is not."""
    kind, numbers = sd.PROPOSERS["prompt-lookup"], Random(3)
    wanted = settings(proposer="prompt-lookup", draft_length=4, options={"max_ngram": 3, "match": match})
    differs = False
    for _ in range(300):
        text = [numbers.randrange(3) for _ in range(numbers.randint(2, 14))]
        context: Any = SimpleNamespace(source=[], tokens=text, length=4, room=64)
        lookup: Any = kind(None, kind.read_options(wanted))  # type: ignore[arg-type]
        lookup.start(context)
        differs |= lookup.propose(context).tree.tokens != earliest_of_the_longest(text, 3, 4)
    notes = [line for line in portable.for_vllm(wanted).missing if line.startswith("match = ")]
    assert differs == bool(notes) == (match != "first")
    assert all("first of the longest matches" in line for line in notes)


@pytest.mark.parametrize("program", ["transformers", "vllm"])
@pytest.mark.parametrize(
    ("choices", "consequence"),
    [
        ({}, "its distribution is the same"),
        ({"rule": "kseq"}, "its distribution is the same"),
        (
            {"rule": "typical"},
            "its distribution does too: there it is the target's, under rule = typical it is not",
        ),
        (
            {"rule": "confidence"},
            "its distribution does too: there it is the target's, under rule = confidence it is not",
        ),
        ({"proposer": "prompt-lookup", "rule": "ensemble"}, "its distribution does too"),
        ({"proposer": "branching", "rule": "typical"}, "its distribution does too"),
        ({"proposer": "branching"}, "its distribution is the same"),
        ({"proposer": "none", "rule": "typical"}, "its distribution is the same"),
    ],
)
def test_the_same_distribution_is_claimed_only_of_lossless_rules(
    program: str, choices: dict[str, Any], consequence: str
) -> None:
    """Catches: a lossy rule that is missing there, and a text that is said to have the same distribution without it."""
    wanted = settings(temperature=1.0, **choices)
    found = portable.for_vllm(wanted) if program == "vllm" else portable.for_transformers(wanted, layers=12)
    (seed,) = [line for line in found.missing if line.startswith("seed = ")]
    assert consequence in seed
    assert ("its distribution is the same" in seed) == ("its distribution is the same" in consequence)


def test_a_lossy_rule_that_is_carried_over_keeps_its_own_distribution() -> None:
    lossy = settings(temperature=1.0, rule="ensemble", rule_options={"weight": 0.3})
    assert any(
        "its distribution is that of rule = ensemble there too" in line
        for line in portable.for_transformers(lossy).missing
    )
    assert any("there it is the target's" in line for line in portable.for_vllm(lossy).missing)


def test_at_temperature_0_a_lossy_rule_gives_way_to_the_target_s_greedy_text(models: sd.Models) -> None:
    """What transformers writes of a typical lane is plain decoding's text, as the comment says; the lane's is not."""
    wanted = settings(rule="typical", rule_options={"epsilon": 0.01, "delta": 0.01})
    assert "at temperature 0 transformers writes the target's own greedy text instead" in code(wanted)
    plain = sd.decode(models, PROMPT, settings(proposer="none")).token_ids
    assert run(code(wanted)) == plain != sd.decode(models, PROMPT, wanted).token_ids


@pytest.mark.parametrize(
    ("program", "choices", "reason"),
    [
        ("transformers", {"proposer": "shared-tokens"}, "of a draft with another tokenizer"),
        ("transformers", {"proposer": "text-draft"}, "of a draft with another tokenizer"),
        ("vLLM", {"min_p": 0.1}, "it is not cut by min_p"),
        ("vLLM", {"no_repeat_ngram_size": 3}, "no n-gram is banned"),
        ("SGLang", {"repetition_penalty": 1.2}, "repetition_penalty is not applied to each guess"),
        ("SGLang", {"no_repeat_ngram_size": 3, "proposer": "medusa"}, None),
        ("llama.cpp", {"no_repeat_ngram_size": 3}, "no n-gram is banned"),
        ("LM Studio", {"top_p": 0.9}, "its cuts come before the temperature"),
        ("LM Studio", {"top_k": 0}, None),
        ("vLLM", {}, None),
    ],
)
def test_the_same_distribution_is_not_promised_where_a_setting_is_missing(
    program: str, choices: dict[str, Any], reason: str | None
) -> None:
    """Catches: 'its distribution is the same' behind a line that says that min_p is not there."""
    wanted = settings(temperature=0.8, **choices)
    texts = {
        "transformers": lambda: portable.transformers_code(wanted, "org/t", "org/d"),
        "vLLM": lambda: portable.vllm_code(wanted, "org/t", "org/d"),
        **{name: lambda name=name: SERVERS[name](wanted, "org/t", "org/d") for name in SERVERS},  # type: ignore[misc]
    }
    (seed,) = [line for line in texts[program]().splitlines() if line.startswith("# Differs: seed = ")]
    assert ("its distribution is the same" in seed) == (reason is None)
    assert reason is None or f"its distribution is another one: {reason}" in seed


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"proposer": "mtp"}, "vLLM has them only in the target's"),
        ({"proposer": "eagle"}, "An EAGLE head as it ships here"),
        ({"proposer": "medusa"}, "Medusa heads as they ship here"),
        ({"proposer": "suffix"}, "arctic-inference"),
        ({"proposer": "medusa", "rule": "block", "temperature": 0.5}, "model runner V1 only"),
        ({"rule": "block", "temperature": 0.5}, "rule = block where vLLM runs its model runner V1"),
        ({"proposer": "shared-tokens", "temperature": 0.5}, "of a draft with another vocabulary"),
    ],
)
def test_what_vllm_does_not_take_as_it_is_has_its_line(choices: dict[str, Any], said: str) -> None:
    """Catches: a configuration with which vLLM 0.32 does not start, or that it ignores, without a word."""
    text = portable.vllm_code(settings(**choices), "org/target", "org/draft")
    assert any(line.startswith("# Differs: ") and said in line for line in text.splitlines())
    config = served(settings(**choices))[1] or {}
    assert not (config.get("use_heterogeneous_vocab") and "draft_sample_method" in config)
    assert ("rejection_sample_method" in config) == (choices == {"rule": "block", "temperature": 0.5})


def test_a_draft_of_another_size_is_said_to_be_refused_by_vllm() -> None:
    """Catches: a draft with a mask token or a part of the vocabulary, which vLLM refuses at its start."""
    wanted = settings(proposer="parallel-draft")
    text = portable.vllm_code(wanted, TARGET, "a-draft-of-ones-own")
    assert "# Differs: A draft with another number of tokens than the target: vLLM refuses" in text
    assert "vLLM refuses it" not in portable.vllm_code(settings(), TARGET, DRAFT)
    unknown = portable.vllm_code(settings(), "smollm2-135m-instruct", "smollm2-draft")
    assert "# Differs: A draft with another number of tokens than the target: vLLM refuses it." in unknown


@pytest.mark.parametrize(
    ("choices", "said", "flags"),
    [
        ({"temperature": 0.8}, "they lack --spec-draft-sampling", {"--spec-draft-sampling": "probabilistic"}),
        ({"temperature": 0.8, "rule": "token-matching"}, "llama.cpp takes the most likely", {}),
        ({"length_policy": "confidence", "length_options": {"threshold": 0.4}}, "llama.cpp drops it",
         {"--spec-draft-p-min": "0.4"}),
        ({}, "llama.cpp begins to guess behind it", {}),
        # It never guesses fewer tokens than it matches.
        ({"proposer": "prompt-lookup", "draft_length": 2}, "if fewer than 2 follow",
         {"--spec-ngram-simple-size-n": "2", "--spec-ngram-simple-size-m": "2"}),
    ],
)  # fmt: skip
def test_what_llama_cpp_does_otherwise_has_its_line(
    choices: dict[str, Any], said: str, flags: dict[str, str]
) -> None:
    """Catches: a server that never guesses, or that keeps guesses by another rule than the lane, without a word."""
    text = servers.llama_cpp_code(settings(**choices), "org/target", "org/draft")
    assert any(line.startswith("# Differs: ") and said in line for line in text.splitlines())
    assert flags_of(text).items() >= flags.items()
    assert ("--spec-draft-sampling" in text.split("llama-server")[1]) == ("--spec-draft-sampling" in flags)


def test_the_bundled_models_tokenizer_has_to_be_taught_to_llama_cpp_s_converter() -> None:
    """Catches: advice to run a script that ends with an error for the models that ship here."""
    assert "has to return 'smollm'" in servers.llama_cpp_code(settings(), TARGET, DRAFT)
    assert "smollm" not in servers.llama_cpp_code(settings(), "org/target", "org/draft")


def test_vllm_s_greedy_drafts_are_noted_where_the_lab_draws_them() -> None:
    """Without `draft_sample_method` vLLM drafts the likeliest token, whatever the temperature."""
    said = "Drawn guesses: here the draft draws its tokens"
    for choices, noted in (
        ({"rule": "token-matching", "temperature": 0.8}, True),
        ({"rule": "token-matching"}, False),
        ({"temperature": 0.8}, False),
        ({"proposer": "prompt-lookup", "rule": "token-matching", "temperature": 0.8}, False),
    ):
        found = portable.for_vllm(settings(**choices))
        assert any(line.startswith(said) for line in found.missing) == noted
        assert found.config is not None and (noted <= ("draft_sample_method" not in found.config))


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("bundled", "assets/models/specdec-target"),
        ("specdec-target", "assets/models/specdec-target"),
        ("smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ("org/model", "org/model"),
    ],
)
def test_a_short_name_of_here_becomes_what_another_program_can_load(name: str, taken: str) -> None:
    """Catches: `vllm serve bundled`, which is neither a hub id nor a folder."""
    assert shlex.split(portable.vllm_code(settings(), name), comments=True)[2] == taken
    assert flags_of(servers.sglang_code(settings(), name))["--model-path"] == taken


def test_a_hostile_model_name_stays_text() -> None:
    """A trace's model name reaches code that people copy: it must stay one quoted word."""
    name = "x'; import os; os.system('boom') #\n$(boom) `boom`"
    lines = portable.transformers_code(settings(), name, name).splitlines()
    assert all("import os" not in line or repr(name) in line for line in lines)
    command = portable.vllm_code(settings(), name).split("# With each")[0]
    assert shlex.split(command, comments=True)[:3] == ["vllm", "serve", name]
    assert flags_of(servers.sglang_code(settings(), name, name))["--model-path"] == name
    assert "import os" not in re.sub(r"^#.*$", "", servers.llama_cpp_code(settings(), name, name), flags=re.M)
    compile(servers.lm_studio_code(settings(), name, name), "copied", "exec")
