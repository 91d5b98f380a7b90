"""Answers of servers, as JSON or as streams of events: what they say about the guesses of one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specdec_core.foundations.errors import TraceError, many
from specdec_measure.adapters.acceptance import (
    Acceptance,
    NothingCounted,
    Stated,
    by_position,
    count,
    counted,
    number,
    numbers,
    of_rounds,
    ratio,
    together,
)
from specdec_measure.adapters.form import Event, Form, choices, inside

from .streams import whole
from .vllm_counts import MAX_GUESSES, ONE, vllm_counts

PER_PASS = "avg_decoded_tokens_per_iter"  # TensorRT-LLM's
SGLANG: dict[str, tuple[str, ...]] = {  # the names have changed; newest first
    "drafted": ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"),
    "accepted": ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num"),
    "histogram": ("spec_correct_drafts_histogram", "spec_accept_histogram"),
}
LM_STUDIO = ("acceptedDraftTokensCount", "accepted_draft_tokens_count")


def _written(answer: Event) -> int | None:
    """How many tokens an answer of one choice has, as far as it says so."""
    usage = inside(answer, "usage")
    if len(choices(answer)) <= 1 and usage.get("completion_tokens") is not None:
        return count(usage, "completion_tokens")
    return None


def _vllm(events: Sequence[Event]) -> Acceptance:
    answer = whole(events)
    if said := inside(answer, "metrics", "speculative_decoding"):
        return vllm_counts(said, tokens=_written(answer))
    each = [inside(one, "speculative_decoding_stats") for one in choices(answer)]
    if any(each):
        return together([vllm_counts(one) for one in each if one], ONE)
    stopped = any(isinstance(one.get("stop_reason"), str) for one in choices(answer))
    several = len(choices(answer)) > 1
    why = (
        "a stop string ended it, and vLLM 0.32 then reports none."
        if stopped
        else "it has several choices, and vLLM 0.32 then reports none."
        if several
        else "vLLM 0.32 reports them if it is started with --per-request-spec-decode-metrics, of one prompt with "
        "n = 1, and not where a stop string ended the answer."
    )
    raise NothingCounted(f"The answer has no counts of guesses (its 'metrics' are null): {why}")


def _of_sglang(answer: Event) -> list[Event]:
    """The same counts are in one place of `/generate` and in another of the OpenAI paths, there of each choice."""
    details = inside(answer, "sglext").get("spec_tokens_details")
    places = [inside(answer, "meta_info"), *(inside(one, "meta_info") for one in choices(answer))]
    listed = details if isinstance(details, list) else [details]
    return [one for one in [*places, *listed] if isinstance(one, dict) and "spec_verify_ct" in one]


def _sglang(events: Sequence[Event]) -> Acceptance:
    answer = whole(events)
    found = _of_sglang(answer)
    if not found:
        raise NothingCounted(
            "SGLang's answer has no counts of guesses. Its /generate reports them in meta_info while it speculates, "
            "its other paths if the request has return_spec_tokens_details."
        )
    each = [_sglang_counts(one, _written(answer) if len(found) == 1 else None) for one in found]
    details = inside(answer, "sglext").get("spec_tokens_details")
    all_of = max(len(details) if isinstance(details, list) else 0, len(choices(answer)))
    silent = all_of - len(found)
    remark = (
        f"{silent:,} of {many(all_of, 'choice')} {'has' if silent == 1 else 'have'} no counts of guesses; the numbers "
        "are of the others."
    )
    return together(each, ONE, [remark] if silent > 0 else [])


def _sglang_counts(said: Event, tokens: int | None) -> Acceptance:
    named = {key: next((name for name in names if name in said), names[0]) for key, names in SGLANG.items()}
    rounds, accepted = count(said, "spec_verify_ct"), count(said, named["accepted"])
    histogram = numbers(said, named["histogram"])
    at, drafted = by_position(histogram), count(said, named["drafted"])
    remarks = [
        "SGLang does not say whether it guessed chains or trees, so which guesses were judged is unknown."
    ]
    # Older versions count the target's own token too.
    if at and (sum(histogram) != rounds or sum(at) != accepted):
        at = []
        remarks.append("Its histogram counts something else than accepted guesses, and is left out.")
    cut = said.get("spec_cap_length")
    stated = (
        [Stated("cap length", (ratio(cut, "spec_cap_length"),))]
        if isinstance(cut, int | float) and cut
        else []
    )
    if stated:
        remarks.append(
            f"SGLang cut drafts before it checked them; it counts {many(drafted, 'guess', 'guesses')} before the cut."
            if drafted is not None
            else "SGLang cut drafts before it checked them."
        )
        drafted = None
    return counted(
        "SGLang", ONE, rounds=rounds, drafted=drafted, accepted=accepted, at=at, chain=False, remarks=remarks,
        tokens=count(said, "completion_tokens") if tokens is None else tokens, stated=stated,
    )  # fmt: skip


def _llama_cpp(events: Sequence[Event]) -> Acceptance:
    answer = whole(events)
    said = inside(answer, "timings")
    tokens = count(said, "predicted_n")
    if "draft_n" not in said:
        none = Acceptance("llama.cpp", ONE, 0, 0, 0, tokens=tokens)
        kinds = str(inside(answer, "generation_settings").get("speculative.types", "none"))
        if set(kinds.split(",")) - {"none", ""}:
            return replace(
                none, remarks=("draft_n is left out where it is 0: nothing was guessed in an answer.",)
            )
        raise NothingCounted(
            "llama.cpp's answer has no counts of guesses: draft_n is left out where it is 0, so the server did not "
            "speculate, or nothing was guessed here.",
            none,
        )
    drafted, accepted = count(said, "draft_n"), count(said, "draft_n_accepted") or 0
    grown = growth(events)
    if grown is None:
        passes = f" {tokens - accepted:,} here," if tokens is not None and tokens >= accepted else ""
        remark = (
            f"Rounds are not in it: predicted_n − draft_n_accepted,{passes} counts the passes only where the end of "
            "the answer cut none short, and some of them may have guessed nothing. A stream with timings_per_token, "
            "and the server's log and /metrics, count rounds."
        )
        return counted(
            "llama.cpp", ONE, rounds=None, drafted=drafted, accepted=accepted, remarks=[remark], tokens=tokens
        )
    at, reached = of_rounds([one for one, _ in grown], [one for _, one in grown])
    return Acceptance("llama.cpp", "one stream", len(grown), drafted, accepted, at, reached, tokens=tokens)


def growth(events: Sequence[Event]) -> list[tuple[int, int]] | None:
    """Guesses and accepted ones of each round with guesses; None where `passes` is."""
    found = passes(events)
    return [one for one in found if one[0]] or None if found is not None else None


def passes(events: Sequence[Event]) -> list[tuple[int, int]] | None:
    """Guesses and accepted ones of each pass after the first token, from counts that grow with a round's first token.

    None unless every token has its event, so that no two rounds can be in one.
    """
    rows = [said for event in events if (said := inside(event, "timings")).get("predicted_n") is not None]
    found: list[tuple[int, int]] = []
    written, before, rest = 0, (0, 0), 0  # `rest`: tokens that the last round has still to write
    for said in rows:
        tokens = number(said["predicted_n"], "predicted_n")
        now = count(said, "draft_n") or 0, count(said, "draft_n_accepted") or 0
        if tokens == written and now == before:
            continue  # the last event repeats the counts
        if tokens != written + 1 or now[0] < before[0] or now[1] < before[1]:
            return None
        if now != before:
            guessed, kept = now[0] - before[0], now[1] - before[1]
            if written == 0 or rest or not kept <= guessed <= MAX_GUESSES:
                return None
            found.append((guessed, kept))
            rest = kept + 1
        elif written and not rest:
            found.append((0, 0))
        written, before, rest = tokens, now, max(0, rest - 1)
    return found if written else None


def _mlx_vlm(events: Sequence[Event]) -> Acceptance:
    said = inside(whole(events), "timings")
    return counted(
        "mlx-vlm", ONE, rounds=count(said, "draft_rounds"), drafted=count(said, "draft_n"),
        accepted=count(said, "draft_n_accepted"), tokens=count(said, "predicted_n"),
    )  # fmt: skip


def _tensorrt(events: Sequence[Event]) -> Acceptance:
    answer = whole(events)
    each = []
    for choice in choices(answer):
        if said := inside(choice, "speculative_decoding"):
            same = said | {
                "num_accepted_draft_tokens": said.get("total_accepted_draft_tokens"),
                "num_draft_tokens": said.get("total_draft_tokens"),
            }
            each.append(vllm_counts(same, "TensorRT-LLM", ONE, _written(answer)))
        elif isinstance(mean := choice.get(PER_PASS), int | float):
            each.append(
                Acceptance(
                    "TensorRT-LLM",
                    ONE,
                    stated=(Stated("decoded tokens per iteration", (ratio(mean, PER_PASS),)),),
                )
            )
    if not each:
        raise NothingCounted("TensorRT-LLM's answer has no counts of guesses: they are null in it.")
    return together(each, ONE)


def _lm_studio(events: Sequence[Event]) -> Acceptance:
    said = _of_lm_studio(whole(events))
    names = {_camel(name): value for name, value in said.items()}
    rest = [(word, count(names, f"{word}DraftTokensCount")) for word in ("rejected", "ignored")]
    judged = (count(names, "acceptedDraftTokensCount") or 0) + (rest[0][1] or 0)
    if (drafted := count(names, "totalDraftTokensCount")) is not None and judged > drafted:
        raise TraceError(
            f"LM Studio's counts contradict each other: {judged:,} of {drafted:,} guesses accepted or rejected."
        )
    told = " and ".join(f"{value:,} {word}" for word, value in rest if value is not None)
    return counted(
        "LM Studio", ONE, rounds=None, drafted=drafted,
        accepted=count(names, "acceptedDraftTokensCount"), tokens=count(names, "predictedTokensCount"),
        remarks=[f"Of the guesses that were not accepted it counts {told}."] if told else [],
    )  # fmt: skip


def _of_lm_studio(answer: Event) -> Event:
    places = (inside(answer, "stats"), answer)
    return next((one for one in places if any(name in one for name in LM_STUDIO)), {})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _nothing(events: Sequence[Event]) -> Acceptance:
    raise NothingCounted(
        "An answer without counts of guesses. vLLM reports them if it is started with "
        "--per-request-spec-decode-metrics detailed (of a stream in the chunk with the usage), SGLang in the "
        "meta_info of /generate, or elsewhere if the request has return_spec_tokens_details, llama.cpp's server in "
        "timings; each only while it speculates."
    )


def _timed(answer: Event, of_mlx: bool) -> bool:
    said = inside(answer, "timings")
    return bool(said) and of_mlx == bool({"draft_kind", "draft_rounds"} & said.keys())


def _is_vllm(answer: Event) -> bool:
    null = "metrics" in answer and answer["metrics"] is None and "choices" in answer
    stats = any("speculative_decoding_stats" in one for one in choices(answer))
    return null or stats or bool(inside(answer, "metrics", "speculative_decoding"))


def _is_tensorrt(answer: Event) -> bool:
    return any(
        "avg_decoded_tokens_per_iter" in one or "speculative_decoding" in one for one in choices(answer)
    )


def _is_plain(answer: Event) -> bool:
    native = "content" in answer and "stop" in answer and "tokens" in answer
    return native or isinstance(answer.get("choices"), list)


FORMS = (
    Form(
        "vLLM's answer or stream", "**0.32.0**", "yes", "yes", "yes", "yes", "see below",
        "answers with n > 1 or of several prompts, and those that a stop string ended; times", _is_vllm, _vllm,
    ),
    Form(
        "SGLang's answer or stream (meta_info, sglext)", "0.4 to 0.5.23, by source", "yes",
        "as full drafts; not where drafts are cut", "yes", "where its histogram counts accepted guesses", "no",
        "chain or tree", lambda answer: bool(_of_sglang(answer)) or "meta_info" in answer, _sglang,
    ),
    Form(
        "mlx-vlm's answer (timings with draft_rounds)", "0.7.10, by source", "yes", "yes", "yes", "no", "no", "",
        lambda answer: _timed(answer, True), _mlx_vlm,
    ),
    Form(
        "llama.cpp's answer or stream (timings)", "**b11434, 0.10434**", "in a stream with timings_per_token", "yes",
        "yes", "in a stream with timings_per_token", "no", "the prompt's tokens; guesses that were not accepted",
        lambda answer: _timed(answer, False), _llama_cpp,
    ),
    Form(
        "TensorRT-LLM's answer", "1.x, by the source of AIPerf's adapter", "yes", "yes", "yes", "yes", "no",
        "chain or tree", _is_tensorrt, _tensorrt,
    ),
    Form(
        "LM Studio's stats", "SDK 1.5.0, by its names", "no", "yes", "yes", "no", "no", "rounds",
        lambda answer: bool(_of_lm_studio(answer)), _lm_studio,
    ),
)  # fmt: skip
PLAIN = Form("an answer without counts", "", "no", "no", "no", "no", fits=_is_plain, read=_nothing)
