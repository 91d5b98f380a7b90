"""How is an EAGLE-3 head trained for a chat target? On its own answers, over as many steps as its trees are deep.

The target is run, unlike for the other drafters: the states of three layers would take three times the room of those
that are stored. The head guesses over the draft vocabulary that all the target's drafters share.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec_core.models.heads import Eagle3Head
from training.chat.heads import RANKS, Objective, Teacher
from training.chat.rows import Answers, Rows
from training.heads.eagle3 import new_head, unrolled
from training.heads.frozen import Frozen

STEPS = 5
FITTED_ON = 256  # conversations of about the same length, on which a fresh head's first matrix is fitted


def new_eagle3_head(target: Frozen, vocabulary: Tensor, rows: Answers) -> Eagle3Head:
    """A head that starts from the target's last layer, on an estimate of what it reads one place on."""
    usual = rows.lengths[torch.from_numpy(rows.training)]
    like = (usual - usual.median()).abs().argsort(stable=True)[:FITTED_ON].numpy()
    tokens = rows.fetch(torch.from_numpy(rows.training[like])).tokens
    return new_head(target, vocabulary.to(target.device), tokens.to(target.device), rows.seed)


def eagle3_objective(
    head: Eagle3Head, target: Frozen, teacher: Teacher, rows: Answers, count: int = STEPS
) -> Objective:
    """Maps numbers of conversations to the steps' cross-entropies in nats per token and their states' distances from
    the target's (smooth L1), float32 (2 · count,)."""

    def losses(numbers: Tensor) -> Tensor:
        found = rows.fetch(numbers)
        tokens, distances = [], []
        for guess, state, true in _judged(head, target, found, count):
            tokens.append(F.cross_entropy(guess, teacher.says(true)))
            distances.append(F.smooth_l1_loss(state, true))
        return torch.stack(tokens + distances)

    return losses


def _judged(head: Eagle3Head, target: Frozen, found: Rows, count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each step, at the answers' places: guesses (n, k), and the states behind them and the target's (n, d)."""
    joined = target.read_inputs(found.tokens, head.layers_read)
    steps = []
    for states, at in unrolled(head, head.embedded(found.tokens, target.embedding), joined, count, 1.0):
        mask = found.judged[:, at]
        chosen = states[mask]
        steps.append((head.guess(chosen, head.lm_head), head.norm(chosen), found.states[:, at][mask]))
    return steps


@torch.no_grad()
def eagle3_accuracy(
    head: Eagle3Head, target: Frozen, teacher: Teacher, rows: Answers, count: int = STEPS, most: int = 64
) -> list[list[float]]:
    """On held-out answers: for each step the shares of right guesses by rank."""
    hits, places = torch.zeros(count, RANKS, device=rows.device), torch.zeros(count, 1, device=rows.device)
    for numbers in rows.heldout[:most].split(8):
        for step, (guess, _, true) in enumerate(_judged(head, target, rows.fetch(numbers), count)):
            right = teacher.says(true).argmax(-1, keepdim=True)
            hits[step] += (guess.topk(RANKS).indices == right).float().sum(0)
            places[step] += len(right)
    return [[round(share, 4) for share in found] for found in (hits / places).tolist()]
