"""Trained parts that guess from the target's hidden states, in their published layouts: Medusa heads, EAGLE heads and
multi-token-prediction modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor, nn

from specdec_core.models.catalogue import HEADS
from specdec_core.runtime.cpu_linear import arrange

from . import eagle, eagle3, medusa, mtp
from .continuing import Continuing
from .eagle import EagleHead
from .eagle3 import Eagle3Head
from .lean import lighten
from .medusa import MedusaHeads
from .mtp import MtpModules

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_heads(target: PreTrainedModel, sources: Mapping[str, str | None]) -> dict[str, nn.Module]:
    """The heads of these folders or hub ids, by the names in `catalogue.HEADS`, in the target's dtype, on its device.

    Raises:
        ModelError: with one sentence, if they cannot be read or do not fit the target.
    """
    output, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    assert isinstance(output, Tensor) and isinstance(embedding, Tensor)
    vocabulary, width = (int(size) for size in output.shape)
    embeds, layers = int(embedding.shape[1]), int(target.config.num_hidden_layers)
    heads: dict[str, MedusaHeads | Continuing] = {}
    for kind in HEADS:
        source = sources.get(kind)
        if source is None:
            continue
        if kind == "medusa":
            heads[kind] = medusa.read(source, width, vocabulary)
        elif kind == "eagle":
            heads[kind] = eagle.read(source, width, vocabulary, embeds)
        elif kind == "eagle3":
            heads[kind] = eagle3.read(source, width, vocabulary, embeds, layers)
        else:
            heads[kind] = mtp.read(source, width, vocabulary, embeds)
    for kind, head in heads.items():
        head.to(target.device, target.dtype)
        # copies a draft vocabulary's rows before the matrix is packed
        head.output(target.get_output_embeddings())
        if isinstance(head, MedusaHeads):
            arrange(head, steps=True, replace=True)  # they read one token per pass
        else:
            arrange(head, lighten(head, f"{kind} heads", target.get_input_embeddings()), replace=True)
    return dict(heads)


__all__ = ["Continuing", "Eagle3Head", "EagleHead", "MedusaHeads", "MtpModules", "load_heads"]
