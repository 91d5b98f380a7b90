"""What does a step minimise? The parts of the loss against direct constructions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.training.tiny import TINY
from training.model import SmallLlama
from training.pretrain import EXIT_WEIGHT, next_token_loss, repeat_penalty, repeats


def test_repeats_finds_the_latest_earlier_pair() -> None:
    """Against a plain search. Catches: an off-by-one, a pair that finds itself, the first in place of the latest."""
    ids = torch.randint(0, 4, (3, 40), generator=torch.Generator().manual_seed(0))
    wanted = torch.full_like(ids, -1)
    for row, text in enumerate(ids.tolist()):
        for place in range(1, len(text)):
            earlier = [at for at in range(1, place) if text[at - 1 : at + 1] == text[place - 1 : place + 1]]
            if earlier:
                wanted[row, place] = text[earlier[-1] + 1]
    assert (wanted >= 0).any() and torch.equal(repeats(ids), wanted)


def test_only_wrong_repeats_of_the_marked_rows_cost() -> None:
    """By hand: 1 2 3 1 2 4 repeats the pair (1, 2) and goes on otherwise. Catches: right repeats charged."""
    ids = torch.tensor([[1, 2, 3, 1, 2, 4], [1, 2, 3, 1, 2, 3]])
    logits = torch.zeros(2, 5, 8)
    cost = -math.log(1 - 1 / 8) / 10
    assert math.isclose(repeat_penalty(logits, ids, torch.tensor([1.0, 1.0])).item(), cost, rel_tol=1e-5)
    assert repeat_penalty(logits, ids, torch.tensor([0.0, 1.0])).item() == 0


def test_exits_are_trained_on_their_share_of_the_positions() -> None:
    """The loss rebuilt from the layers' states. Catches: an exit judged at another exit's positions."""
    model = SmallLlama(TINY)
    ids = torch.randint(1, TINY.vocab, (2, 21), generator=torch.Generator().manual_seed(1))
    x = model.model.embed_tokens(ids[:, :-1])
    states = []
    for layer in model.model.layers:
        x = layer(x, model.cos[:20], model.sin[:20])
        states.append(F.linear(model.model.norm(x), model.model.embed_tokens.weight))
    last = F.cross_entropy(states[-1].flatten(0, 1), ids[:, 1:].flatten())
    parts = [
        F.cross_entropy(states[at][:, at::2].flatten(0, 1), ids[:, 1:][:, at::2].flatten()) for at in (0, 1)
    ]
    given = next_token_loss(model, "cpu", bfloat16=False, exits=(1, 2))(ids)
    assert torch.isclose(given, last + EXIT_WEIGHT * sum(parts) / 2, rtol=1e-5)


def test_dropout_zeroes_features_of_a_row_and_only_in_training() -> None:
    """Catches: dropout left on while evaluating, or one mask for all rows."""
    model = SmallLlama(TINY, dropout=0.5)
    ids = torch.full((2, 8), 5)
    torch.manual_seed(0)
    rows = model(ids)
    assert not torch.allclose(rows[0], rows[1])
    model.eval()
    assert torch.equal(model(ids), model(ids)) and torch.allclose(model(ids)[0], model(ids)[1], atol=1e-5)
    assert torch.allclose(model(ids), SmallLlama(TINY)(ids), atol=1e-5)
