"""Which objects of a file are events of one answer, and the answer that they make together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

Event = dict[str, Any]
COUNTS = ("metrics", "timings", "sglext", "meta_info", "stats")  # each of one engine or two
LAST = (
    "metrics",
    "usage",
    "timings",
    "sglext",
    "meta_info",
    "stats",
    "prompt",
    "stop",
    "generation_settings",
)


def joined(objects: Iterable[tuple[Event, int | None]]) -> list[list[Event]]:
    """The answers of a file, each as its events in order; a whole answer is one event.

    Args:
        objects: each with the number of the stream that it is of, None outside of one.
    """
    groups: list[list[Event]] = []
    going: dict[Hashable, list[Event]] = {}  # answers that may have further events
    for event, stream in objects:
        key = _key(event, stream)
        group = going.get(key)
        if group is not None and _follows(event, group[-1], stream):
            group.append(event)
        else:
            going[key] = group = [event]
            groups.append(group)
    return groups


def whole(events: Sequence[Event]) -> Event:
    """One answer of its events: the pieces of its choices joined, of the counts the last ones."""
    if len(events) == 1:
        return events[0]
    found: Event = {}
    for event in events:
        for name, value in event.items():
            if value is not None and (name in LAST or name not in found):
                found[name] = value
    choices: dict[Any, Event] = {}
    for event in events:
        for choice in _choices(event):
            parts = choices.setdefault(choice.get("index", 0), {"token_ids": [], "tokens": []})
            parts["token_ids"] += ids if isinstance(ids := choice.get("token_ids"), list) else []
            parts["tokens"] += _names(choice)
            for name, value in choice.items():
                if value is not None and name not in ("token_ids", "logprobs", "delta", "text"):
                    parts[name] = value
    for parts in choices.values():
        parts["logprobs"] = {"tokens": parts.pop("tokens")}
    if choices or "choices" in found:
        found["choices"] = list(choices.values())
    return found


def _choices(event: Event) -> list[Event]:
    choices = event.get("choices")
    known = (one for one in choices if isinstance(one, dict)) if isinstance(choices, list) else ()
    return [one for one in known if isinstance(one.get("index", 0), Hashable)]


def _names(choice: Event) -> list[Any]:
    """The tokens' texts, where the request asked for logprobs."""
    said = choice.get("logprobs")
    if not isinstance(said, dict):
        return []
    if isinstance(said.get("tokens"), list):
        return list(said["tokens"])
    content = said.get("content")
    return [one.get("token") if isinstance(one, dict) else None for one in content or []]


def _key(event: Event, stream: int | None) -> Hashable:
    """What events of one answer have in common."""
    if "from_draft" in event:
        return "mlx-lm"
    meta = event.get("meta_info")
    name = meta.get("id") if isinstance(meta, dict) else event.get("id")
    return stream, name if isinstance(name, str | int) else event.get(
        "index", 0
    ) if "choices" not in event else None


def _piece(event: Event) -> bool:
    """Whether this is a chunk of the OpenAI paths."""
    kind = event.get("object")
    return (isinstance(kind, str) and kind.endswith("chunk")) or any(
        "delta" in one for one in _choices(event)
    )


def _unfinished(event: Event) -> bool:
    """Whether further events of this answer follow."""
    if "from_draft" in event:
        return event.get("finish_reason") is None
    if "stop" in event:
        return event["stop"] is False
    meta = event.get("meta_info")
    if isinstance(meta, dict):
        return "finish_reason" in meta and meta["finish_reason"] is None
    choices = _choices(event)
    return _piece(event) or (
        bool(choices) and all("finish_reason" in one and one["finish_reason"] is None for one in choices)
    )


def _follows(event: Event, before: Event, stream: int | None) -> bool:
    """Whether this event is of the same answer as the one before, which has the same name."""
    if _number(event, "generation_tokens") <= _number(before, "generation_tokens") and "from_draft" in event:
        return False  # it counts tokens anew
    now, then = (one.get("timings") for one in (event, before))
    if (
        isinstance(now, dict)
        and isinstance(then, dict)
        and _number(now, "predicted_n") < _number(then, "predicted_n")
    ):
        return False
    if before.get("stop") is True or _another(event, before):
        return False
    # A chunk without choices has the usage, behind the one that ends the text.
    return (
        stream is not None
        or _unfinished(before)
        or event.get("choices") == []
        or (_piece(event) and _piece(before))
    )


def _another(event: Event, before: Event) -> bool:
    """Whether this event is of another engine, or follows the end of the answer before, in a stream of several."""
    for name in ("model", "system_fingerprint"):
        if event.get(name) and before.get(name) and event[name] != before[name]:
            return True
    kinds, earlier = ({name for name in COUNTS if one.get(name)} for one in (event, before))
    if kinds and earlier and kinds.isdisjoint(earlier):
        return True
    ended = {one.get("index", 0) for one in _choices(before) if one.get("finish_reason") is not None}
    goes_on = {one.get("index", 0) for one in _choices(event) if one.get("finish_reason") is None}
    whole = before.get("choices") == [] and bool(before.get("usage"))
    return bool(ended & goes_on) or (whole and bool(event.get("choices")))


def _number(event: Event, name: str) -> float:
    value = event.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
