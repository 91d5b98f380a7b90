"""Trained parts that guess from the target's hidden states, in their published layouts: Medusa and EAGLE heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from specdec_core.runtime.cpu_linear import by_columns, pack

from . import eagle, medusa
from .eagle import EagleHead
from .medusa import MedusaHeads

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_heads(
    target: PreTrainedModel, medusa_source: str | None, eagle_source: str | None
) -> dict[str, nn.Module]:
    """The heads of these folders or hub ids, in the target's dtype and on its device, by name.

    Raises:
        ModelError: with one sentence, if they cannot be read or do not fit the target.
    """
    output, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    assert isinstance(output, Tensor) and isinstance(embedding, Tensor)
    vocabulary, width = (int(size) for size in output.shape)
    heads: dict[str, MedusaHeads | EagleHead] = {}
    if medusa_source is not None:
        heads["medusa"] = medusa.read(medusa_source, width, vocabulary)
    if eagle_source is not None:
        heads["eagle"] = eagle.read(eagle_source, width, vocabulary, int(embedding.shape[1]))
    for head in heads.values():
        head.to(target.device, target.dtype)
        # copies a draft vocabulary's rows before the matrix is packed
        head.output(target.get_output_embeddings())
    if "eagle" in heads:
        pack(heads["eagle"])
    if "medusa" in heads:  # reads one token per pass
        by_columns(heads["medusa"])
    return dict(heads)


__all__ = ["EagleHead", "MedusaHeads", "load_heads"]
