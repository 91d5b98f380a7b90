"""What a pass moves and computes: the weights on a belt, one delivery for all positions of the pass, and the
seconds of moving and of arithmetic side by side, on a modelled machine."""

from __future__ import annotations

from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, slide, style
from app.course.facts.machines import modelled
from app.course.files.lesson import Strict
from app.course.files.words import Words
from specdec_measure.machines.model_sizes import shape
from specdec_measure.machines.roofline import BYTES

CRATES = 9
SEATS = 64  # drawn one by one up to this number
BATCH, CONTEXT = 1, 0


class With(Strict):
    """`machine`: a modelled profile of assets/profiles; `size`: a size of `machines.model_sizes`; `positions`: the
    number of positions of each belt's pass. With `choices`, there is one belt and the learner picks from them."""

    machine: str
    size: str
    positions: list[int] = Field([], max_length=3)
    choices: list[int] = Field([], max_length=12)

    @model_validator(mode="after")
    def known(self) -> With:
        """Whether the machine exists, and there is something to draw."""
        modelled(self.machine)
        shape(self.size)
        if bool(self.positions) == bool(self.choices):
            raise ValueError("give either `positions`, one belt for each, or `choices` for one belt")
        if any(not 1 <= one <= 4096 for one in [*self.positions, *self.choices]):
            raise ValueError("a pass has from 1 to 4096 positions")
        return self


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The number of positions, where the learner picks it."""
    if not given.choices:
        return []
    return [slide("positions", at.words("conveyor.positions"), given.choices, given.choices[0])]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The belts."""
    positions = [values["positions"]] if given.choices else given.positions
    return [
        style(__file__),
        Html(belts(given, positions, at.words)),
        Markdown(provenance(given, at.words), "small"),
    ]


def provenance(given: With, words: Words) -> str:
    """The machine, and what of the model is moved."""
    machine, model = modelled(given.machine), shape(given.size)
    return words(
        "conveyor.modelled",
        machine=machine.label,
        size=given.size,
        all=model.parameters / 1e9,
        read=model.read / 1e9,
        bytes=BYTES[machine.dtype],
        dtype=machine.dtype,
    )


def belts(given: With, positions: list[int], words: Words) -> str:
    """One belt for each number of positions, all on one scale of time."""
    machine, model = modelled(given.machine), shape(given.size)
    costs = [machine.limits(model, one, BATCH, CONTEXT) for one in [*positions, *given.choices[-1:]]]
    scale = max(max(pair) for pair in costs)
    pairs = [machine.limits(model, one, BATCH, CONTEXT) for one in positions]
    limits = [
        words("conveyor.memory_bound" if one >= other else "conveyor.compute_bound") for one, other in pairs
    ]
    drawn = "".join(
        _belt(one, *pair, scale, machine.bytes_per_s, words)
        # said once for equal belts
        + ("" if limits[at + 1 : at + 2] == [limit] else f"<p>{escape(limit)}</p>")
        for at, (one, pair, limit) in enumerate(zip(positions, pairs, limits, strict=True))
    )
    return f"<section class='conveyor'>{drawn}</section>"


def _belt(
    positions: int, moving: float, computing: float, scale: float, bandwidth: float, words: Words
) -> str:
    gigabytes = moving * bandwidth / 1e9
    crates = "".join(f"<i style='--n:{at}'></i>" for at in range(-1, CRATES))
    seats = "".join("<i></i>" for _ in range(min(positions, SEATS)))
    more = f"<em>+{words.whole(positions - SEATS)}</em>" if positions > SEATS else ""
    longest = words.number(max(moving, computing) * 1e3, ".3g")
    title = words("conveyor.one" if positions == 1 else "conveyor.many", positions=positions, ms=longest)
    store = f"<b>{escape(words('conveyor.memory'))}</b>"
    store += f"<span>{escape(words('conveyor.gigabytes', gb=gigabytes))}</span>"
    return (
        f"<figure><figcaption>{escape(title)}</figcaption><div class='line' aria-hidden='true'>"
        f"<div class='store'>{store}</div><div class='belt'>{crates}</div>"
        f"<div class='chip'><b>{escape(words('conveyor.chip'))}</b><div class='seats'>{seats}{more}</div></div></div>"
        f"<dl>{_bar('moving', moving, scale, words)}{_bar('computing', computing, scale, words)}</dl></figure>"
    )


def _bar(kind: str, seconds: float, scale: float, words: Words) -> str:
    return (
        f"<dt>{escape(words(f'conveyor.{kind}'))}</dt><dd><i class='{kind}' style='width:{seconds / scale:.3%}'></i>"
        f"<span>{escape(words('conveyor.ms', ms=words.number(seconds * 1e3, '.3g')))}</span></dd>"
    )
