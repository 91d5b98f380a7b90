"""What a decode reports while it runs. Events are small and plain, so they can be sent to a browser as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdec_core.record.schema import EndReason, Source, Stats, Verdict
from specdec_core.record.trace import Trace


@dataclass(slots=True)
class Started:
    """The lane has read the prompt (prefill is done) and its clock is at zero. `root`: the text of its last token."""

    lane: int
    proposer: str
    rule: str
    prompt_tokens: int
    prefill_s: float
    root: str = ""


@dataclass(slots=True)
class Step:
    """One round was committed. `clock_s` is the lane's clock at its end; `texts` are the committed pieces.

    Node columns are as in `trace.Nodes`: `parent` −1 is the root. `node_texts` are the texts of the proposed tokens.
    The phases' seconds, from `start_s` on, are as in `trace.Round`. `candidates`: of how many the proposed tokens are
    the best, where a proposer records that instead of naming all of them. `by`: who guessed, of several. `names` are
    the display texts of the committed tokens, also of those that write nothing by themselves.
    """

    lane: int
    round: int
    clock_s: float
    tokens: list[int]
    texts: list[str]
    sources: list[Source]
    parent: list[int]
    node_texts: list[str]
    verdict: list[Verdict]
    total: int  # committed tokens so far
    start_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    judge_s: float = 0.0
    commit_s: float = 0.0
    ahead_s: float = 0.0
    candidates: int | None = None
    by: str | None = None
    names: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Ended:
    """The lane has stopped computing; its record still has to be written."""

    lane: int
    end: EndReason


@dataclass(slots=True)
class Finished:
    """The lane is done; `trace` is its complete record."""

    lane: int
    end: EndReason
    stats: Stats
    trace: Trace


Event = Started | Step | Ended | Finished
