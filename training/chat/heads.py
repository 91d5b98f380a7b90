"""How are Medusa heads and a draft trained for a chat target? On its own answers, whose states are at hand.

The target itself is never run here: a stored state (`answers.py`) times the output matrix gives its distribution. All
of a target's drafters guess over one draft vocabulary (`models.draft_vocabulary`), and start from parts of it, which
needs many times less text to learn from: the draft from its first layers, the Medusa heads from the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from specdec_core.models.heads import MedusaHeads
from training.chat.rows import Answers

RANKS = 10  # ranks whose accuracy is measured
MEDUSA_PLACES = 48  # for each conversation of a batch
HEAD_DECAY = 0.8  # Medusa's λ: a later head counts less
FITTED_ON = 128  # conversations on which a fresh drafter's first matrix is fitted
RIDGE = 1e-3  # of the mean square of its inputs


@dataclass(frozen=True)
class Teacher:
    """The parts of the target the losses need.

    Attributes:
        output: float32 (k, d), the rows of its output matrix for the draft vocabulary.
        embedding: float32 (V, d), its input embeddings.
        vocabulary: int64 (k,), the draft vocabulary.
    """

    output: Tensor
    embedding: Tensor
    vocabulary: Tensor

    @classmethod
    def of(cls, model: Any, vocabulary: Tensor) -> Teacher:
        """The parts the losses need from a transformers model."""
        output = model.get_output_embeddings().weight.detach()
        return cls(output[vocabulary].contiguous(), model.get_input_embeddings().weight.detach(), vocabulary)

    def to(self, device: str) -> Teacher:
        """The same on another device."""
        return Teacher(self.output.to(device), self.embedding.to(device), self.vocabulary.to(device))

    @torch.no_grad()
    def says(self, states: Tensor) -> Tensor:
        """The target's distribution over the draft vocabulary: states (n, d) → float32 (n, k)."""
        return (states @ self.output.T).softmax(-1)


def new_draft(
    model: Any, vocabulary: Tensor, rows: Answers, layers: int, fresh: bool = True
) -> LlamaForCausalLM:
    """A draft of the target's first layers, over the draft vocabulary and one more row for all other tokens.

    Its output matrix is fitted by least squares: from the output of these layers and the target's last norm to
    the target's own states there, times the target's output matrix. Measured on SmolLM2-135M-Instruct before any
    training: first guesses right in 0.21, 0.23 and 0.25 of places with one, two and three first layers; 0.13 to 0.18
    where last layers follow.
    """
    config = LlamaConfig(**{
        **model.config.to_dict(),
        "num_hidden_layers": layers,
        "vocab_size": len(vocabulary) + 1,
        "tie_word_embeddings": False,
        "layer_types": None,
        "quantization_config": None,
    })  # fmt: skip
    config._attn_implementation = "sdpa"
    draft = LlamaForCausalLM(config)
    with torch.no_grad():
        for number in range(layers):
            draft.model.layers[number].load_state_dict(model.model.layers[number].state_dict())
        draft.model.norm.load_state_dict(model.model.norm.state_dict())
        known = model.get_input_embeddings().weight
        draft.model.embed_tokens.weight[:-1] = known[vocabulary]
        draft.model.embed_tokens.weight[-1] = known.mean(0)
        output = model.get_output_embeddings().weight[vocabulary]
        draft.lm_head.weight[:-1] = output @ _fitted_exit(draft, vocabulary, rows) if fresh else output
        draft.lm_head.weight[-1] = 0.0
    return draft


@torch.inference_mode()
def _fitted_exit(draft: LlamaForCausalLM, vocabulary: Tensor, rows: Answers) -> Tensor:
    """The matrix (d, d) from the draft's states to the target's, by least squares."""
    width = int(draft.config.hidden_size)
    known = _own_names(vocabulary, rows)
    square, product = torch.zeros(width, width).double(), torch.zeros(width, width).double()
    for numbers in torch.from_numpy(rows.training[:FITTED_ON]).split(8):
        found = rows.fetch(numbers)
        states = draft.model(known[found.tokens], use_cache=False).last_hidden_state[found.judged]
        square += (states.T @ states).double()
        product += (states.T @ found.states[found.judged]).double()
    return solved(square, product)


def solved(square: Tensor, product: Tensor) -> Tensor:
    """Ridge regression from accumulated sums: float64 (n, n) and (n, d) → the matrix float32 (d, n)."""
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square), device=square.device)
    found: Tensor = torch.linalg.solve(square, product).T.float()
    return found.clone()


def _own_names(vocabulary: Tensor, rows: Answers) -> Tensor:
    """For each of the target's tokens its number in the draft vocabulary, int64 (V,); the last for all others."""
    vocabulary = vocabulary.cpu()
    size = max(int(rows.tokens.max()), int(vocabulary.max()), int(rows.prefix[0].max())) + 1
    known = torch.full((size,), len(vocabulary), dtype=torch.int64)
    known[vocabulary] = torch.arange(len(vocabulary))
    return known


Objective = Callable[[Tensor], Tensor]


def medusa_objective(heads: MedusaHeads, teacher: Teacher, rows: Answers, seed: int = 0) -> Objective:
    """Maps numbers of conversations to the heads' cross-entropies float32 (heads,), in nats per token.

    At most `MEDUSA_PLACES` places of a batch are used, drawn again each step: neighbours teach nearly the same.
    """
    chance = torch.Generator().manual_seed(seed)

    def losses(numbers: Tensor) -> Tensor:
        found = rows.fetch(numbers)
        parts = []
        for reach, head in enumerate(heads, start=1):
            places = (found.judged[:, reach:] & found.judged[:, :-reach]).nonzero()
            order = torch.randperm(len(places), generator=chance)[: MEDUSA_PLACES * len(numbers)]
            drawn = places[order.to(places.device)].unbind(1)
            guesses = head(found.states[:, :-reach][drawn]) @ teacher.output.T
            parts.append(F.cross_entropy(guesses, teacher.says(found.states[:, reach:][drawn])))
        return torch.stack(parts)

    return losses


def draft_objective(draft: LlamaForCausalLM, teacher: Teacher, rows: Answers) -> Objective:
    """Maps numbers of conversations to the loss: cross-entropy with the target's distribution, in nats per token."""
    known = _own_names(teacher.vocabulary, rows).to(rows.device)

    def losses(numbers: Tensor) -> Tensor:
        found = rows.fetch(numbers)
        states = draft.model(known[found.tokens], use_cache=False).last_hidden_state[found.judged]
        true = found.states[found.judged]
        return F.cross_entropy(states @ draft.lm_head.weight[:-1].T, teacher.says(true))

    return losses


@torch.no_grad()
def medusa_accuracy(heads: MedusaHeads, teacher: Teacher, rows: Answers, most: int = 64) -> list[list[float]]:
    """On held-out answers: for each head the shares of right guesses by rank."""
    shares = []
    for reach, head in enumerate(heads, start=1):
        hits, places = torch.zeros(RANKS, device=rows.device), 0
        for numbers in rows.heldout[:most].split(8):
            found = rows.fetch(numbers)
            judged = found.judged[:, reach:] & found.judged[:, :-reach]
            right = teacher.says(found.states[:, reach:][judged]).argmax(-1, keepdim=True)
            guesses = (head(found.states[:, :-reach][judged]) @ teacher.output.T).topk(RANKS).indices
            hits += (guesses == right).float().sum(0)
            places += len(right)
        shares.append([round(share, 4) for share in (hits / places).tolist()])
    return shares


@torch.no_grad()
def draft_accuracy(draft: LlamaForCausalLM, teacher: Teacher, rows: Answers, most: int = 64) -> float:
    """On held-out answers: how often the draft's first guess is the target's."""
    known = _own_names(teacher.vocabulary, rows).to(rows.device)
    hits = places = 0
    for numbers in rows.heldout[:most].split(8):
        found = rows.fetch(numbers)
        states = draft.model(known[found.tokens], use_cache=False).last_hidden_state[found.judged]
        guesses = (states @ draft.lm_head.weight[:-1].T).argmax(-1)
        hits += int((guesses == teacher.says(found.states[found.judged]).argmax(-1)).sum())
        places += len(guesses)
    return round(hits / places, 4)


def trained_by_adamw(name: str, weight: nn.Parameter | Tensor) -> bool:
    """No matrix goes to Muon: these networks start from trained layers, which AdamW's small steps preserve."""
    return False
