"""Sizes of published models, from which their pass times can be modelled without their weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import log

from specdec_core.foundations.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder-only transformer with gated MLPs, from its published configuration.

    Attributes:
        name, title: its name here, and the published model.
        layers, width, inner, vocabulary: layers, width of the hidden state and of the MLP, number of tokens.
        heads, kv_heads, head_dim: attention heads, those of keys and values, and the width of each.
        tied: whether input embedding and output matrix are tied.
    """

    name: str
    title: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tied: bool

    @property
    def output(self) -> int:
        """Parameters of the output matrix."""
        return self.width * self.vocabulary

    @property
    def read(self) -> int:
        """Parameters that a pass multiplies with: all matrices; an input embedding is only read row by row."""
        attention = 2 * self.width * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.inner) + self.output

    @property
    def parameters(self) -> int:
        """All parameters, without biases."""
        return self.read + (0 if self.tied else self.output) + (2 * self.layers + 1) * self.width

    @property
    def kv_numbers(self) -> int:
        """Numbers one token adds to the KV cache, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("135M", "as SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49_152, True),
        Shape("0.5B", "as Qwen2.5-0.5B", 24, 896, 14, 2, 64, 4864, 151_936, True),
        Shape("1B", "as Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128_256, True),
        Shape("1.5B", "as Qwen2.5-1.5B", 28, 1536, 12, 2, 128, 8960, 151_936, True),
        Shape("3B", "as Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128_256, True),
        Shape("8B", "as Llama-3.1-8B", 32, 4096, 32, 8, 128, 14_336, 128_256, False),
        Shape("70B", "as Llama-3.1-70B", 80, 8192, 64, 8, 128, 28_672, 128_256, False),
    )
}
"""Sizes of published models, the smallest first; any can be a target with a smaller one as its draft."""


def shape(name: str) -> Shape:
    """The sizes of a published model by name, in capitals or not; `shape_of` also takes numbers of parameters.

    Raises:
        SettingsError: naming the known ones.
    """
    known = {one.lower(): found for one, found in SHAPES.items()}
    if name.lower() not in known:
        raise SettingsError(
            f"There is no published model of size '{name}' here. Choose one of: {', '.join(SHAPES)}."
        )
    return known[name.lower()]


OWN = re.compile(r"(\d+(?:\.\d+)?) ?([MB])", re.IGNORECASE)
MIN_PARAMETERS, MAX_PARAMETERS = 10e6, 2e12  # parameters of a size of one's own
SIZES = f"one of {', '.join(SHAPES)}, or a number of parameters from 10M to 2000B, such as 360M or 14B"
"""What `shape_of` takes, in words."""


def shape_of(size: str) -> Shape:
    """The sizes of a model named by its number of parameters: digits, perhaps with a decimal point, then M or B.

    A published model's name (a key of `SHAPES`) gives its own sizes; any other number from 10M to 2000B gives a model
    in the proportions of the published one nearest in size (`scaled`). Capitals and outer blanks do not matter.

    Raises:
        SettingsError: saying what is taken (`SIZES`), for anything else.
    """
    said = str(size).strip()
    if said.upper() in SHAPES:
        return SHAPES[said.upper()]
    found = OWN.fullmatch(said)
    parameters = float(found[1]) * (1e9 if found[2] in "Bb" else 1e6) if found else 0.0
    if found is None or not MIN_PARAMETERS <= parameters <= MAX_PARAMETERS:
        raise SettingsError(f"There is no model size '{said[:40]}'; expected {SIZES}.")
    return scaled(parameters, f"{float(found[1]):g}{found[2].upper()}")


def in_words(parameters: int) -> str:
    """A number of parameters, such as "8.03 billion"."""
    return f"{parameters / 1e6:,.1f} million" if parameters < 1e9 else f"{parameters / 1e9:,.2f} billion"


def scaled(parameters: float, name: str) -> Shape:
    """A model of so many parameters in the proportions of the published one that is nearest in size."""
    near = min(SHAPES.values(), key=lambda one: abs(log(one.parameters / parameters)))
    layers = max(1, round(near.layers * (parameters / near.parameters) ** (1 / 3)))

    def of_width(width: int) -> Shape:
        factor = width / near.width
        heads = near.kv_heads * max(1, round(near.heads * factor / near.kv_heads))
        inner = max(1, round(near.inner * factor))
        title = f"in the proportions of {near.title.removeprefix('as ')}"
        return replace(near, name=name, title=title, layers=layers, width=width, heads=heads, inner=inner)

    low, high = 1, 64 * near.width  # parameters grow with the width
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if of_width(middle).parameters >= parameters else (middle + 1, high)
    return of_width(low)
