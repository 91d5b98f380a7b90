"""What vLLM counts of one request's guesses; TensorRT-LLM and AIPerf use the same names."""

from __future__ import annotations

from specdec_core.foundations.errors import TraceError, many
from specdec_measure.adapters.acceptance import (
    Acceptance,
    by_position,
    count,
    counted,
    number,
    numbers,
    of_rounds,
)
from specdec_measure.adapters.form import Event, inside

MAX_GUESSES = 10_000  # in one round
ONE = "one answer"


def vllm_counts(
    said: Event, engine: str = "vLLM", source: str = ONE, tokens: int | None = None
) -> Acceptance:
    """vLLM's counts, which TensorRT-LLM and AIPerf name alike.

    Raises:
        TraceError: one sentence, if they contradict each other.
    """
    rounds, drafted = count(said, "num_spec_steps"), count(said, "num_draft_tokens")
    accepted, histogram = count(said, "num_accepted_draft_tokens"), _histogram(said)
    if histogram and rounds is not None and sum(histogram) != rounds:
        raise TraceError(
            f"{engine}'s counts contradict each other: {many(rounds, 'round')}, {sum(histogram):,} in the histogram."
        )
    most = count(said, "num_spec_tokens")
    if engine == "vLLM" and most and rounds is not None and (drafted or 0) > rounds * most:
        raise TraceError(
            f"{engine}'s counts contradict each other: {drafted:,} guesses in {many(rounds, 'round')} of at "
            f"most {most:,}."
        )
    if most and (beyond := sum(histogram[most + 1 :])):
        raise TraceError(
            f"{engine}'s counts contradict each other: {many(beyond, 'round')} of the histogram accepted more than "
            f"{most:,} guesses, and {most:,} were the most to guess."
        )
    histogram = histogram[: most + 1] if most else histogram
    found = counted(
        engine, source, rounds=rounds, drafted=drafted, accepted=accepted, at=by_position(histogram),
        chain=engine != "SGLang", tokens=tokens,
    )  # fmt: skip
    kept, guessed = numbers(said, "per_step_accepted"), numbers(said, "per_step_drafted")
    if kept or guessed:
        wrong = len(kept) != len(guessed) or any(
            one > other for one, other in zip(kept, guessed, strict=False)
        )
    else:
        kept, guessed = _of_lengths(said)
        wrong = False
    if not kept:
        return found
    if wrong or (sum(kept), sum(guessed), len(kept)) != (accepted, drafted, rounds):
        raise TraceError(
            f"{engine}'s counts contradict each other: those of the rounds are not those of the whole."
        )
    if max(guessed) > MAX_GUESSES:
        raise TraceError(f"A round with {max(guessed):,} guesses; at most {MAX_GUESSES:,} are read.")
    at, reached = of_rounds(guessed, kept)
    if histogram and [one for one in at if one] != [one for one in by_position(histogram) if one]:
        raise TraceError(
            f"{engine}'s counts contradict each other: those of the rounds are not those of the histogram."
        )
    return Acceptance(engine, source, rounds, drafted, accepted, at, reached, tokens=tokens)


def _histogram(said: Event) -> list[int]:
    """How many rounds accepted 0, 1, 2… guesses, from a list, or from an object by their number (AIPerf's)."""
    histogram = said.get("acceptance_histogram")
    if not isinstance(histogram, dict):
        return numbers(said, "acceptance_histogram")
    places = {
        str(place): number(value, f"acceptance_histogram[{place}]") for place, value in histogram.items()
    }
    if not all(place.isdecimal() and len(place) < 6 and int(place) <= MAX_GUESSES for place in places):
        raise TraceError(
            "'acceptance_histogram' has to have a count of accepted guesses as each of its keys."
        )
    return [places.get(str(place), 0) for place in range(max(map(int, places), default=-1) + 1)]


def _of_lengths(said: Event) -> tuple[list[int], list[int]]:
    """Each round's accepted guesses and guesses, in no order, from histograms by the draft's length."""
    by_length = inside(said, "acceptance_histogram_by_draft_length")
    kept: list[int] = []
    guessed: list[int] = []
    for length in by_length:
        rows = numbers(by_length, length)
        short = str(length).isdecimal() and len(str(length)) < 6
        if not short or len(rows) > int(length) + 1 or len(kept) + sum(rows) > 10**6:
            raise TraceError(
                f"The histogram of drafts of length {str(length)[:10]!r} does not fit that length."
            )
        for accepted, rounds in enumerate(rows):
            kept += [accepted] * rounds
            guessed += [int(length)] * rounds
    return kept, guessed
