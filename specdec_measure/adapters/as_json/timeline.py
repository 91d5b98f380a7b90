"""A timeline of vLLM's answer with detailed counts: only where the counts leave one possibility.

vLLM counts the rounds that had guesses. A pass without guesses is in no count, and the end of the answer may cut the
last round: the number of tokens alone cannot tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from specdec_core.foundations.errors import SettingsError, TraceError, many
from specdec_core.record.schema import FORMAT, UNTOLD, VERSION
from specdec_measure.adapters.acceptance import count, numbers
from specdec_measure.adapters.form import Event, choices, inside

# Those that guess in every pass of vLLM's; the others (look-ups, and names that are not known here) may find nothing.
ALWAYS = {"draft-model", "parallel-draft", "shared-tokens", "eagle", "eagle3", "mtp", "medusa", "block"}


def trace(answer: Event, *, proposer: str, temperature: float, rule: str) -> dict[str, Any]:
    """A trace, in the least that the format asks for, of a vLLM answer with detailed counts and the tokens' ids.

    Args:
        proposer: how the server guessed; this, `temperature` and `rule` are not in an answer.

    Raises:
        TraceError: one sentence, if the answer does not place every token in its round.
    """
    said = inside(answer, "metrics", "speculative_decoding")
    found = choices(answer)
    choice = found[0] if len(found) == 1 else {}
    accepted, drafted = numbers(said, "per_step_accepted"), numbers(said, "per_step_drafted")
    ids, prompt = choice.get("token_ids"), choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
    if count(said, "num_spec_steps") == 0:
        raise TraceError("There is no timeline in this answer: no round of it had guesses.")
    if not accepted or len(accepted) != len(drafted) or not is_ids(ids) or not is_ids(prompt):
        raise TraceError(
            "There is no timeline in this answer. It needs per_step_accepted and per_step_drafted (the server's "
            "--per-request-spec-decode-metrics detailed) and the tokens' ids (return_token_ids in the request)."
        )
    _forced(said, ids, accepted, drafted, proposer)
    name = str(answer.get("model", "unknown"))
    return of_passes(
        name, prompt, ids, list(zip(drafted, accepted, strict=True)), packages={"vllm": "unknown"}, end=end_of(choice),
        texts=_texts(choice, ids), proposer=proposer, rule=rule, temperature=temperature,
    )  # fmt: skip


def of_passes(
    name: str, prompt: Sequence[int], ids: Sequence[int], passes: Sequence[tuple[int, int]], *, texts: dict[str, str],
    end: str, packages: dict[str, str], **settings: Any,
) -> dict[str, Any]:  # fmt: skip
    """A trace, in the least that the format asks for, of an answer of which each pass is known.

    Args:
        passes: after the first token, how many guesses each had, −1 where that is unknown, and how many of them were
            accepted; the end of the answer may cut the last one.
    """
    rounds: list[dict[str, Any]] = [{"committed": {"token": list(ids[:1])}, "note": {"reads_prompt": True}}]
    place = 1
    for guessed, kept in passes:
        tokens = list(ids[place : place + kept + 1])
        place += len(tokens)
        guesses = tokens[:kept] + [UNTOLD] * max(0, guessed - len(tokens[:kept]))
        committed: dict[str, Any] = {"token": tokens}
        if guessed < 0:
            committed["source"] = ["accepted"] * kept + ["unknown"]
        rounds.append({"nodes": {"token": guesses}, "committed": committed})
    return {
        "format": FORMAT, "version": VERSION,
        "header": {
            "target": {"name": name[:500]}, "prompt": "", "prompt_ids": list(prompt), "settings": settings,
            "packages": packages,
        },
        "rounds": rounds, "texts": texts, "end": end,
    }  # fmt: skip


def _forced(
    said: Event, ids: Sequence[int], accepted: Sequence[int], drafted: Sequence[int], proposer: str
) -> None:
    """Refuse an answer whose counts leave more than one timeline.

    With p passes without guesses and c tokens cut from the last round, the answer has whole + p − c tokens. Since c is
    at most what the last round accepted, p is 0 for certain only where that many are missing.
    """
    whole = 1 + sum(kept + 1 for kept in accepted)
    rounds = many(len(accepted), "round")
    if not whole - accepted[-1] <= len(ids) <= whole:
        raise TraceError(
            f"The answer has {many(len(ids), 'token')}; {rounds} with guesses would have written {whole:,}. Some "
            "rounds had no guesses, or the answer is cut off; where is not in it, so there is no timeline."
        )
    full = count(said, "num_spec_tokens")
    if len(ids) == whole - accepted[-1] or (proposer in ALWAYS and set(drafted) == {full}):
        return
    why = (
        f"'{proposer}' may guess nothing in a pass"
        if proposer not in ALWAYS
        else "drafts were shorter than num_spec_tokens, so some may have been empty"
    )
    raise TraceError(
        f"There is no timeline in this answer: {why}, and passes without guesses are not counted in it. Its "
        f"{many(len(ids), 'token')} may be those of {rounds} with guesses, or of passes without guesses too."
    )


def rule_of(temperature: float, rule: str | None) -> str:
    """The rule's name: at temperature 0 every lossless one is an exact match.

    Raises:
        SettingsError: if it cannot be known.
    """
    if rule is None and temperature > 0:
        raise SettingsError(
            "Above temperature 0 the answer does not say how guesses were judged: "
            "give --rule, such as speculative-sampling."
        )
    return rule or "exact-match"


def is_ids(values: Any) -> TypeGuard[list[int]]:
    """Whether these are tokens' ids, at least one."""
    return isinstance(values, list) and bool(values) and all(type(one) is int and one >= 0 for one in values)


def end_of(choice: Event) -> str:
    """vLLM's reasons: a stop is a stop string's where it names one, else the end-of-sequence token's."""
    reason = choice.get("finish_reason")
    if reason == "stop":
        return "stop" if choice.get("stop_reason") is not None else "eos"
    return "length" if reason == "length" else "cancelled"


def _texts(choice: Event, ids: Sequence[int]) -> dict[str, str]:
    """The tokens' texts by id, where the request asked for logprobs."""
    said: Any = inside(choice, "logprobs")
    listed = said.get("tokens")
    if not isinstance(listed, list) and isinstance(content := said.get("content"), list):
        listed = [entry.get("token") if isinstance(entry, dict) else None for entry in content]
    if not isinstance(listed, list) or len(listed) != len(ids):
        return {}
    return {str(token): text for token, text in zip(ids, listed, strict=True) if isinstance(text, str)}
