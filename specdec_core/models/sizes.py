"""How many parameters has a model, and how many of them does a pass over one token read? For a record's header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_core.record.schema import ModelInfo

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from .tokens.draft_vocabulary import Guessing


def model_info(name: str, model: PreTrainedModel) -> ModelInfo:
    """A loaded causal model: of an input embedding that is not the output matrix as well, a pass reads one row."""
    count, embedding = int(model.num_parameters()), list(model.get_input_embeddings().parameters())
    tied = any(weight is one for weight in model.get_output_embeddings().parameters() for one in embedding)
    unread = 0 if tied else sum(weight.numel() for weight in embedding)
    return ModelInfo(name, count, str(model.config.model_type), count - unread)


def head_info(name: str, head: Guessing, output: nn.Module) -> ModelInfo:
    """Heads of a target with this output matrix, of which they may read some rows."""
    count = sum(weight.numel() for weight in head.parameters())
    own = getattr(head, "embed_tokens", None)
    read = count - (own.weight.numel() if own is not None else 0)
    return ModelInfo(f"{name} heads", count, read=read, output_rows=head.output_rows(output))
