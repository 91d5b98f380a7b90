"""One measured cell of a sweep: a prompt in a lane, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256


@dataclass(slots=True)
class MeasuredCase:
    """One cell: a prompt in a lane, once. Times are seconds on the lane's clock, without prefill and recording.

    Attributes:
        lane: its number; 0 is plain decoding.
        repeat: its turn, from 0.
        seconds: draft_s + verify_s + other_s.
        acceptance_rate: accepted / (accepted + rejected); None on trees, and where nothing was judged.
        same_text: whether its tokens are lane 0's; None where lane 0 has none.
        repeated: the share of its tokens that repeat earlier output (see `loops`); None in files of older versions.
        end: why the text ended; empty after an error.
        error: the sentence in place of numbers, if the cell failed.
        prompt_sha, text_sha: fingerprints of the prompt and of the committed token ids.
    """

    family: str
    name: str
    lane: int
    label: str
    repeat: int
    tokens: int = 0
    target_passes: int = 0
    draft_passes: int = 0
    proposed: int = 0
    accepted: int = 0
    rejected: int = 0
    seconds: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    other_s: float = 0.0
    prefill_s: float = 0.0
    acceptance_rate: float | None = None
    tokens_per_pass: float | None = None
    same_text: bool | None = None
    repeated: float | None = None
    end: str = ""
    error: str | None = None
    prompt_sha: str = ""
    text_sha: str = ""

    @property
    def turn(self) -> tuple[str, str, int]:
        """Key shared by the cells that are compared with each other."""
        return self.family, self.name, self.repeat


def fingerprint(content: object) -> str:
    """A short name for a text or for a list of token ids."""
    return sha256(str(content).encode(errors="surrogatepass")).hexdigest()[:16]


def complete_turns(rows: Iterable[MeasuredCase], lanes: int) -> list[MeasuredCase]:
    """The rows of those turns in which every lane was measured."""
    turns: dict[tuple[str, str, int], dict[int, MeasuredCase]] = {}
    for row in rows:
        turns.setdefault(row.turn, {})[row.lane] = row
    return [row for turn in turns.values() if len(turn) == lanes for row in turn.values()]
