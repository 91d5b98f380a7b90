"""What libraries and benchmarks report as JSON: mlx-lm, OpenVINO GenAI, node-llama-cpp, ONNX Runtime, AIPerf, others.

The libraries write no file of their own; these are the names of their fields, saved as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdec_core.foundations.errors import TraceError, many
from specdec_measure.adapters.acceptance import (
    Acceptance,
    NothingCounted,
    Stated,
    count,
    counted,
    number,
    numbers,
    of_rounds,
    of_shares,
    ratio,
    together,
)
from specdec_measure.adapters.form import Event, Form, choices, inside

from .vllm_counts import vllm_counts

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp"}
PREDICTED = {"used", "unused", "validated", "refuted"}
ONNX = ("rounds", "draft_tokens_proposed", "draft_tokens_accepted")


def _mlx_lm(events: Sequence[Event]) -> Acceptance:
    """A round is a run of guesses and one token of the target's; the end of the text may cut off that one."""
    flags = [event["from_draft"] for event in events]
    if not all(isinstance(flag, bool) for flag in flags):
        raise TraceError("'from_draft' has to be true or false.")
    whole = [event.get("generation_tokens", at) for at, event in enumerate(events, 1)]
    if whole != list(range(1, len(events) + 1)):
        raise TraceError(
            "mlx-lm's stream lacks some of its responses: generation_tokens does not count 1, 2, 3…."
        )
    runs, run = list[int](), 0
    for flag in flags:
        run += flag
        if not flag:
            runs.append(run)
            run = 0
    if run:
        runs.append(run)
    tokens = len(events)
    if not any(flags):
        return Acceptance(
            "mlx-lm", "one stream", None, None, 0, tokens=tokens, passes=tokens,
            remarks=("No token is from a draft. Whether there was one is not in it.",),
        )  # fmt: skip
    at, _ = of_rounds(runs, runs)
    return counted(
        "mlx-lm", "one stream", rounds=len(runs), drafted=None, accepted=sum(flags), at=at, tokens=tokens,
        passes=len(runs), remarks=["How many tokens were guessed is not in it, only which of the text's were."],
    )  # fmt: skip


def _openvino(events: Sequence[Event]) -> Acceptance:
    answer = events[0]
    sizes = numbers(_of_openvino(answer), "m_batch_sizes")
    ids = answer.get("tokens")
    tokens = len(ids) if isinstance(ids, list) else count(answer, "num_generated_tokens")
    if tokens is not None and sum(sizes) != tokens:
        raise TraceError(
            f"OpenVINO's counts contradict each other: {many(tokens, 'token')}, but {sum(sizes):,} in m_batch_sizes."
        )
    tokens, passes = sum(sizes), len(sizes)
    remarks = [
        f"{many(passes, 'pass', 'passes')} wrote {many(tokens, 'token')}: {tokens - passes:,} guesses were accepted, "
        f"or {tokens - passes + 1:,} if the text ends with an accepted guess. Which passes had guesses is not in it."
    ]
    said = inside(answer, "extended_perf_metrics")
    drafted, accepted = count(said, "num_draft_tokens"), count(said, "num_accepted_tokens")
    if drafted is not None and accepted is not None:
        remarks.append(
            f"Its own counts, {accepted:,} of {drafted:,}, are not used: 2026.4.1 leaves a request's last round out of "
            "them."
        )
    return Acceptance("OpenVINO GenAI", "one answer", remarks=tuple(remarks), tokens=tokens, passes=passes)


def _of_openvino(answer: Event) -> Event:
    return inside(answer, "raw_metrics") or inside(answer, "perf_metrics", "raw_metrics")


def _node(events: Sequence[Event]) -> Acceptance:
    accepted, refuted = number(events[0]["validated"], "validated"), number(events[0]["refuted"], "refuted")
    return counted(
        "node-llama-cpp", "tokenPredictions", rounds=None, drafted=accepted + refuted, accepted=accepted,
        remarks=["Guesses behind a refuted one count as refuted."],
    )  # fmt: skip


def _onnx(events: Sequence[Event]) -> Acceptance:
    rounds, drafted, accepted = (number(events[0][name], name) for name in ONNX)
    return counted("ONNX Runtime GenAI", "its statistics", rounds=rounds, drafted=drafted, accepted=accepted)


def _aiperf(events: Sequence[Event]) -> Acceptance:
    said = events[0]
    if isinstance(name := said.get("engine"), str):
        return vllm_counts(
            said, ENGINES.get(name, name[:40]), "one record of AIPerf", count(said, "completion_tokens")
        )
    if "total_draft_tokens" in said:  # TensorRT-LLM's, taken out of its answer
        said = said | {
            "num_accepted_draft_tokens": said.get("total_accepted_draft_tokens"),
            "num_draft_tokens": said["total_draft_tokens"],
        }
        return vllm_counts(said, "TensorRT-LLM")
    return vllm_counts(said)


def _positions(events: Sequence[Event]) -> Acceptance:
    """SpecDecode-Bench asks each proposer at every position of a text; passes are walked from the first position on."""
    answer, stated, tokens = events[0], [], None
    for name in sorted(answer):
        lengths = numbers(inside(answer, name), "acc_len") if name.startswith("acc") else []
        if not lengths:
            continue
        if min(lengths) < 1:
            raise TraceError(
                f"'{name}.acc_len' has an entry below 1; each counts the target's own token too."
            )
        place = passes = 0
        while place < len(lengths):
            place, passes = place + lengths[place], passes + 1
        tokens = len(lengths)
        stated.append(Stated(f"{name}: tokens per pass, walked", (tokens / passes,)))
    return Acceptance(
        "SpecDecode-Bench", "one text", tokens=tokens, stated=tuple(stated),
        remarks=(
            "Each position of the text was tried: a walk takes those at which a pass would have begun. Drafts as long "
            "as were tried; how many were guessed is not in it.",
        ),
    )  # fmt: skip


def _bench(events: Sequence[Event]) -> Acceptance:
    """vLLM's `bench serve`: shares of whole counts."""
    said = events[0]
    rounds = number(said["spec_decode_num_drafts"], "spec_decode_num_drafts")
    rates = said.get("spec_decode_per_position_acceptance_rates")
    at = None
    if (
        isinstance(rates, list)
        and all(isinstance(one, int | float) and abs(one) <= 1 for one in rates)
        and rounds < 10**6
    ):
        at = of_shares([float(one) for one in rates], rounds, 1e-8)
    accepted = count(said, "spec_decode_accepted_tokens")
    fits = at is not None and (accepted is None or sum(at) == accepted)
    return counted(
        "vLLM", "a result of bench serve", rounds=rounds, drafted=count(said, "spec_decode_draft_tokens"),
        accepted=accepted, at=at if at is not None and fits else [],
    )  # fmt: skip


def _sglang_bench(events: Sequence[Event]) -> Acceptance:
    value = events[0]["accept_length"]
    if not isinstance(value, int | float):
        raise NothingCounted(
            "The result of SGLang's bench_serving has no accept_length: its server did not speculate."
        )
    return Acceptance(
        "SGLang",
        "a result of bench_serving",
        stated=(Stated("accept length", (ratio(value, "accept_length"),)),),
    )


def _spec_bench(events: Sequence[Event]) -> Acceptance:
    """Spec-Bench's answers list the tokens of each pass; some methods' lists count the accepted guesses alone."""
    each = []
    for choice in choices(events[0]):
        lengths = numbers(choice, "accept_lengths")
        written = choice.get("new_tokens")
        tokens = (
            sum(numbers(choice, "new_tokens")) if isinstance(written, list) else count(choice, "new_tokens")
        )
        whole = bool(lengths) and min(lengths) >= 1 and sum(lengths) == tokens
        remarks = ["Which passes had guesses, and how many, is not in it."]
        steps = numbers(choice, "decoding_steps")
        if lengths and steps and sum(steps) != len(lengths):
            remarks.append(
                f"Its decoding_steps count {sum(steps):,} passes, its accept_lengths {len(lengths):,}."
            )
        each.append(
            Acceptance(
                _name(events[0]), "one answer of Spec-Bench", accepted=sum(lengths) - len(lengths) if whole else None,
                tokens=tokens, passes=len(lengths) if whole else None,
                stated=() if whole or not lengths else (_mean(lengths),),
                remarks=tuple(remarks),
            )
        )  # fmt: skip
    return together(each, "one answer of Spec-Bench")


def _mean(lengths: Sequence[int]) -> Stated:
    return Stated("mean of accept_lengths", (sum(lengths) / len(lengths),))


def _name(answer: Event) -> str:
    return str(answer.get("model_id", "unknown"))[:80]


def _has(*names: str) -> Any:
    return lambda answer: all(name in answer for name in names)


FORMS = (
    Form(
        "mlx-lm's responses (from_draft)", "**0.32.2**", "yes, with a draft", "no", "yes", "yes", "no",
        "guesses that were rejected", _has("from_draft", "token"), _mlx_lm,
    ),
    Form(
        "OpenVINO GenAI's metrics (m_batch_sizes)", "**2026.4.1.0**", "no; passes", "no",
        "no; two numbers, one of which it is", "no", "no", "which passes had guesses",
        lambda answer: "m_batch_sizes" in _of_openvino(answer), _openvino,
    ),
    Form(
        "node-llama-cpp's tokenPredictions", "**3.21.1**", "no", "yes", "yes", "no", "no", "rounds",
        lambda answer: answer.keys() >= PREDICTED, _node,
    ),
    Form(
        "ONNX Runtime GenAI's speculative stats", "**0.18.0**", "yes", "yes", "yes", "no", "no", "",
        _has(*ONNX), _onnx,
    ),
    Form(
        "Spec-Bench's answers (accept_lengths)", "2024, by its evaluation", "no; passes", "no",
        "where the lengths add up to the tokens", "no", "no", "guesses that were not accepted",
        lambda answer: any("accept_lengths" in one for one in choices(answer)), _spec_bench,
    ),
    Form(
        "AIPerf's acceptance record", "0.13, by source", "yes", "yes", "yes", "yes", "no", "the tokens",
        _has("acceptance_histogram", "num_spec_steps"), _aiperf,
    ),
    Form(
        "SpecDecode-Bench's positions (acc_len)", "2025, by its data", "no; passes of a walk", "no", "no", "no", "no",
        "guesses that were not accepted",
        lambda answer: "generated_token_ids" in answer and any(
            "acc_len" in inside(answer, name) for name in answer if name.startswith("acc")
        ), _positions,
    ),
    Form(
        "vLLM's bench serve, as JSON", "**0.32.0**", "yes", "yes", "yes", "yes", "no", "single requests",
        _has("spec_decode_num_drafts"), _bench,
    ),
    Form(
        "SGLang's bench_serving, as JSON", "0.5, by source", "no", "no", "no", "no", "no",
        "all but the mean length", _has("accept_length", "backend"), _sglang_bench,
    ),
)  # fmt: skip
