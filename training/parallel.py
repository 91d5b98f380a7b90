"""How does a draft learn to guess several tokens in one pass? From mask tokens after many places of each text.

PARD (An et al. 2025): what follows place i is guessed from the text up to i and from mask tokens after it, the k-th of
which guesses token i + 1 + k. Here one pass reads a whole row and, beside it, the masks of several of its places; each
sees the text before its place and the masks before it, and has the position that its guess is made from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from training.heads import Frozen
from training.model import SmallLlama
from training.shapes import Shape

SHARE = 0.25  # of a row's places, how many have masks in a step


def shape_with_mask(shape: Shape) -> Shape:
    """The shape with one more token, the mask, which no text contains."""
    return replace(shape, vocab=shape.vocab + 1)


def with_mask(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights for `shape_with_mask`: the mask begins as the mean of all tokens."""
    table = weights["model.embed_tokens.weight"]
    return weights | {"model.embed_tokens.weight": torch.cat((table, table.mean(0, keepdim=True)))}


def visible(length: int, places: Tensor, masks: int) -> Tensor:
    """Who sees whom: bool (t + a·m, t + a·m) for a row of t tokens and m masks after each of `places` (a,)."""
    place = torch.arange(length, device=places.device)
    after = places.repeat_interleave(masks)
    order = torch.arange(masks, device=places.device).repeat(len(places))
    same = torch.arange(len(places), device=places.device).repeat_interleave(masks)
    text = torch.cat((place, after))[:, None] >= place  # of the text: up to the own place
    beside = (same[:, None] == same) & (order[:, None] >= order)
    return torch.cat((text, F.pad(beside, (0, 0, length, 0))), 1)


def parallel_loss(draft: SmallLlama, target: Frozen, ahead: int, seed: int) -> Callable[[Tensor], Tensor]:
    """Loss: int64 ids [batch, time + 1] to float32 (2,), the mean KL(target || draft) after tokens and after masks.

    The target's distributions are those after the true text, for the masks as well.
    """
    numbers = torch.Generator().manual_seed(seed)
    masks = ahead - 1

    def losses(ids: Tensor) -> Tensor:
        ids = ids[:, :-1]
        length = ids.shape[1]
        count = max(1, int(SHARE * (length - masks)))
        places = torch.randperm(length - masks, generator=numbers)[:count].to(ids.device)
        beyond = (places[:, None] + torch.arange(1, ahead, device=ids.device)).flatten()
        read = torch.cat((ids, ids.new_full((len(ids), len(beyond)), draft.shape.vocab - 1)), 1)
        positions = torch.cat((torch.arange(length, device=ids.device), beyond))
        with target.autocast():
            wanted = F.log_softmax(target.read(ids)[1].float(), -1)[:, positions]
            guessed = draft.packed(read, positions, visible(length, places, masks)).float()
            guessed = F.log_softmax(guessed[..., : wanted.shape[-1]], -1)
        distance = (wanted.exp() * (wanted - guessed)).sum(-1)
        return torch.stack((distance[:, :length].mean(), distance[:, length:].mean()))

    return losses
