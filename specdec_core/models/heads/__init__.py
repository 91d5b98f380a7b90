"""Trained parts that guess from the target's hidden states, in their published layouts: Medusa heads, EAGLE heads and
multi-token-prediction modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from torch import nn

from specdec_core.models.catalogue import HEADS
from specdec_core.runtime.cpu_linear import arrange

from . import eagle, eagle3, medusa, mtp
from .block import BlockHead, checkpoint
from .continuing import Continuing
from .eagle import EagleHead
from .eagle3 import Eagle3Head
from .lean import lighten
from .medusa import MedusaHeads
from .mtp import MtpModules
from .target import Target

if TYPE_CHECKING:
    from transformers import PreTrainedModel


READERS: dict[str, Callable[[str, Target], MedusaHeads | Continuing | BlockHead]] = {
    "medusa": medusa.read,
    "eagle": eagle.read,
    "eagle3": eagle3.read,
    "mtp": mtp.read,
    "block": checkpoint.read,
}


def load_heads(
    target: PreTrainedModel, sources: Mapping[str, str | None], bits: int = 16
) -> dict[str, nn.Module]:
    """The heads of these folders or hub ids, by the names in `catalogue.HEADS`, in the target's dtype, on its device.

    Raises:
        ModelError: with one sentence, if they cannot be read or do not fit the target.
    """
    fits = Target.of(target)
    heads: dict[str, MedusaHeads | Continuing | BlockHead] = {
        kind: READERS[kind](source, fits) for kind in HEADS if (source := sources.get(kind)) is not None
    }
    for kind, head in heads.items():
        head.to(target.device, target.dtype)
        # copies a draft vocabulary's rows before the matrix is packed
        head.output(target.get_output_embeddings(), bits)
        if isinstance(head, MedusaHeads):
            arrange(head, steps=True, replace=True, bits=bits)  # they read one token per pass
        elif isinstance(head, BlockHead):
            arrange(head, head.lean(), replace=True, bits=bits)
        else:
            arrange(
                head, lighten(head, f"{kind} heads", target.get_input_embeddings()), replace=True, bits=bits
            )
            if head.lean is not None:
                head.lean.compile()
    return dict(heads)


__all__ = [
    "BlockHead",
    "Continuing",
    "Eagle3Head",
    "EagleHead",
    "MedusaHeads",
    "MtpModules",
    "Target",
    "load_heads",
]
