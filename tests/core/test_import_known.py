"""Decodes of our own, logged in each engine's form: an import gives what happened, or says that it is unknown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest

import specdec_core as sd
from specdec_measure.adapters import forms, logs
from specdec_measure.adapters.as_json import answers
from specdec_measure.adapters.as_json.timeline import ALWAYS

from .tiny import PROMPTS, pair

KINDS = {
    "draft-model": {"draft_length": 4},
    "prompt-lookup": {"draft_length": 4, "options": {"max_ngram": 2}},
    "suffix": {"options": {"shape": "chain"}},
}


@dataclass(frozen=True)
class Known:
    """What an engine did: the prompt's pass wrote the first token; then passes, each with guesses and kept ones.

    The answer is cut in the last pass, whose kept guesses are counted whole, as vLLM and llama.cpp do.
    """

    kind: str
    prompt: list[int]
    ids: list[int]
    passes: list[tuple[int, int]]

    @property
    def rounds(self) -> list[tuple[int, int]]:
        return [one for one in self.passes if one[0]]

    def committed(self) -> list[list[int]]:
        """The tokens of the prompt's pass and of each pass after it."""
        ends = [1, *(1 + end for end in accumulate(kept + 1 for _, kept in self.passes))]
        return [self.ids[:1], *(self.ids[one:other] for one, other in pairwise(ends))]


def decodes(kind: str) -> Iterator[Known]:
    models = pair("llama")
    for prompt in PROMPTS:
        first = sd.decode(models, prompt, sd.Settings(proposer="none", max_new_tokens=1)).token_ids
        done = sd.decode(models, prompt + first, sd.Settings(proposer=kind, max_new_tokens=40, **KINDS[kind]))
        passes = [
            (len(row.nodes.token), row.nodes.verdict.count("accepted"))
            for row in done.rounds[:-1]  # the limit shortened the last one's draft
        ]
        written = sum(kept + 1 for _, kept in passes)
        yield Known(kind, prompt, first + done.token_ids[:written], passes)


def cut(whole: Known, random: Random) -> Known:
    """The same, ended by a limit somewhere."""
    length = random.randint(2, len(whole.ids))
    passes, written = [], 1
    for guessed, kept in whole.passes:
        if written >= length:
            break
        passes.append((guessed, kept))
        written += kept + 1
    return Known(whole.kind, whole.prompt, whole.ids[:length], passes)


def mixed(random: Random) -> Known:
    """Passes of any kind: those without guesses anywhere, drafts of any length."""
    kind = random.choice(["prompt-lookup", "suffix", "draft-model", "eagle3"])
    always = kind in ALWAYS
    passes = []
    for _ in range(random.randint(1, 6)):
        guessed = 3 if always else random.choice([0, 0, 1, 3, 3])
        passes.append((guessed, random.randint(0, guessed)))
    ids = [random.randrange(50) for _ in range(1 + sum(kept + 1 for _, kept in passes))]
    return cut(Known(kind, [1, 2], ids, passes), random)


@pytest.fixture(scope="module")
def known() -> list[Known]:
    random = Random(7)
    real = [one for kind in KINDS for one in decodes(kind)]
    assert all(any(kept for _, kept in one.passes) for one in real if one.kind == "draft-model")
    assert any(not guessed for one in real for guessed, _ in one.passes)
    return [
        *real,
        *(cut(one, random) for one in real for _ in range(20)),
        *(mixed(random) for _ in range(1_000)),
    ]


def vllm(one: Known, most: int) -> dict[str, Any]:
    kept, guessed = [kept for _, kept in one.rounds], [guessed for guessed, _ in one.rounds]
    histogram = [kept.count(at) for at in range(most + 1)]
    said = {
        "acceptance_histogram": histogram, "num_spec_steps": len(kept), "num_spec_tokens": most,
        "num_accepted_draft_tokens": sum(kept), "num_draft_tokens": sum(guessed),
        "per_step_accepted": kept or None, "per_step_drafted": guessed or None,
    }  # fmt: skip
    choice = {"finish_reason": "length", "token_ids": one.ids, "prompt_token_ids": one.prompt}
    return {"model": "m", "choices": [choice], "metrics": {"speculative_decoding": said}}


def chunks(one: Known, answer: dict[str, Any], random: Random) -> bytes:
    """The same answer as a stream, in which the load joins the tokens of some passes."""
    pieces: list[list[int]] = []
    for tokens in one.committed():
        if pieces and random.random() < 0.2:
            pieces[-1] += tokens
        else:
            pieces.append(list(tokens))
    events: list[dict[str, Any]] = [
        {
            "id": "a",
            "object": "text_completion.chunk",
            "choices": [{"index": 0, "token_ids": ids, "text": "x"}],
        }
        for ids in pieces
    ]
    events[0]["choices"][0]["prompt_token_ids"] = one.prompt
    events[-1]["choices"][0]["finish_reason"] = "length"
    events.append({"id": "a", "object": "text_completion.chunk", "choices": [], "metrics": answer["metrics"]})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def most_of(one: Known) -> int:
    return 3 if one.kind in ("eagle3",) else max([guessed for guessed, _ in one.passes], default=0) or 3


def test_a_timeline_of_vllm_is_the_true_one_or_there_is_none(known: list[Known]) -> None:
    """Catches: a pass without guesses drawn as part of a round; a round cut elsewhere than at the end."""
    random, drawn = Random(3), Counter[str]()
    for one in known:
        answer = vllm(one, most_of(one))
        for data in (json.dumps(answer).encode(), chunks(one, answer, random)):
            (read,) = answers.parse(data)
            try:
                made = answers.trace(read, proposer=one.kind, temperature=0, rule="exact-match")
            except sd.TraceError:
                continue
            drawn[one.kind] += 1
            assert [row["committed"]["token"] for row in made["rounds"]] == one.committed()
            assert [len(row.get("nodes", {"token": []})["token"]) for row in made["rounds"][1:]] == [
                guessed for guessed, _ in one.passes
            ]
    assert drawn["draft-model"] > 100 and drawn["eagle3"] > 100 and drawn["prompt-lookup"] > 10


def truth(rounds: Sequence[tuple[int, int]]) -> tuple[int, int, int, tuple[int, ...]]:
    deepest = max((guessed for guessed, _ in rounds), default=0)
    at = tuple(sum(kept > place for _, kept in rounds) for place in range(deepest))
    return len(rounds), sum(guessed for guessed, _ in rounds), sum(kept for _, kept in rounds), at


def stripped(at: Sequence[int]) -> list[int]:
    return [one for one in at if one]


def test_counts_of_each_form_are_the_true_ones_or_unknown(known: list[Known]) -> None:
    """Catches: a sum of vLLM's counts, of a page of metrics or of a log line that is not what happened."""
    for one in known:
        rounds, drafted, accepted, at = truth(one.rounds)
        found = forms.read(json.dumps(vllm(one, most_of(one))).encode())
        assert found is not None and (found.rounds, found.drafted, found.accepted) == (
            rounds,
            drafted,
            accepted,
        )
        assert stripped(found.at) == stripped(at)
        for name in ("vllm", "llamacpp"):
            counts = {"drafts": rounds, "draft_tokens": drafted, "accepted_tokens": accepted}
            page = "".join(
                f"{name}:spec_decode_num_{key}_total {count}\n" for key, count in counts.items()
            ) + "".join(
                f'{name}:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} {count}\n'
                for place, count in enumerate(at)
            )
            found = forms.read(page.encode())
            assert found is not None and (found.rounds, found.drafted, found.accepted) == (
                rounds,
                drafted,
                accepted,
            )
            assert stripped(found.at) == stripped(at)
        if not rounds:
            continue
        rates = ", ".join(f"{count / rounds:.3f}" for count in at)
        line = (
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / rounds:.2f}, Accepted throughput: 1.00 "
            f"tokens/s, Drafted throughput: 1.00 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
            f"Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {accepted / drafted:.1%}\n"
        )
        logged = logs.read(line)
        assert logged is not None and (logged.drafted, logged.accepted) == (drafted, accepted)
        assert logged.rounds in (rounds, None) and stripped(logged.at) in (stripped(at), [])
        mean = f"draft acceptance = {accepted / drafted:.5f} ( {accepted} accepted / {drafted} generated), mean len = "
        logged = logs.read(f"slot print_timing: id  0 | task 1 | {mean}{1 + accepted / rounds:5.2f}\n")
        assert logged is not None and (logged.drafted, logged.accepted) == (drafted, accepted)
        assert logged.rounds in (rounds, None)


def test_streams_of_llama_cpp_and_mlx_lm_show_the_true_rounds(known: list[Known]) -> None:
    """Catches: a round that begins a token too late or too early; the end's cut round counted otherwise than it was."""
    told = 0
    for one in known:
        rows = []
        n = guessed_so_far = kept_so_far = 0
        for (guessed, kept), tokens in zip([(0, 0), *one.passes], one.committed(), strict=True):
            guessed_so_far, kept_so_far = guessed_so_far + guessed, kept_so_far + kept
            for token in tokens:
                n += 1
                counts = (
                    {"draft_n": guessed_so_far, "draft_n_accepted": kept_so_far} if guessed_so_far else {}
                )
                rows.append(
                    {"content": "x", "tokens": [token], "stop": False, "timings": {"predicted_n": n} | counts}
                )
        rows.append(rows[-1] | {"content": "", "tokens": [], "stop": True})
        settings = {"generation_settings": {"speculative.types": "ngram-simple"}}
        rows[-1] |= settings
        found = forms.read("".join(f"data: {json.dumps(row)}\n\n" for row in rows).encode())
        rounds, drafted, accepted, at = truth(one.rounds)
        assert found is not None and (found.drafted, found.accepted) == (drafted, accepted)
        assert found.rounds in (rounds, None) and stripped(found.at) in (stripped(at), [])
        told += found.rounds is not None
        if any(not guessed for guessed, _ in one.passes):
            continue
        flags = [
            at < kept
            for (_, kept), tokens in zip([(0, 0), *one.passes], one.committed(), strict=True)
            for at in range(len(tokens))
        ][1:]  # mlx-lm guesses from its first pass on
        lines = [
            {"text": "x", "token": 1, "from_draft": flag, "generation_tokens": at}
            for at, flag in enumerate(flags, 1)
        ]
        found = forms.read("\n".join(map(json.dumps, lines)).encode())
        assert found is not None and found.accepted == sum(flags)
        assert found.rounds == (len(one.passes) if any(flags) else None)
    assert told > len(known) // 2


def test_openvino_s_passes_are_the_true_ones(known: list[Known]) -> None:
    """Catches: accepted guesses of a library that reports the tokens of each pass only, taken for certain."""
    for one in known:
        sizes = [len(tokens) for tokens in one.committed()]
        found = forms.read(json.dumps({"tokens": one.ids, "raw_metrics": {"m_batch_sizes": sizes}}).encode())
        assert found is not None and (found.tokens, found.passes) == (len(one.ids), 1 + len(one.passes))
        assert found.accepted is None and found.rounds is None
