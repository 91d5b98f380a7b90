"""What a head has to fit: the sizes of its target, and the matrices that a head's file may hold copies of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from specdec_core.foundations.errors import ModelError
from specdec_core.models.tokens.draft_vocabulary import KEY

from .layouts.contents import Contents
from .layouts.shapes import damaged

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Target:
    """A target's sizes and matrices.

    Attributes:
        width: d, of its hidden states.
        vocabulary: number of its logits.
        embeds: width of its input embeddings.
        layers: how many.
        output: its output matrix (V, d), if it is known.
        embedding: its input embeddings (V, embeds), if they are known.
        norm: the weight of its final norm (d,), if it is known.
    """

    width: int
    vocabulary: int
    embeds: int
    layers: int = 0
    output: Tensor | None = None
    embedding: Tensor | None = None
    norm: Tensor | None = None

    @classmethod
    def of(cls, model: PreTrainedModel) -> Self:
        """Those of a loaded model."""
        output, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
        assert isinstance(output, Tensor) and isinstance(embedding, Tensor)
        (vocabulary, width), layers = output.shape, int(model.config.num_hidden_layers)
        norm = getattr(getattr(model.get_decoder(), "norm", None), "weight", None)
        return cls(int(width), int(vocabulary), int(embedding.shape[1]), layers, output, embedding, norm)

    def check_embeds(self, name: str, width: int) -> None:
        """Refuse a head of this width without embeddings of its own where the target's have another.

        Raises:
            ModelError: naming both widths.
        """
        if self.embeds != width:
            raise ModelError(
                f"'{name}' shares the target's input embedding, which is {self.embeds:,} wide, and the head is "
                f"{width:,} wide. Load a head with embeddings of its own."
            )


def own_copy(contents: Contents, key: str, original: Tensor | None) -> bool:
    """Whether the tensor `key` is in a file and is no copy of the target's `original`; a copy counts as read."""
    if key not in contents:
        return False
    if original is None or contents.shape(key) != tuple(original.shape):
        return True
    return not equal(contents[key], original)


def equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape hold the same numbers, as far as the coarser of their dtypes can say."""
    dtype = min((one.dtype, other.dtype), key=lambda dtype: dtype.itemsize)
    return torch.equal(one.to(dtype), other.detach().to(one.device, dtype))


def fitting(name: str, what: str, found: Sequence[int], wanted: Sequence[int]) -> None:
    """Refuse a tensor whose shape does not fit the target.

    Raises:
        ModelError: naming both shapes.
    """
    if tuple(found) != tuple(wanted):
        raise ModelError(
            f"'{name}' does not fit this target: {what} is {_times(found)} and the target asks for {_times(wanted)}. "
            "Load the heads that were trained for it."
        )


def filled(contents: Contents, kind: str, made: Any) -> Any:
    """The head that `made` creates, with the weights of a file.

    Args:
        contents: of its folder.
        kind: what it is, for messages.
        made: creates it; called twice, the first time on the meta device.

    Raises:
        ModelError: with one sentence, if it cannot be created, or a weight is missing or of another shape.
    """
    name = contents.name
    try:
        with torch.device("meta"):  # shapes only, so that a hostile size allocates nothing
            wanted = made().state_dict()
    except Exception as error:  # transformers raises many kinds of errors on a damaged configuration
        raise damaged(name, error) from None
    given = {KEY} - set(contents)  # a draft vocabulary by its `t2d` alone is the head's from its creation
    for key, tensor in wanted.items():
        if key in given:
            continue
        if key not in contents:
            raise ModelError(
                f"'{name}' holds no complete {kind}: '{key}' is missing. Fetch or export it again."
            )
        fitting(name, contents.stored(key), contents.shape(key), tuple(tensor.shape))
        if tensor.is_floating_point() and "F" not in contents.dtype(key):
            raise ModelError(
                f"'{name}' has the weight '{contents.stored(key)}' in whole numbers ({contents.dtype(key)}), which is "
                "not read here in heads. Choose one whose weights are in float32, float16 or bfloat16."
            )
    head = made()
    for key in [
        key for key in contents if key.endswith("rotary_emb.inv_freq")
    ]:  # saved by older transformers
        _check_angles(contents, key, head.rotary)
    head.load_state_dict(
        {key: own if key in given else contents[key] for key, own in head.state_dict().items()}
    )
    return head.requires_grad_(False).eval()


def _check_angles(contents: Contents, key: str, rotary: Any) -> None:
    """Refuse a saved table of angles that is not the one computed from the configuration."""
    angles = rotary.inv_freq
    same = contents.shape(key) == tuple(angles.shape)
    if same and torch.allclose(contents[key].float(), angles.float().cpu(), rtol=1e-2, atol=1e-6):
        return
    raise ModelError(
        f"'{contents.name}' has angles of positions in '{contents.stored(key)}' that differ from those its config.json "
        "describes ('rope_theta', 'rope_scaling'). Correct config.json, or export it again without them."
    )


def _times(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape)
