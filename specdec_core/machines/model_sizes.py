"""Sizes of published models, from which their passes can be priced without their weights."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder-only transformer with gated MLPs, as its published configuration gives them.

    Attributes:
        name, title: what it is called here, and whose sizes these are.
        layers, width, inner, vocabulary: layers, width of the hidden state and of the MLP, number of tokens.
        heads, kv_heads, head_dim: attention heads, those of keys and values, and the width of each.
        tied: whether input embedding and output matrix are one.
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
        """Parameters that a pass multiplies with: all matrices; of an input embedding only single rows are read."""
        attention = 2 * self.width * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.inner) + self.output

    @property
    def parameters(self) -> int:
        """All parameters, without biases."""
        return self.read + (0 if self.tied else self.output) + (2 * self.layers + 1) * self.width

    @property
    def kv_numbers(self) -> int:
        """Numbers that one token leaves in the KV memory, over all layers."""
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
"""Sizes of published models, the smallest first; any of them may be a target whose draft is a smaller one."""


def shape(name: str) -> Shape:
    """The sizes of that name.

    Raises:
        SettingsError: naming the known ones.
    """
    known = {one.lower(): found for one, found in SHAPES.items()}
    if name.lower() not in known:
        raise SettingsError(f"There is no model size '{name}'; known are: {', '.join(SHAPES)}.")
    return known[name.lower()]
