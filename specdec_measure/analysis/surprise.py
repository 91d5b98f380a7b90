"""How much a given text surprises target and draft, token by token: one pass of each, and nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import PromptError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.runtime.machine import threads
from specdec_core.tree import TokenTree
from specdec_measure.theory import surprise

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

MAX_TOKENS = 256  # tokens of a text that are read


@dataclass(frozen=True, slots=True)
class Surprise:
    """One token of the text: itself, the target's and the draft's surprise at it in bits, and each model's choice."""

    text: str
    bits: float
    draft_bits: float | None
    choice: str
    draft_choice: str | None

    @property
    def guessed(self) -> bool | None:
        """Whether the draft's choice is this token; None without a draft."""
        return None if self.draft_choice is None else self.draft_choice == self.text


def surprises(models: Models, text: str) -> list[Surprise]:
    """All tokens of `text` but the first, which has nothing before it.

    Raises:
        PromptError: if the text has fewer than two tokens, or too many, or the target reads with an encoder.
    """
    if models.decoder_start is not None:
        raise PromptError(
            "An encoder reads the whole text before the decoder writes; take a decoder-only model."
        )
    tokens, most = models.codec.encode(text), min(MAX_TOKENS, models.window(with_draft=True))
    if not 2 <= len(tokens) <= most:
        raise PromptError(f"Give a text of 2 to {most} tokens; this one has {len(tokens)}.")
    found = []
    with threads(models.threads), torch.inference_mode():
        for model in (models.target, models.draft):
            if model is None:
                continue
            reader = model.reader(len(tokens), len(tokens))
            logits = reader.read(tokens[0], TokenTree.chain(tokens[1:]))[:-1]
            chances = logits.softmax(-1)[range(len(tokens) - 1), tokens[1:]]  # (n − 1,)
            found.append((chances.clamp_min(1e-30).tolist(), logits.argmax(-1).tolist()))
    names = models.codec.names
    own, *others = found
    draft = others[0] if others else None
    return [
        Surprise(
            text=names([token])[0],
            bits=surprise(own[0][at]),
            draft_bits=surprise(draft[0][at]) if draft else None,
            choice=names([own[1][at]])[0],
            draft_choice=names([draft[1][at]])[0] if draft else None,
        )
        for at, token in enumerate(tokens[1:])
    ]
