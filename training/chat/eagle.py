"""How is an EAGLE head trained for a chat target? On its answers' states, and on its own guesses a few levels deep.

It starts as the target's last layer, on an estimate of what that layer reads, which needs many times less text to learn
from than random weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig

from specdec_core.models.heads import EagleHead
from specdec_core.models.heads.layouts.shapes import rope_theta
from training.chat.heads import FITTED_ON, RANKS, Objective, Teacher, solved
from training.chat.rows import Answers
from training.heads.rehearsed import Keys, attended

REGRESSION = 0.3  # weight of the smooth L1 on states beside the cross-entropy
LATER_PASS = 0.7  # of a pass on the head's own features, in steps that have one; of the next its square


def new_eagle_head(model: Any, vocabulary: Tensor, rows: Answers, fresh: bool = True) -> EagleHead:
    """A head initialised as the target's last layer and norm, on an estimate of that layer's input.

    The first matrix is fitted by least squares: from the next token's embedding and the state before it to the input of
    the target's last layer there. Untrained, it already guesses right in 0.30 of places (measured on
    SmolLM2-135M-Instruct). Without `fresh` the fit is skipped, since other weights will be loaded.
    """
    config = model.config
    shape = LlamaConfig(
        vocab_size=int(config.vocab_size),
        hidden_size=int(config.hidden_size),
        intermediate_size=int(config.intermediate_size),
        num_hidden_layers=1,
        num_attention_heads=int(config.num_attention_heads),
        num_key_value_heads=int(config.num_key_value_heads),
        head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads),
        max_position_embeddings=int(config.max_position_embeddings),
        rms_norm_eps=float(config.rms_norm_eps),
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta(config)},
    )
    head = EagleHead(shape, bias=False, vocabulary=vocabulary, norms=True)
    head.layers[0].load_state_dict(model.model.layers[-1].state_dict())
    assert isinstance(head.norm, nn.Module)
    head.norm.load_state_dict(model.model.norm.state_dict())
    if fresh:
        with torch.no_grad():
            head.fc.weight.copy_(_fitted(model, rows))
    return head


@torch.inference_mode()
def _fitted(model: Any, rows: Answers) -> Tensor:
    """The matrix (d, 2 d) from embedding and previous state to the last layer's input, by least squares."""
    seen: list[Tensor] = []
    hook = model.model.layers[-1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    embedding = model.get_input_embeddings().weight
    width = embedding.shape[1]
    square, product = torch.zeros(2 * width, 2 * width).double(), torch.zeros(2 * width, width).double()
    for numbers in torch.from_numpy(rows.training[:FITTED_ON]).split(8):
        found = rows.fetch(numbers)
        seen.clear()
        model.model(found.tokens, use_cache=False)
        inputs = torch.cat((F.embedding(found.tokens, embedding)[:, 1:], found.states[:, :-1]), -1)
        inputs, wanted = inputs[found.judged[:, 1:]], seen[0][:, 1:][found.judged[:, 1:]]
        square += (inputs.T @ inputs).double()
        product += (inputs.T @ wanted).double()
    hook.remove()
    return solved(square, product)


def eagle_objective(
    head: EagleHead, teacher: Teacher, rows: Answers, passes: int = 2, every: int = 2
) -> Objective:
    """Numbers of conversations to losses float32 (3,): cross-entropy, smooth L1 of states, both on its own features.

    Every `every`-th step goes on to pass 2, 3, … `passes`, as the head is used at that level of a tree: true features
    up to a place, its own guesses from there. They are measured at the first pass's places, one token further each.
    """
    steps = 0

    def losses(numbers: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        found = rows.fetch(numbers)
        embedded = F.embedding(found.tokens, teacher.embedding)
        guessed, true = _pass(head, embedded[:, 1:], found.states[:, :-1])
        judged = found.judged[:, 1:]
        losses = _compare(guessed[judged], found.states[:, 1:][judged], teacher)
        later, own = torch.zeros((), device=guessed.device), list[Keys]()
        for at in range(1, 1 if steps % every else passes):
            # Row t of this pass is place t + at, with the feature that row t of the pass before guessed for it.
            guessed, keys = _pass(head, embedded[:, 1 + at :], guessed[:, :-1], true, own)
            own.append(keys)
            judged = found.judged[:, 1 + at :]
            further = _compare(guessed[judged], found.states[:, 1 + at :][judged], teacher)
            later = later + LATER_PASS**at * (further[0] + REGRESSION * further[1])
        return torch.stack((*losses, later))

    return losses


@torch.no_grad()
def eagle_accuracy(head: EagleHead, teacher: Teacher, rows: Answers, most: int = 64) -> dict[str, Any]:
    """On held-out answers: shares of right guesses by rank after true features, and of chains of guesses by length."""
    hits, chains = (torch.zeros(size, device=rows.device) for size in (RANKS, 3))
    places = 0
    for numbers in rows.heldout[:most].split(8):
        found = rows.fetch(numbers)
        embedded = F.embedding(found.tokens, teacher.embedding)
        first, keys = _pass(head, embedded[:, 1:], found.states[:, :-1])
        second, _ = _pass(head, embedded[:, 2:], first[:, :-1], keys)
        judged = found.judged[:, 1:-1] & found.judged[:, 2:]
        right = teacher.says(found.states[:, 1:-1][judged]).argmax(-1, keepdim=True)
        guesses = (first[:, :-1][judged] @ teacher.output.T).topk(RANKS).indices
        hits += (guesses == right).float().sum(0)
        further = teacher.says(found.states[:, 2:][judged]).argmax(-1)
        follow = (second[judged] @ teacher.output.T).argmax(-1) == further
        ok = guesses[:, :1] == right
        chains += torch.stack((ok.sum().float(), (ok[:, 0] & follow).sum().float(), follow.sum().float()))
        places += len(right)
    return {
        "accuracy": [round(share, 4) for share in (hits / places).tolist()],
        "chain": [round(share, 4) for share in (chains / places).tolist()],
    }


def _compare(guessed: Tensor, true: Tensor, teacher: Teacher) -> tuple[Tensor, Tensor]:
    """Cross-entropy between the distributions of both states (n, d), and their smooth L1."""
    cross = F.cross_entropy(guessed @ teacher.output.T, teacher.says(true))
    return cross, F.smooth_l1_loss(guessed, true)


def _pass(
    head: EagleHead, embedded: Tensor, features: Tensor, true: Keys | None = None, own: Sequence[Keys] = ()
) -> tuple[Tensor, Keys]:
    """One pass over all places at once: two of (b, t, d) → guessed features (b, t, d), and its keys and values.

    With `true`, the keys of the pass over true features, the place of row t is t + 1, or further by as many passes as
    `own` has keys of: it attends to the true ones up to t, to the own ones of its row, and to itself, which is what the
    head sees at that level of a tree.
    """
    layer: Any = head.layers[0]
    rows = head.fc(torch.cat((embedded, features), -1))
    places = torch.arange(rows.shape[1], device=rows.device) + (0 if true is None else 1 + len(own))
    angles = head._rotary[0](rows, places[None])
    mixed, keys = attended(layer.self_attn, layer.input_layernorm(rows), angles, places, true, own)
    rows = rows + mixed
    rows = rows + layer.mlp(layer.post_attention_layernorm(rows))
    made: Tensor = head.norm(rows) if head.norms else rows
    return made, keys
