"""The lanes of a sweep: plain decoding first, a label for each, and the context of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import SettingsError
from specdec_core.settings import SAMPLING, Settings

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

TEXT = ("max_new_tokens", *SAMPLING, "seed", "stop")  # must be the same in all lanes


def complete(
    lanes: Sequence[Settings], labels: Sequence[str] | None = None
) -> tuple[list[Settings], list[str]]:
    """The lanes with plain decoding first and nothing recorded, and their labels, all distinct."""
    if not lanes:
        raise SettingsError("A sweep needs at least one lane.")
    if labels is not None and len(labels) != len(lanes):
        raise SettingsError(f"There are {len(lanes)} lanes but {len(labels)} labels.")
    named = list(labels) if labels is not None else [label(lane) for lane in lanes]
    lanes = list(lanes)
    if lanes[0].proposer != "none":
        plain = Settings(proposer="none", **{name: getattr(lanes[0], name) for name in TEXT})
        lanes, named = [plain, *lanes], [label(plain), *named]
    seen: dict[str, int] = {}
    for at, name in enumerate(named):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            named[at] = f"{name} ({seen[name]})"
    return [lane.but(record="off") for lane in lanes], named


def label(lane: Settings) -> str:
    """A lane's label: its proposer, and the settings that differ from the defaults."""
    from specdec_core.lengths import policy_class
    from specdec_core.proposers import proposer_class
    from specdec_core.rules import rule_class

    kind, rule, usual = proposer_class(lane.proposer), rule_class(lane.rule), Settings()
    words = [kind.title]
    if lane.proposer == "none":
        return kind.title
    if kind.drafts(lane) == "chain" and "length" in kind.uses:
        words.append(f"γ = {lane.draft_length}")
    words += [f"{name} = {value}" for name, value in lane.options.items()]
    if lane.rule != usual.rule:
        words.append(rule.title if rule.lossless else f"lossy: {rule.title}")
    words += [f"{name} = {value}" for name, value in lane.rule_options.items()]
    if lane.length_policy != usual.length_policy:
        words.append(policy_class(lane).title)
    words += [f"{name} = {value}" for name, value in lane.length_options.items()]
    if lane.overlap:
        words.append("overlap")
    if kind.off_the_clock:
        words.append("a bound: its drafting is not counted")
    return ", ".join(words)


def about(models: Models, lanes: Sequence[Settings], labels: Sequence[str]) -> dict[str, Any]:
    """The context of the rows: models, machine, versions, settings, date."""
    from specdec_core.runtime.machine import packages

    return {
        "format": "specdec-sweep",
        "version": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": models.machine,
        "device": models.device,
        "dtype": models.dtype,
        "packages": packages(),
        "target": asdict(models.target.info),
        "draft": asdict(models.draft.info) if models.draft else None,
        "heads": sorted(models.heads),
        "labels": list(labels),
        "lanes": [
            models.generation.resolved(lane).model_dump(mode="json", exclude_none=True) for lane in lanes
        ],
    }


def check_lanes(models: Models, lanes: Sequence[Settings]) -> None:
    """Refuse lanes that cannot run with these models, or that would not write the same text.

    Raises:
        SettingsError: one sentence.
    """
    from specdec_core.engine.choice import check
    from specdec_core.proposers import proposer_class

    for lane in lanes:
        check(lane)
        if why_not := proposer_class(lane.proposer).why_not(models, person=False):
            raise SettingsError(why_not)
        for name in TEXT:
            if getattr(lane, name) != getattr(lanes[0], name):
                raise SettingsError(
                    f"The lanes of a sweep write the same text, but '{name}' is {getattr(lanes[0], name)!r} in one "
                    f"and {getattr(lane, name)!r} in another. Make a sweep of each."
                )
