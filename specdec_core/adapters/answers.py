"""Answers of vLLM's, SGLang's and llama.cpp's servers, as JSON: what they say about the guesses of one request.

Written after their documentation; none was run here. Only vLLM's detailed counts, together with the tokens' ids, place
each token in its round. The guesses that were not accepted are not in the answer and stay untold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic_core import from_json

from specdec_core.errors import SettingsError, TraceError, not_json
from specdec_core.record.schema import FORMAT, MAX_JSON_BYTES, UNTOLD, VERSION

from .acceptance import Acceptance, by_position, counted, number

Engine = Literal["vLLM", "SGLang", "llama.cpp"]
MOST_ANSWERS = 10_000
MOST_GUESSES = 10_000  # in one round
HOW = (
    "vLLM reports its guesses if it is started with --per-request-spec-decode-metrics detailed, SGLang in the "
    "meta_info of /generate, or elsewhere if the request has return_spec_tokens_details, llama.cpp's server in "
    "timings; each only while it speculates."
)
SGLANG: dict[str, tuple[str, ...]] = {  # the names have changed; newest first
    "drafted": ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"),
    "accepted": ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num"),
    "histogram": ("spec_correct_drafts_histogram", "spec_accept_histogram"),
}


def parse(data: bytes) -> list[dict[str, Any]] | None:
    """The answers in a file: one, a list of them, or one a line; None if it is not JSON.

    Raises:
        TraceError: one sentence, if it is JSON of another shape, or too large.
    """
    if len(data) > MAX_JSON_BYTES:
        raise TraceError(f"The file has {len(data):,} bytes; at most {MAX_JSON_BYTES:,} are read.")
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError:
        lines = [line for line in data.splitlines() if line.strip()]
        if not all(line.lstrip().startswith(b"{") for line in lines):
            return None
        try:
            content = [from_json(line, allow_inf_nan=False) for line in lines]
        except ValueError as error:
            raise TraceError(f"The file {not_json(error, data)}.") from None
    found = content if isinstance(content, list) else [content]
    if not found:
        raise TraceError("The file holds an empty list; a trace, or an answer of a server, is expected.")
    if not all(isinstance(one, dict) for one in found):
        raise TraceError("The file has to hold a JSON object, or a list of them.")
    if len(found) > MOST_ANSWERS:
        raise TraceError(f"The file holds {len(found):,} answers; at most {MOST_ANSWERS:,} are read.")
    return found


def likely(answers: Sequence[dict[str, Any]]) -> bool:
    """Whether these are a server's answers, with or without counts."""
    return any({"choices", "meta_info", "timings"} & answer.keys() for answer in answers)


def engine(answer: dict[str, Any]) -> Engine | None:
    """Whose answer it is, by the counts in it."""
    if _inside(answer, "metrics", "speculative_decoding"):
        return "vLLM"
    if "spec_verify_ct" in _of_sglang(answer):
        return "SGLang"
    return "llama.cpp" if "draft_n" in _inside(answer, "timings") else None


def acceptance(answers: Sequence[dict[str, Any]]) -> Acceptance:
    """The counts of some answers of one engine, as sums.

    Raises:
        TraceError: one sentence, if there are none, or they contradict each other.
    """
    engines = {engine(answer) for answer in answers}
    if None in engines:
        raise TraceError(f"An answer without counts of guesses. {HOW}")
    if len(engines) > 1:
        raise TraceError("The file has answers of several engines; import them one by one.")
    readers = {"vLLM": _vllm, "SGLang": _sglang, "llama.cpp": _llama_cpp}
    (name,) = engines
    each = [readers[str(name)](answer) for answer in answers]
    if len(each) == 1:
        return each[0]
    return Acceptance(
        str(name), f"{len(each):,} answers",
        _total([one.rounds for one in each]), _total([one.drafted for one in each]),
        _total([one.accepted for one in each]), _columns([one.at for one in each]),
        _columns([one.reached for one in each]),
        remarks=tuple(dict.fromkeys(remark for one in each for remark in one.remarks)),
    )  # fmt: skip


def trace(answer: dict[str, Any], *, proposer: str, temperature: float, rule: str) -> dict[str, Any]:
    """A trace, in the least that the format asks for, of a vLLM answer with detailed counts and the tokens' ids.

    Args:
        proposer: how the server guessed, `temperature` and `rule`: none of them is in an answer.

    Raises:
        TraceError: one sentence, if the answer does not place every token in its round.
    """
    said, choice = _inside(answer, "metrics", "speculative_decoding"), _choice(answer)
    accepted, drafted = _numbers(said, "per_step_accepted"), _numbers(said, "per_step_drafted")
    ids, prompt = choice.get("token_ids"), choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
    if not accepted or not _ids(ids) or not _ids(prompt):
        raise TraceError(
            "There is no timeline in this answer. It needs per_step_accepted and per_step_drafted (the server's "
            "--per-request-spec-decode-metrics detailed) and the tokens' ids (return_token_ids in the request)."
        )
    assert isinstance(ids, list)
    whole = 1 + sum(count + 1 for count in accepted)
    if not whole - accepted[-1] <= len(ids) <= whole:
        raise TraceError(
            f"The answer has {len(ids):,} tokens, and its {len(accepted):,} rounds with guesses make {whole:,}. Some "
            "rounds had no guesses, or the answer is cut off; where is not in it, so there is no timeline."
        )
    rounds: list[dict[str, Any]] = [{"committed": {"token": ids[:1]}, "note": {"reads_prompt": True}}]
    place = 1
    for kept, guessed in zip(accepted, drafted, strict=True):
        tokens = ids[place : place + kept + 1]
        place += len(tokens)
        guesses = tokens[:kept] + [UNTOLD] * (guessed - len(tokens[:kept]))
        rounds.append({"nodes": {"token": guesses}, "committed": {"token": tokens}})
    return {
        "format": FORMAT, "version": VERSION,
        "header": {
            "target": {"name": str(answer.get("model", "unknown"))[:500]}, "prompt": "", "prompt_ids": prompt,
            "settings": {"proposer": proposer, "rule": rule, "temperature": temperature},
            "packages": {"vllm": "unknown"},
        },
        "rounds": rounds, "texts": _texts(choice, ids), "end": _end(choice),
    }  # fmt: skip


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


def _vllm(answer: dict[str, Any]) -> Acceptance:
    said = _inside(answer, "metrics", "speculative_decoding")
    rounds, drafted = _count(said, "num_spec_steps"), _count(said, "num_draft_tokens")
    accepted, histogram = _count(said, "num_accepted_draft_tokens"), _numbers(said, "acceptance_histogram")
    if histogram and rounds is not None and sum(histogram) != rounds:
        raise TraceError(
            f"vLLM's counts contradict each other: {rounds:,} rounds, {sum(histogram):,} in the histogram."
        )
    found = counted(
        "vLLM", "one answer", rounds=rounds, drafted=drafted, accepted=accepted, at=by_position(histogram)
    )
    kept, guessed = _numbers(said, "per_step_accepted"), _numbers(said, "per_step_drafted")
    if not kept and not guessed:
        return found
    wrong = len(kept) != len(guessed) or any(one > other for one, other in zip(kept, guessed, strict=False))
    if wrong or (sum(kept), sum(guessed), len(kept)) != (accepted, drafted, rounds):
        raise TraceError(
            "vLLM's counts contradict each other: those of the rounds are not those of the whole."
        )
    if max(guessed) > MOST_GUESSES:
        raise TraceError(f"A round with {max(guessed):,} guesses; at most {MOST_GUESSES:,} are read.")
    depth = range(max(guessed))
    reached = [
        sum(one >= at and other > at for one, other in zip(kept, guessed, strict=True)) for at in depth
    ]
    at = [sum(one > place for one in kept) for place in depth]
    return Acceptance("vLLM", "one answer", rounds, drafted, accepted, tuple(at), tuple(reached))


def _of_sglang(answer: dict[str, Any]) -> dict[str, Any]:
    """The same counts are in one place of `/generate` and in another of the OpenAI paths."""
    return _inside(answer, "meta_info") or _inside(answer, "sglext", "spec_tokens_details")


def _sglang(answer: dict[str, Any]) -> Acceptance:
    said = _of_sglang(answer)
    named = {key: next((name for name in names if name in said), names[0]) for key, names in SGLANG.items()}
    rounds, accepted = _count(said, "spec_verify_ct"), _count(said, named["accepted"])
    histogram = _numbers(said, named["histogram"])
    at = by_position(histogram)
    remarks = [
        "SGLang does not say whether it guessed chains or trees, so which guesses were judged is unknown."
    ]
    if at and (
        sum(histogram) != rounds or sum(at) != accepted
    ):  # older versions count the target's own token too
        at, remarks = (
            [],
            [*remarks, "Its histogram counts something else than accepted guesses, and is left out."],
        )
    return counted(
        "SGLang", "one answer", rounds=rounds, drafted=_count(said, named["drafted"]), accepted=accepted, at=at,
        chain=False, remarks=remarks,
    )  # fmt: skip


def _llama_cpp(answer: dict[str, Any]) -> Acceptance:
    said = _inside(answer, "timings")
    return counted(
        "llama.cpp", "one answer", rounds=None, drafted=_count(said, "draft_n"),
        accepted=_count(said, "draft_n_accepted"),
        remarks=["llama.cpp's answer does not count rounds; its log does."],
    )  # fmt: skip


def _total(counts: Sequence[int | None]) -> int | None:
    """Their sum; None if one of them is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _columns(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Sums by position; empty if one of them is unknown."""
    if not all(rows):
        return ()
    return tuple(sum(row[at] for row in rows if at < len(row)) for at in range(max(map(len, rows))))


def _inside(answer: Any, *names: str) -> dict[str, Any]:
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer if isinstance(answer, dict) else {}


def _choice(answer: dict[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices")
    one = isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict)
    return choices[0] if one else {}  # type: ignore[index]


def _count(said: dict[str, Any], name: str) -> int | None:
    return None if said.get(name) is None else number(said[name], name)


def _numbers(said: dict[str, Any], name: str) -> list[int]:
    values = said.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise TraceError(f"'{name}' has to be a list of whole numbers.")
    return [number(value, f"{name}[{at}]") for at, value in enumerate(values)]


def _ids(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(type(one) is int and one >= 0 for one in values)


def _texts(choice: dict[str, Any], ids: list[int]) -> dict[str, str]:
    """The tokens' texts, where the request asked for logprobs."""
    said = _inside(choice, "logprobs")
    listed = said.get("tokens")
    if not isinstance(listed, list) and isinstance(content := said.get("content"), list):
        listed = [entry.get("token") if isinstance(entry, dict) else None for entry in content]
    if not isinstance(listed, list) or len(listed) != len(ids):
        return {}
    return {str(token): text for token, text in zip(ids, listed, strict=True) if isinstance(text, str)}


def _end(choice: dict[str, Any]) -> str:
    """vLLM's reasons: a stop is a stop string's where it names one, else the end-of-sequence token's."""
    reason = choice.get("finish_reason")
    if reason == "stop":
        return "stop" if choice.get("stop_reason") is not None else "eos"
    return "length" if reason == "length" else "cancelled"
