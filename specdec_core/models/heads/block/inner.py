"""What lets guesses of one block see the ones before them: a bias on a slot's logits by the token drafted before it.

DSpark's Markov head (2607.05147) adds W2·W1[token]: one row of a table and one product of a small rank. "gated" scales
the row by the slot's state; "rnn" has a state over the block's tokens, so that a slot depends on all of them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Inner = Literal["vanilla", "gated", "rnn"]
INNER: tuple[Inner, ...] = ("vanilla", "gated", "rnn")


class MarkovHead(nn.Module):
    """Biases of slots' logits, one slot after another; its state dict is the published one.

    Args:
        kind: see the module's text.
        vocabulary: tokens that may come before a slot, V.
        guesses: tokens that a slot may guess, k.
        rank: r.
        width: d, of the block's states.
    """

    def __init__(self, kind: Inner, vocabulary: int, guesses: int, rank: int, width: int) -> None:
        super().__init__()
        self.kind, self.rank = kind, rank
        self.markov_w1 = nn.Embedding(vocabulary, rank)
        nn.init.normal_(self.markov_w1.weight, std=0.01)
        self.markov_w2 = nn.Linear(rank, guesses, bias=False)
        if kind == "gated":
            self.gate_proj = nn.Linear(width + rank, rank)
        elif kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + width, 3 * rank)

    def forward(
        self, before: Tensor, states: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Biases (…, k) of one slot, and what the next slot's call takes as `memory`.

        Args:
            before: int64 (…), the tokens before it.
            states: (…, d), the slot's.
            memory: (…, r), of the slot before; None for the first one.
        """
        return self._turned(self.markov_w1(before), states, memory)

    def after(self, token: int, state: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The same for one slot of one text, as it is drafted: state (d,) → (k,)."""
        return self._turned(self.markov_w1.weight[token], state, memory)

    def _turned(self, rows: Tensor, states: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.kind == "gated":
            rows = torch.sigmoid(self.gate_proj(torch.cat((states, rows), -1))) * rows
        elif self.kind == "rnn":
            memory = torch.zeros_like(rows) if memory is None else memory
            gate, new, out = self.joint_proj(torch.cat((memory, rows, states), -1)).chunk(3, -1)
            gate = torch.sigmoid(gate)
            memory, rows = gate * memory + (1 - gate) * torch.tanh(new), torch.tanh(out)
        found: Tensor = self.markov_w2(rows)
        return found, memory

    def of_block(self, before: Tensor, states: Tensor) -> Tensor:
        """Biases (…, g, k) of all slots whose tokens before are known: int64 (…, g), states (…, g, d)."""
        if self.kind != "rnn":
            alone: Tensor = self(before, states)[0]
            return alone
        found, memory = [], None
        for slot in range(before.shape[-1]):
            bias, memory = self(before[..., slot], states[..., slot, :], memory)
            found.append(bias)
        return torch.stack(found, -2)


class ConfidenceHead(nn.Module):
    """The log-odds that a slot's guess is accepted, from the slot's state and the row of the token before it: nothing
    of the guess that it judges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, read: Tensor) -> Tensor:
        """(…, width) → (…)."""
        found: Tensor = self.proj(read)[..., 0]
        return found
