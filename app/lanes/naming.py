"""What a lane is called, in the race, on cards and in tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from specdec_core.foundations.options import OptionField, fields
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES

from .fields import short
from .lane import LETTERS, USUAL, Lane, uses_length


def words(lane: Lane, only: Collection[str] | None = None) -> list[str]:
    """A lane's unusual settings, without the proposer's title; of the proposer's options `only` these, if given."""
    kind, rule = PROPOSERS[lane.proposer], RULES[lane.rule]
    said = []
    if uses_length(lane):
        said.append(f"γ = {lane.gamma}" if lane.length == "fixed" else f"γ up to {lane.gamma}")
    told = (
        lane.options if only is None else {name: lane.options[name] for name in lane.options if name in only}
    )
    said += _option_words(fields(kind.Options), told)
    if lane.rule != USUAL.rule:
        said.append(rule.title if rule.lossless else f"lossy: {rule.title}")
    said += _option_words(fields(rule.Options), lane.rule_options)
    if lane.length != USUAL.length_policy:
        said.append(LENGTH_POLICIES[lane.length].title)
    said += _option_words(fields(LENGTH_POLICIES[lane.length].Options), lane.length_options)
    if lane.overlap and kind.can_overlap:
        said.append("overlap")
    if lane.memory:
        said.append(f"{lane.memory:g} MB a round")
    return said


def labels(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """The names of a comparison's lanes, plain decoding and these: letter, proposer, and all unusual settings."""
    return _lettered([", ".join([PROPOSERS[lane.proposer].title, *words(lane)]) for lane in lanes])


def names(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """The same in short: of a proposer's options only as many as tell its lanes apart."""
    short = []
    for lane in lanes:
        same = [other for other in lanes if other.proposer == lane.proposer]
        different, told = _count(same), list[str]()
        for option in fields(PROPOSERS[lane.proposer].Options):
            if _count(same, told) == different:
                break
            if len({repr(other.options.get(option)) for other in same}) > 1:
                told.append(option)
        short.append(", ".join([PROPOSERS[lane.proposer].title, *words(lane, told)]))
    return _lettered(short)


def _lettered(said: Sequence[str]) -> tuple[str, ...]:
    every = (PROPOSERS["none"].title, *said)
    return tuple(f"{letter} · {name}" for letter, name in zip(LETTERS, every, strict=False))


def letters(labels: Sequence[str]) -> list[str]:
    """The letters that labels begin with."""
    return [label.partition(" · ")[0] for label in labels]


def _count(lanes: Sequence[Lane], only: Collection[str] | None = None) -> int:
    """How many of these lanes their words tell apart."""
    return len({tuple(words(lane, only)) for lane in lanes})


def _option_words(own: Mapping[str, OptionField], values: Mapping[str, Any]) -> list[str]:
    return [f"{own[name].title.lower()} = {short(own[name].write(value))}" for name, value in values.items()]
