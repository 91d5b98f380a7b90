"""Writes a record from anybody's decode loop: `specdec import` completes it, the player plays it.

This file needs nothing but Python's own library, so it can be copied beside an engine's code.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PHASES = ("draft", "verify", "judge", "commit")
COLUMNS = {"p", "q", "model_p", "model_q", "coin", "threshold", "parent", "verdict"}


class SpecdecLog:
    """One decode, round by round.

    Args:
        prompt_ids: what the target read, at least one token.
        target, draft: the models' names.
        proposer, rule, temperature: how tokens were guessed and judged; the lab's names, or others.
        settings: whatever else is known of them.
    """

    def __init__(
        self, prompt_ids: Sequence[int], *, target: str = "unknown", draft: str | None = None, prompt: str = "",
        proposer: str = "draft-model", rule: str = "speculative-sampling", temperature: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        known = {"proposer": proposer, "rule": rule, "temperature": temperature, **settings}
        header = {
            "target": {"name": target},
            "settings": known,
            "prompt": prompt,
            "prompt_ids": _whole(prompt_ids),
        }
        if draft is not None:
            header["draft"] = {"name": draft}
        self._content: dict[str, Any] = {
            "format": "specdec-trace",
            "version": 1,
            "header": header,
            "rounds": [],
        }
        self._times: dict[str, float] = {}
        self._start: float | None = None
        self._zero: float | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a part of the next round: draft, verify, judge or commit."""
        if name not in PHASES:
            raise ValueError(f"a phase is one of {', '.join(PHASES)}, got {name!r}")
        began = time.perf_counter()
        self._zero = began if self._zero is None else self._zero
        self._start = began - self._zero if self._start is None else self._start
        try:
            yield
        finally:
            self._times[name] = self._times.get(name, 0.0) + time.perf_counter() - began

    def round(self, tokens: Sequence[int], committed: Sequence[int], **columns: Sequence[Any]) -> None:
        """Keep one pass of the target.

        Args:
            tokens: what was guessed for it, none in a plain pass; −1 for a guess whose token is not known.
            committed: what it added to the text.
            columns: what else is known of each guess, as long as `tokens`, None where it is unknown: `p` and `q` (the
                target's and the draft's probability of it), `parent` of a tree, with `verdict` then; `coin`,
                `threshold`.

        Raises:
            ValueError: a column of another name or length.
        """
        nodes: dict[str, Any] = {"token": _whole(tokens)}
        for name, values in columns.items():
            if name not in COLUMNS or len(values) != len(nodes["token"]):
                raise ValueError(
                    f"'{name}' is no column of {len(nodes['token'])} guesses; known: {sorted(COLUMNS)}"
                )
            nodes[name] = [_plain(value) for value in values]
        row: dict[str, Any] = {"committed": {"token": _whole(committed)}}
        if nodes["token"]:
            row["nodes"] = nodes
        if self._start is not None:
            row["start_s"] = self._start
            row |= {f"{name}_s": seconds for name, seconds in self._times.items()}
        self._content["rounds"].append(row)
        self._times, self._start = {}, None

    def save(self, path: str | Path, end: str = "length", texts: Mapping[int, str] | None = None) -> None:
        """Write the record. `end` is length, eos, stop or cancelled; `texts` the tokens' texts by id."""
        named = {str(token): text for token, text in (texts or {}).items()}
        content = self._content | {"texts": named, "end": end}
        Path(path).write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def _whole(values: Sequence[int]) -> list[int]:
    """Token ids of any library's numbers, tensors included."""
    return [int(value) for value in values]


def _plain(value: Any) -> Any:
    """A number or a word as JSON has it."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return int(number) if isinstance(value, int) else number
