"""What a fit tries: proposers with the options, lengths, policies and rules that are worth comparing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from specdec_core.engine.choice import check
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import proposer_class
from specdec_core.settings import Settings
from specdec_measure.sweep.lanes import label

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

LOADED = ""  # the draft and the heads that were loaded with the target
TUNED = "tuned draft"

Changes = dict[str, Any]

# The first two of each list are its scouts, a small proposal and a larger one; the others are tried where a scout is
# near the best.
_CHAIN = (2, 5, 3, 4, 1, 6, 8, 12)
_TREES = ((2, 3, 5), (3, 4, 16), (2, 4, 8), (2, 6, 12), (4, 6, 32))  # width, depth, nodes
_STATES: list[Changes] = [
    *(
        {"options": {"depth": depth, "top_k": top_k, "nodes": nodes}}
        for depth, top_k, nodes in ((2, 2, 3), (4, 3, 8), (3, 2, 5), (3, 1, 3), (5, 4, 16), (6, 4, 32))
    ),
    {"options": {"depth": 6, "top_k": 3, "nodes": 6}, "length_policy": "confidence"},
    {"options": {"depth": 6, "top_k": 3, "nodes": 16}, "length_policy": "cost-aware"},
]
_SPACE: dict[str, list[Changes]] = {
    "draft-model": [
        *({"draft_length": gamma} for gamma in _CHAIN),
        {"draft_length": 8, "length_policy": "confidence"},
        {"draft_length": 8, "length_policy": "cost-aware"},
        {"draft_length": 4, "overlap": True},
    ],
    "branching": [
        {"options": {"width": width, "depth": depth, "nodes": nodes}} for width, depth, nodes in _TREES
    ],
    "eagle": _STATES,
    "eagle3": _STATES,
    "mtp": [
        {"options": {"depth": depth, "top_k": top_k, "nodes": nodes}}
        for depth, top_k, nodes in ((1, 2, 2), (3, 2, 5), (2, 2, 3), (3, 1, 3), (3, 3, 8))
    ],
    "block": [
        *({"draft_length": gamma} for gamma in (3, 7, 2, 5)),
        *({"options": {"nodes": nodes}} for nodes in (8, 4, 16)),
        {"draft_length": 7, "length_policy": "cost-aware"},
    ],
    "medusa": [{"options": {"nodes": nodes}} for nodes in (4, 16, 8, 2, 32)],
    "prompt-lookup": [
        {"draft_length": gamma, "options": {"max_ngram": ngram}}
        for gamma, ngram in ((3, 2), (10, 3), (5, 3), (5, 2), (2, 3), (16, 4))
    ],
    "suffix": [
        {"options": {"nodes": nodes, "shape": shape}}
        for nodes, shape in ((4, "tree"), (16, "tree"), (8, "tree"), (8, "chain"), (16, "chain"))
    ],
    "combined": [
        {"options": {"model": model, "least": least, "copies": copies}}
        for least, copies in ((3, 10), (5, 16), (2, 5))
        for model in ("draft-model", "block", "eagle")
    ],
    "recycling": [{"options": {"nodes": nodes}} for nodes in (4, 16, 8, 32)],
    "lookahead": [
        {"options": {"window": window, "ngram": 3, "guesses": guesses}}
        for window, guesses in ((3, 2), (5, 3), (8, 6))
    ],
    "early-exit": [{"draft_length": gamma} for gamma in (2, 4)],
    "parallel-draft": [{"draft_length": gamma} for gamma in (2, 6, 4)],
    "text-draft": [{"draft_length": gamma} for gamma in (3, 8)],
    "shared-tokens": [{"draft_length": gamma} for gamma in (2, 4)],
}
SCOUTS = 2
UNTRIED = ("none", "blind", "oracle", "you")  # no guesses, hopeless ones, free ones, a person's


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to decode, and with which parts: `LOADED`, or a part that the fit has trained."""

    settings: Settings
    part: str = LOADED

    @property
    def family(self) -> tuple[str, str, str]:
        """What its relatives share: the proposer, which draft, and which part."""
        return self.settings.proposer, str(self.settings.options.get("draft", "usual")), self.part

    @property
    def label(self) -> str:
        """Unique among a fit's candidates."""
        name = label(self.settings)
        return f"{name}, {self.part}" if self.part else name


@dataclass(frozen=True, slots=True)
class RefusedCandidate:
    """A proposer that is not tried, and why, as a sentence."""

    proposer: str
    reason: str


def plain(base: Settings) -> Candidate:
    """Plain decoding of the same text."""
    usual = Settings()
    own = ("rule", "rule_options", "options", "length_policy", "length_options", "draft_length", "overlap")
    return Candidate(base.but(proposer="none", record="off", **{name: getattr(usual, name) for name in own}))


def candidates(
    models: Models, base: Settings, parts: Sequence[str] = ()
) -> tuple[list[Candidate], list[RefusedCandidate]]:
    """What can run with these models, the proposers in turn, and which proposers cannot.

    Args:
        base: what the text is to be: its length, temperature and so on; the rest of it is replaced.
        parts: what was trained, such as `TUNED`.
    """
    start, refused = plain(base).settings, []
    columns: list[list[Candidate]] = []
    for name, space in _SPACE.items():
        kind = proposer_class(name)
        if why_not := kind.why_not(models, person=False):
            refused.append(RefusedCandidate(name, why_not))
            continue
        fitting = [one for one in _column(start, name, {}, space) if _can(one.settings, models)]
        columns.append(fitting)
        if "draft" in kind.Options.model_fields:
            if models.larger_draft and not kind.why_not(models.drafting("larger"), person=False):
                columns.append(_column(start, name, {"draft": "larger"}, space))
            if TUNED in parts:
                columns.append(_column(start, name, {}, space, TUNED))
    turns = [one for turn in zip_longest(*columns) for one in turn if one is not None]
    return list({one.label: one for one in turns}.values()), refused


def scouts(found: Sequence[Candidate]) -> list[Candidate]:
    """The first few of each family."""
    seen: Counter[tuple[str, str, str]] = Counter()
    chosen = []
    for one in found:
        seen[one.family] += 1
        if seen[one.family] <= SCOUTS:
            chosen.append(one)
    return chosen


def variants(one: Candidate, lossy: bool) -> list[Candidate]:
    """Near relatives of a candidate: a draft length between the listed ones, and other rules.

    At temperature 0 all lossless rules keep the same guesses, so there only lossy ones differ.

    Args:
        lossy: whether rules that change the text's distribution are tried as well.
    """
    changes: list[Changes] = []
    settings = one.settings
    if settings.draft_length > 5 and proposer_class(settings.proposer).drafts(settings) == "chain":
        changes += [{"draft_length": settings.draft_length + step} for step in (-1, 1)]
    if settings.temperature > 0:
        changes += [{"rule": "block"}, {"rule": "token-matching"}]
    if lossy:
        changes.append({"rule": "typical"})
    return _allowed(settings, changes, one.part)


def _can(settings: Settings, models: Models) -> bool:
    """Whether the models have what the proposer needs with its options."""
    return check(settings).proposer.why_not(models, person=False) is None


def _column(
    start: Settings, proposer: str, options: Changes, space: Sequence[Changes], part: str = LOADED
) -> list[Candidate]:
    changes = [
        {**one, "proposer": proposer, "options": {**one.get("options", {}), **options}} for one in space
    ]
    return _allowed(start, changes, part)


def _allowed(start: Settings, changes: Sequence[Changes], part: str) -> list[Candidate]:
    found = []
    for one in changes:
        try:
            settings = start.but(**one)
            check(settings)
        except SettingsError:  # the rule does not suit these trees, or the policy this proposer
            continue
        found.append(Candidate(settings, part))
    return found
