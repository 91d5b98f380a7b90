"""transformers' own assisted generation, recorded: what it returned, what its counters and its models said."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import PreTrainedModel
from transformers.generation import candidate_generator

import specdec_core as sd
from specdec_core.record.schema import Candidates
from specdec_core.sampling import Warp
from specdec_core.sampling.penalties import Penalties
from specdec_measure.adapters.generate.transformers import record

from .tiny import PROMPTS, build, like, tokenizer

CALLS: dict[str, dict[str, Any]] = {
    "greedy draft": {},
    "sampled draft": {"do_sample": True, "temperature": 0.9, "top_k": 20},
    "greedy with a penalty": {"repetition_penalty": 1.3},
    "sampled with a penalty": {"do_sample": True, "temperature": 0.5, "top_k": 5, "repetition_penalty": 1.3},
    "greedy lookup": {"prompt_lookup_num_tokens": 4},
    "sampled lookup": {"prompt_lookup_num_tokens": 4, "do_sample": True, "temperature": 0.05},
    "early exit": {"assistant_early_exit": 1},
    "a doubtful draft": {"threshold": 0.5},
    "an early end": {"eos_token_id": "the sixth token"},
}


@pytest.fixture(scope="module")
def pair() -> tuple[PreTrainedModel, PreTrainedModel]:
    """A target, and a draft that partly agrees with it."""
    target = build("llama")
    draft = like(target, "llama", noise=0.25)
    draft.generation_config.num_assistant_tokens = 5
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return target, draft


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """transformers' own numbers of each round: how many candidates, how many of them it says matched."""
    found: list[tuple[int, int]] = []
    for kind in (
        candidate_generator.AssistedCandidateGenerator,
        candidate_generator.PromptLookupCandidateGenerator,
    ):
        update = kind.update_candidate_strategy

        def counting(self: Any, ids: Any, scores: Any, matches: Any, update: Any = update) -> Any:
            found.append((scores.shape[1] - 1, int(matches)))
            return update(self, ids, scores, matches)

        monkeypatch.setattr(kind, "update_candidate_strategy", counting)
    return found


@pytest.mark.parametrize("call", CALLS)
def test_the_record_is_what_transformers_did(
    call: str,
    pair: tuple[PreTrainedModel, PreTrainedModel],
    counted: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches: a recorded token, round or accepted guess that transformers did not have; a recording that changes the
    text; a wrong probability."""
    target, draft = pair
    options: dict[str, Any] = {"do_sample": False} | CALLS[call]
    doubt = options.pop("threshold", 0.0)
    monkeypatch.setattr(draft.generation_config, "assistant_confidence_threshold", doubt)
    if not {"prompt_lookup_num_tokens", "assistant_early_exit"} & options.keys():
        options["assistant_model"] = draft
    prompt = PROMPTS[2] * 3
    given = torch.tensor([prompt])
    options |= {"max_new_tokens": 24, "attention_mask": torch.ones_like(given)}
    if "eos_token_id" in options:
        options["eos_token_id"] = int(
            target.generate(given, **options | {"eos_token_id": None})[0, len(prompt) + 5]
        )
    torch.manual_seed(7)
    alone = target.generate(given, **options)[0, len(prompt) :].tolist()
    counted.clear()
    trace = record(target, prompt, tokenizer(), seed=7, **options)

    assert trace.token_ids == alone and trace.audit() == []
    assert [len(row.nodes.token) for row in trace.rounds] == [candidates for candidates, _ in counted]
    accepted = [row.nodes.verdict.count("accepted") for row in trace.rounds]
    ended = trace.rounds[-1].committed.source[-1] == "accepted"
    # Of a text that ends with a candidate, transformers counts that one as its own token.
    assert accepted == [
        matches + (ended and at == len(counted) - 1) for at, (_, matches) in enumerate(counted)
    ]
    assert 0 < trace.stats.accepted < trace.stats.proposed or call == "an early end"
    assert "_get_candidate_generator" not in vars(target) and not target._forward_hooks
    _check_probabilities(trace, target, prompt)
    assert sd.Trace.from_json(trace.to_json()) == trace
    assert all(row.nodes.coin is None for row in trace.rounds)
    assert trace.header.settings["proposer"] in sd.PROPOSERS
    if doubt:
        assert trace.header.settings["length_options"] == {"threshold": doubt}
        assert len({len(row.nodes.token) for row in trace.rounds}) > 1
    assert trace.stats.decode_s > 0 and trace.rounds[0].note == {"reads_prompt": True}


def _check_probabilities(trace: sd.Trace, target: PreTrainedModel, prompt: list[int]) -> None:
    """The target's recorded probabilities against a pass over the finished text, warped by our own code."""
    settings, text = trace.header.settings, [*prompt, *trace.token_ids]
    warp = Warp(settings["temperature"], settings["top_k"], settings["top_p"])
    penalties = Penalties(settings["repetition_penalty"])
    with torch.inference_mode():
        logits = target(torch.tensor([text])).logits[0].float()
    at = len(prompt) - 1
    for row in trace.rounds:
        for position in row.positions:
            past = penalties.after(text[: at + 1])
            penalised = logits[at] if past is None else past.next(logits[at])
            _same(position.model_p, logits[at].softmax(-1))
            _same(position.penalised_p, None if past is None else penalised.softmax(-1))
            _same(position.p, warp(penalised))
            for node in (node for node, parent in enumerate(row.nodes.parent) if parent == position.at):
                assert row.nodes.rank is not None and row.nodes.p_max is not None
                token = row.nodes.token[node]
                assert row.nodes.rank[node] == 1 + int((penalised > penalised[token]).sum())
                if not warp.greedy:
                    assert row.nodes.p_max[node] == pytest.approx(float(warp(penalised).max()), abs=1e-4)
            at += 1


def _same(head: Candidates | None, probs: torch.Tensor | None) -> None:
    """A recorded distribution is this one; None: it is not kept."""
    assert (head is None) == (probs is None)
    if head is not None and probs is not None:
        assert torch.allclose(probs[head.id], torch.tensor(head.prob), atol=1e-4)


def test_a_call_that_does_not_speculate_is_refused(pair: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    """Catches: an empty record of a plain generate."""
    with pytest.raises(sd.SettingsError, match="does not speculate"):
        record(pair[0], [1, 2, 3], tokenizer(), max_new_tokens=4)


def test_what_is_no_prompt_or_no_model_is_one_sentence(pair: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    """Catches: a TypeError or an AttributeError from inside transformers."""
    for prompt in (3, None, [1.5], b"ab"):
        with pytest.raises(sd.PromptError, match="A prompt is text or a list of token ids"):
            record(pair[0], prompt, tokenizer(), assistant_model=pair[1])  # type: ignore[arg-type]
    for given in ({"assistant_model": "x"}, {"model": "x"}, {"tokenizer": "x"}):
        with pytest.raises(sd.ModelError, match=r"transformers has loaded, got a value of type str\."):
            record(**{"model": pair[0], "prompt": "a", "tokenizer": tokenizer(), **given})  # type: ignore[arg-type]


def test_stop_strings_are_recorded(pair: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    """Catches: a call that ends in a traceback because `generate` was not given the tokenizer, a length that is called
    the end, and a refusal by transformers that is no sentence."""
    target, draft = pair
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 24}
    free = record(target, PROMPTS[0], tokenizer(), prompt_lookup_num_tokens=3, **options)
    stop = tokenizer().convert_ids_to_tokens(free.token_ids[4])
    for given in (stop, [stop]):
        trace = record(
            target, PROMPTS[0], tokenizer(), prompt_lookup_num_tokens=1, stop_strings=given, **options
        )
        assert trace.header.settings["stop"] == [stop]
        assert trace.audit() == []
    with pytest.raises(sd.SettingsError, match=r"^transformers refuses this call of generate: "):
        record(target, PROMPTS[0], tokenizer(), assistant_model=draft, stop_strings=[stop], **options)
    with pytest.raises(sd.SettingsError, match="64 characters"):
        record(target, PROMPTS[0], tokenizer(), prompt_lookup_num_tokens=1, stop_strings="x" * 65, **options)
