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

from training.heads.frozen import Frozen
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
        wanted, guessed = both(draft, target, ids, places, masks)
        wanted, guessed = F.log_softmax(wanted, -1), F.log_softmax(guessed, -1)
        distance = (wanted.exp() * (wanted - guessed)).sum(-1)
        return torch.stack((distance[:, :length].mean(), distance[:, length:].mean()))

    return losses


def both(draft: SmallLlama, target: Frozen, ids: Tensor, places: Tensor, masks: int) -> tuple[Tensor, Tensor]:
    """The target's and the draft's logits for the same tokens, float32 (b, t + a·m, V): after each of the t tokens,
    then after each of `masks` masks behind each of `places` (a,)."""
    length = ids.shape[1]
    beyond = (places[:, None] + torch.arange(1, masks + 1, device=ids.device)).flatten()
    read = torch.cat((ids, ids.new_full((len(ids), len(beyond)), draft.shape.vocab - 1)), 1)
    positions = torch.cat((torch.arange(length, device=ids.device), beyond))
    with target.autocast():
        wanted = target.read(ids)[1].float()[:, positions]
        guessed = draft.packed(read, positions, visible(length, places, masks)).float()
    return wanted, guessed[..., : wanted.shape[-1]]


@torch.no_grad()
def accuracy(
    draft: SmallLlama, target: Frozen, rows: Tensor, ahead: int, every: int = 8, batch: int = 4
) -> list[float]:
    """For each of the `ahead` guesses of a pass, at every eighth place, the share that is the target's most likely
    token after the true text."""
    hits, count = torch.zeros(ahead), 0
    for ids in torch.split(rows[:, :-1].to(target.device), batch):
        places = torch.arange(0, ids.shape[1] - ahead + 1, every, device=ids.device)
        wanted, guessed = both(draft, target, ids, places, ahead - 1)
        right = (wanted.argmax(-1) == guessed.argmax(-1)).float()
        length = ids.shape[1]
        hits[0] += right[:, places].sum().cpu()
        hits[1:] += right[:, length:].view(len(ids), len(places), ahead - 1).sum((0, 1)).cpu()
        count += len(ids) * len(places)
    return [round(share, 4) for share in (hits / count).tolist()]
