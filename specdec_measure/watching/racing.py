"""One prompt through several servers in turn: each answer as a record, with the times at which its tokens arrived here.

A record has rounds only where the server's counts leave one possibility; of any other answer it has the text alone.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import PurePath
from typing import Any

from pydantic_core import to_json

from specdec_core.foundations.errors import TraceError
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace
from specdec_measure.adapters import foreign
from specdec_measure.adapters.acceptance import numbers
from specdec_measure.adapters.as_json import servers, timeline
from specdec_measure.adapters.as_json.streams import whole
from specdec_measure.adapters.form import Event, choices, inside

from . import asking
from .asking import Answered
from .client import Server, WatchError

ENGINES = ("vLLM", "llama.cpp")  # whose answers can name their tokens
MOST_TOKENS = 512
NAMING_S = 5.0  # for the texts of single tokens, after the race
WARM = 8  # tokens of the request before the one that counts
Passes = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Entrant:
    """One server's answer; `unknown`: why it has no rounds, empty where it has."""

    label: str
    trace: Trace
    unknown: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that arrived together, in seconds since the request was sent."""

    at: float
    ids: list[int]
    text: str


def race(
    entrants: Sequence[Server], prompt: str, length: int, on_progress: Callable[[str], None] = lambda _: None
) -> list[Entrant]:
    """Ask each server in turn, greedily, so that none computes beside another.

    Raises:
        WatchError: one sentence, if one of them does not answer as it should, or they read other tokens.
    """
    name, lanes = secrets.token_urlsafe(12), list[Entrant]()
    for at, server in enumerate(entrants):
        on_progress(server.url)
        place = {"id": name, "lane": at, "lanes": len(entrants)}
        try:
            lanes.append(_lane(server, prompt, min(length, MOST_TOKENS), place))
        except TraceError as error:
            raise WatchError(f"The answer of {server.url} cannot be used: {error}") from None
    if len({tuple(lane.trace.header.prompt_ids) for lane in lanes}) > 1:
        raise WatchError(
            "The servers read the prompt as different tokens, so their models are not one, and this is no race."
        )
    return lanes


def _lane(server: Server, prompt: str, length: int, place: dict[str, Any]) -> Entrant:
    engine = asking.page(server).engine
    if engine not in ENGINES:
        raise WatchError(
            f"{server.url} is {engine}, which does not name its tokens; {' and '.join(ENGINES)} do."
        )
    read: list[int] = []
    if engine == "llama.cpp":
        read = _asked(server, "/tokenize", {"content": prompt, "add_special": True}).get("tokens") or []
    _answer(server, engine, prompt, read, WARM)
    before = asking.page(server)
    lines = _answer(server, engine, prompt, read, length)
    after = asking.page(server)
    row = asking.answered(lines, before, after)
    if row is None:
        raise WatchError(
            f"Others used {server.url} meanwhile, so its counts are not this answer's. Try again."
        )
    timed = list(asking.objects(lines))
    answer, chunks = whole([event for _, event in timed]), _chunks(timed)
    choice = next(iter(choices(answer)), answer)
    prompt_ids: Any = read or choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
    if not chunks or not timeline.is_ids(prompt_ids) or sum(len(one.ids) for one in chunks) != row.tokens:
        raise WatchError(f"{server.url} does not name the tokens of its answer.")
    if after.more.get("steps", 0.0) <= before.more.get("steps", 0.0):
        row = replace(row, passes=0)  # nobody counted them
    passes = _passes(row, [event for _, event in timed], [len(one.ids) for one in chunks])
    content = _content(server, engine, answer, choice, prompt_ids, chunks, passes)
    content["header"] |= {"prompt": prompt, "race": place}
    kind = "no guesses" if not row.drafted else f"up to {len(row.at)} guesses" if row.at else "with guesses"
    why = "" if passes is not None else (
        f"{server.url} does not say which of its passes wrote which tokens, so this lane has its text and its speed, "
        "and no rounds."
    )  # fmt: skip
    return Entrant(
        f"{engine} at {server.url.partition('//')[2]}, {kind}", foreign.read(to_json([content]))[0], why
    )


def _asked(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A JSON object; an empty one where the answer is none."""
    try:
        found = json.loads(b"".join(one.line for one in server.stream(path, body)))
    except ValueError as error:
        if isinstance(error, WatchError):
            raise
        return {}
    return found if isinstance(found, dict) else {}


def _answer(server: Server, engine: str, prompt: str, read: Sequence[int], length: int) -> Any:
    if engine == "vLLM":
        path, body = asking.addressed(
            server, engine, {"prompt": prompt, "max_tokens": length, **asking.NEUTRAL}
        )
        return server.stream(path, body | {"return_token_ids": True})
    body = {"prompt": read or prompt, "n_predict": length, "stream": True, "timings_per_token": True}
    return server.stream(
        "/completion", body | {"return_tokens": True, "cache_prompt": False} | asking.NEUTRAL
    )


def _chunks(timed: Sequence[tuple[float, Event]]) -> list[Chunk]:
    found: list[Chunk] = []
    for at, event in timed:
        one = next(iter(choices(event)), event)
        ids, text = (
            one.get("token_ids") or one.get("tokens"),
            str(one.get("text") or one.get("content") or ""),
        )
        if timeline.is_ids(ids):
            found.append(Chunk(at, ids, text))
        elif found and text:  # of a character whose last byte came with an earlier token
            found[-1] = Chunk(found[-1].at, found[-1].ids, found[-1].text + text)
    return found


def _passes(row: Answered, events: Sequence[Event], sizes: Sequence[int]) -> Passes | None:
    """Guesses (−1: unknown) and accepted ones of each pass after the first token; None where even these are unknown.

    vLLM writes at most one chunk for a pass, so where there are as many chunks as passes, each is one.
    """
    if not row.drafted:
        return [(0, 0)] * (row.tokens - 1)
    if any("timings" in event for event in events):  # llama.cpp's
        return servers.passes(events)
    said = inside(whole(events), "metrics", "speculative_decoding")
    kept, guessed = numbers(said, "per_step_accepted"), numbers(said, "per_step_drafted")
    apart = len(sizes) - 1 == row.passes
    if not kept and apart and row.rounds == row.passes and row.drafted == row.rounds * len(row.at):
        kept = [size - 1 for size in sizes[1:]]
        kept[-1] = row.accepted - sum(kept[:-1])  # the end of the answer may have cut it
        guessed = [len(row.at)] * len(kept)
    found = list(zip(guessed, kept, strict=True)) if len(kept) == len(guessed) else []
    if row.passes != len(found):
        cut = [*sizes[1:-1], kept[-1] + 1] if kept else []  # if the end of the answer cut the last one
        found = (_between(found, sizes[1:]) or _between(found, cut) if apart and found else None) or []
    written = 1 + sum(one + 1 for _, one in found)
    fits = found and all(0 <= one <= max(other, 0) for other, one in found)
    if fits and written - found[-1][1] <= row.tokens <= written:
        return found
    return [(-1, size - 1) for size in sizes[1:]] if apart else None


def _between(rounds: Passes, sizes: Sequence[int]) -> Passes | None:
    """All passes from those with guesses and the tokens of each; of one token it may be unknown which it is."""
    found: Passes = []
    left = list(rounds)
    for single, group in groupby(sizes, lambda size: size == 1):
        many = list(group)
        if single:
            zeros = next((at for at, (_, kept) in enumerate(left) if kept), len(left))
            found += left[:zeros] if zeros == len(many) else [(-1 if zeros else 0, 0)] * len(many)
            del left[:zeros]
        elif [kept + 1 for _, kept in left[: len(many)]] == many:
            found += left[: len(many)]
            del left[: len(many)]
        else:
            return None
    return found if not left else None


def _content(
    server: Server, engine: str, answer: Event, choice: Event, read: Sequence[int], chunks: Sequence[Chunk],
    passes: Passes | None,
) -> dict[str, Any]:  # fmt: skip
    """The record, complete: the clock begins when the first token arrives, as everywhere after the prompt is read."""
    ids = [token for one in chunks for token in one.ids]
    times = [one.at - chunks[0].at for one in chunks for _ in one.ids]
    names = _names(server, answer, chunks)
    pieces = [piece for one in chunks for piece in _pieces(one, names)]
    content = timeline.of_passes(
        PurePath(str(answer.get("model", "unknown"))).name, read, ids, passes or [],
        texts={str(token): name for token, name in names.items()}, end=_end(choice, ids),
        packages={engine: str(answer.get("system_fingerprint", "unknown"))[:100]},
        proposer="unknown" if passes is None or any(guessed for guessed, _ in passes) else "none",
        rule="exact-match", temperature=0,
    )  # fmt: skip
    content["header"] |= {
        "machine": f"{engine} at {server.url}"[:500], "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    content["output"] = {"ids": ids, "texts": pieces}
    tally, place, clock = RoundTally(tokens=len(ids), verify_s=times[-1]), 0, 0.0
    if passes is None:
        content["rounds"], content["header"]["settings"]["record"] = [], "off"
        content["stats"] = foreign.to_plain(tally)
    for row in content["rounds"]:
        place += len(row["committed"]["token"])
        row |= {"start_s": clock, "verify_s": times[place - 1] - clock}
        clock = times[place - 1]
    if wrong := foreign.complete(content):
        raise TraceError(wrong[0])
    content["stats"]["prefill_s"] = chunks[0].at
    if any(guessed < 0 for guessed, _ in passes or []):
        content["stats"] |= {"acceptance_rate": None, "acceptance_by_depth": []}
    return content


def _names(server: Server, answer: Event, chunks: Sequence[Chunk]) -> dict[int, str]:
    """The texts of single tokens: those that arrived alone, the others as vLLM names them where it does in time."""
    names = {one.ids[0]: one.text for one in chunks if len(one.ids) == 1}
    until = time.monotonic() + NAMING_S
    for token in dict.fromkeys(token for one in chunks for token in one.ids if token not in names):
        try:
            asked = {"model": answer.get("model"), "tokens": [token]}
            names[token] = str(_asked(server, "/detokenize", asked).get("prompt", ""))
        except WatchError:
            break
        if time.monotonic() > until:
            break
    return names


def _pieces(chunk: Chunk, names: dict[int, str]) -> list[str]:
    """The text of each of its tokens; where theirs do not join to the chunk's, the first one has all."""
    pieces = [names.get(token, "") for token in chunk.ids]
    return pieces if "".join(pieces) == chunk.text else [chunk.text, *[""] * (len(chunk.ids) - 1)]


def _end(choice: Event, ids: Sequence[int]) -> str:
    end = (
        timeline.end_of(choice)
        if "finish_reason" in choice
        else ENDS.get(str(choice.get("stop_type")), "length")
    )
    return "stop" if end == "eos" and ids[-1] in ids[:-1] else end  # the token that ended it is not named


ENDS = {"eos": "eos", "word": "stop", "limit": "length"}  # llama.cpp's
