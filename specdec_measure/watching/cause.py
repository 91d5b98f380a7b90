"""Why a server is not faster: one cause, checked against its numbers, and what to change."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_measure.sweep.totals import wilson

from .numbers import Watched

FEW = 30  # rounds: fewer say too little
UNFIT = 0.08  # a first guess that is accepted less often is no better than chance
RARE = 0.3  # of the passes have guesses
GAIN = 1.1  # what a change has to promise
NEAR_SHARE = 0.75  # of a perfect drafter's speedup
LENGTH_FLAG = {
    "vLLM": "num_speculative_tokens in --speculative-config",
    "llama.cpp": "--spec-draft-n-max (of n-grams --spec-ngram-simple-size-m)",
    "SGLang": "--speculative-num-steps and --speculative-num-draft-tokens",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: a short name, what was seen, what to change."""

    name: str
    seen: str
    change: str


def cause(found: Watched) -> Cause:
    """The first of the causes that the numbers show."""
    for check in (_none, _few, _rare, _penalties, _unfit, _full, _long):
        if (one := check(found)) is not None:
            return one
    return _low_or_expensive(found)


def _none(found: Watched) -> Cause | None:
    if found.rounds or found.drafted:
        return None
    return Cause(
        "no guesses", f"In {found.requests:,} requests the server counted no guess at all.",
        "Check that its speculative settings were taken: llama.cpp loads a draft with -md and does not use it without "
        "--spec-type; vLLM's log names its speculative configuration at the start.",
    )  # fmt: skip


def _few(found: Watched) -> Cause | None:
    if found.rounds >= FEW:
        return None
    return Cause(
        "too few rounds", f"Only {found.rounds:,} rounds with guesses were seen; {FEW} are needed.",
        "Send more or longer requests (--prompts, --length, --seconds).",
    )  # fmt: skip


def _rare(found: Watched) -> Cause | None:
    if not found.passes or wilson(found.rounds, found.passes)[1] >= RARE:
        return None
    return Cause(
        "rarely guesses", f"Only {found.rounds / found.passes:.0%} of the passes had guesses.",
        "A look-up finds nothing in texts that do not repeat: take a shorter pattern, or a draft model or head.",
    )  # fmt: skip


def _penalties(found: Watched) -> Cause | None:
    if found.neutral is None or not found.at or found.tokens_per_round is None:
        return None
    tokens, (low, _) = found.neutral
    if tokens < GAIN * found.tokens_per_round or low <= found.at[0][2]:
        return None
    return Cause(
        "sampling and penalties",
        f"The same prompts have {tokens:.2f} tokens a round greedily and without penalties, "
        f"{found.tokens_per_round:.2f} as they were asked for: the draft guesses without what changes the "
        "target's choice.",
        "Lower the temperature or the penalties of the requests (or the server's defaults for them), or draft with the "
        "same ones.",
    )  # fmt: skip


def _unfit(found: Watched) -> Cause | None:
    if not found.at or found.at[0][2] >= UNFIT:
        return None
    share, low, high = found.at[0]
    return Cause(
        "the draft does not fit the model",
        f"Its first guess is right in {share:.1%} of the rounds ({low:.1%} to {high:.1%}): no better than chance.",
        "Check that head or draft is the one trained for this model, that its files are whole (an engine may start "
        "with missing matrices filled at random), and that its tokenizer and chat template are the model's.",
    )  # fmt: skip


def _full(found: Watched) -> Cause | None:
    if not (found.running >= 4 and found.waiting >= 0.5) and found.running < 16:
        return None
    return Cause(
        "the batch is full",
        f"{found.running:.0f} requests ran at a time on average and {found.waiting:.0f} waited: a pass computes "
        f"{found.running * (1 + found.guesses_per_pass):.0f} tokens, so guesses take the place of other requests.",
        "Guess less or not at all under this load (vLLM: num_speculative_tokens_per_batch_size), or serve fewer "
        "requests at a time.",
    )  # fmt: skip


def _long(found: Watched) -> Cause | None:
    best, now = found.best_length, found.speedup_at(found.depth)
    if best is None or now is None or not 0 < best < found.depth:
        return None
    there = found.speedup_at(best) or 0.0
    if there < GAIN * now or there < GAIN or (found.survival[0] < 0.5 and best == 1):
        return None
    last = found.at[-1]
    return Cause(
        "too many guesses",
        f"Position {found.depth} is accepted in {last[0]:.0%} of the rounds ({last[1]:.0%} to {last[2]:.0%}), and each "
        f"guess costs {found.cost:.2f} of a pass: modelled {there:.2f}× with {best} guesses, "
        f"{now:.2f}× with {found.depth}.",
        f"Set {LENGTH_FLAG.get(found.engine, 'its number of guesses')} to {best}.",
    )  # fmt: skip


def _low_or_expensive(found: Watched) -> Cause:
    first = found.at[0][0] if found.at else (found.accepted / found.drafted if found.drafted else 0.0)
    cost, ceiling, now = found.cost, found.ceiling, found.speedup
    gain = (
        f" With every guess right it would be {ceiling:.2f}× instead of {now:.2f}×."
        if ceiling and now
        else ""
    )
    low = Cause(
        "acceptance is low" if first < 0.5 else "acceptance is the limit",
        f"The first guess is right in {first:.0%} of the rounds, and a round writes {found.tokens_per_round or 0:.2f} "
        f"of {found.depth + 1} tokens.{gain}",
        "Take a draft that is closer to the model (trained on texts like these, or larger), or fewer guesses.",
    )  # fmt: skip
    if cost is None or ceiling is None or now is None:
        if first < 0.5:
            return low
        return Cause(
            "times are unknown",
            f"{first:.0%} of the first guesses are right. What a guess costs is not known from one draft length.",
            "Give a second address: a server of the same model with another draft length, or without guesses.",
        )  # fmt: skip
    if now >= NEAR_SHARE * ceiling and now > 1:
        return Cause(
            "near its ceiling",
            f"{now:.2f}× is {now / ceiling:.0%} of what a perfect drafter would give, {ceiling:.2f}×.",
            "Nothing here; more needs a cheaper guess, or more guesses of this quality.",
        )  # fmt: skip
    free = 1 + sum(found.survival)
    if free > ceiling and (found.speedup_at(found.best_length or 0) or 1.0) < 1.5:
        return Cause(
            "a guess is expensive",
            f"Each guess adds {cost:.2f} of a pass without any. At that price even a perfect drafter gives "
            f"{ceiling:.2f}×; with guesses for nothing the present acceptance would give {free:.2f}×.",
            "Take a smaller draft or a head, run it on the same device, and compare the time of a pass of several "
            "tokens with that of one: on a CPU or with quantised weights the width itself may cost this much.",
        )  # fmt: skip
    if first < 0.5 or ceiling > 1.3 * now:
        return low
    return Cause(
        "no single cause", f"{now:.2f}×, of at most {ceiling:.2f}× at this cost.", "Nothing stands out."
    )
