"""The settings of a record's lane in words: its name, and the settings in force."""

from __future__ import annotations

from typing import Any

from specdec_core.foundations.errors import SpecdecError
from specdec_core.record.schema import Header
from specdec_core.settings import Settings

# What plain decoding does not use: it proposes nothing, so nothing is judged.
SPECULATIVE = ("rule", "rule_options", "length_policy", "length_options", "overlap", "memory_budget_mb")


def label(settings: Settings) -> str:
    """A lane's name from its settings alone: as in a comparison, without its letter.

    Raises:
        SettingsError: one sentence, if there is no such lane.
    """
    from specdec_core.engine.choice import check
    from specdec_core.proposers import PROPOSERS

    from .lane import Lane
    from .naming import words

    check(settings)
    title = PROPOSERS[settings.proposer].title
    if settings.proposer == "none":
        return title
    return ", ".join([title, *words(Lane.of(settings))])


def named(header: Header) -> str | None:
    """The name of a record's lane; None if this program does not understand its settings."""
    settings = _read(header)
    if settings is None:
        return None
    name = label(settings)
    # A record of another program may leave its draft length open; the usual one is not its own.
    return name if "draft_length" in header.settings else name.replace(f", γ = {settings.draft_length}", "")


def in_force(header: Header) -> dict[str, Any]:
    """The settings that a record's lane used: options with their values, without those that do not apply or that a
    record of another program does not name.

    Unchanged if this program does not understand them.
    """
    from specdec_core.lengths import longest, read_options
    from specdec_core.proposers import PROPOSERS
    from specdec_core.rules import RULES

    settings = _read(header)
    if settings is None:
        return header.settings
    kind, rule = PROPOSERS[settings.proposer], RULES[settings.rule]
    values = settings.model_dump(mode="json")
    values["options"] = kind.read_options(settings).model_dump(mode="json")
    values["rule_options"] = rule.read_options(settings).model_dump(mode="json")
    values["length_options"] = read_options(settings).model_dump(mode="json")
    if kind.drafts(settings) != "chain" or "length" not in kind.uses:
        del values["draft_length"]
    elif settings.length_policy != "fixed":
        grows = longest(settings) > settings.draft_length
        values["draft_length"] = (
            f"{settings.draft_length} at first" if grows else f"up to {settings.draft_length}"
        )
    if settings.proposer == "none":
        for name in SPECULATIVE:
            del values[name]
    return {name: value for name, value in values.items() if name in header.settings}


def _read(header: Header) -> Settings | None:
    """The settings of a record; None for another version of the core, and for invalid ones."""
    from specdec_core.engine.choice import check

    try:
        settings = Settings(**header.settings)
        check(settings)
    except (SpecdecError, TypeError):
        return None
    return settings
