"""How is an EAGLE-3 head trained? On its own outputs, as it is used (Li et al. 2025, training-time test).

Step 0 reads the joined states of the target's layers at every place. In step s the head's own output of step s − 1
stands in for them, one token further on; it attends to the true rows up to its first place, and to its own rows since.
Each step's loss is the cross-entropy with the target's distribution over the draft vocabulary. In the paper nothing
asks its states to resemble the target's; here they are guided at first (`started.guided`), as there is little text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec_core.models.heads import Eagle3Head, Target, eagle3
from specdec_core.models.heads.layouts.layers_read import usual_layers
from specdec_measure.optimisation import is_matrix
from training.heads.frozen import Frozen, cross_entropy
from training.heads.medusa_eagle import RANKS, Objective, Pair, layer_shape, made_by, same_run
from training.heads.rehearsed import Keys, attended
from training.heads.started import fitted, guided, last_input, last_layer, same_weights
from training.loop import Plan, Source, steps
from training.results.card import table

DECAY = 0.8  # a later step counts less: it is reached only where the earlier guesses were right
COUNTED = 200  # batches in which tokens are counted for the draft vocabulary


def frequent(batches: Source, size: int, vocabulary: int) -> Tensor:
    """The `size` most frequent tokens of the text, int64 ascending; `batches` is used up by the count."""
    counts = torch.zeros(vocabulary)
    for _ in range(COUNTED):
        counts += torch.bincount(batches.next().flatten(), minlength=vocabulary)
    return counts.topk(min(size, vocabulary)).indices.sort().values


def new_head(
    target: Frozen, vocabulary: Tensor | None, rows: Tensor, seed: int, layers: tuple[int, ...] | None = None
) -> Eagle3Head:
    """A fresh head: the target's last layer where the shapes agree, its norm and output matrix, and joined states that
    estimate, by a fit on `rows`, what the last layer reads one place on. `layers` are those it reads, else the
    published choice."""
    shape = layer_shape(target)
    layers = layers or usual_layers(int(target.model.config.num_hidden_layers))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = Eagle3Head(shape, len(layers) * int(shape.hidden_size), layers, vocabulary=vocabulary)
    head.to(target.model.device)
    weight = target.output.weight
    with torch.no_grad():
        head.lm_head.weight.copy_(weight if vocabulary is None else weight[vocabulary])
    last = last_layer(target)
    if last is None:
        return head

    def pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
        joined = target.read_layers(ids, layers)[0]
        return joined[:, :-1], last_input(target, ids)[0][:, 1:]

    same_weights(head.midlayer, last)
    same_weights(head.norm, target.model.model.norm)
    with torch.no_grad():
        for name in ("q_proj", "k_proj", "v_proj"):
            wide = getattr(head.midlayer.self_attn, name).weight
            wide[:, wide.shape[1] // 2 :] = getattr(last.self_attn, name).weight
        head.fc.weight.copy_(fitted(rows, pairs))
    return head


def started_from(target: Frozen, folder: Path, whole: bool = False) -> Eagle3Head:
    """A head of the same target that was trained before, to be trained further.

    With `whole` it guesses all the target's tokens: those it could not guess by the target's own output rows at first.

    Raises:
        ModelError: with one sentence, if it cannot be read or does not fit the target.
    """
    vocabulary, width = target.output.weight.shape
    layers = int(target.model.config.num_hidden_layers)
    embeds = int(target.embedding.weight.shape[1])
    head = eagle3.read(str(folder), Target(int(width), int(vocabulary), embeds, layers))
    if whole and head.vocabulary is not None:
        output = target.output.weight.detach().float().cpu().clone()
        output[head.vocabulary] = head.lm_head.weight
        head.lm_head = torch.nn.Linear(int(width), int(vocabulary), bias=False)
        head.lm_head.weight = torch.nn.Parameter(output)
        head.restrict(None)
    return head.to(target.model.device, torch.float32).requires_grad_(True).train()


def read_other_layers(head: Eagle3Head, target: Frozen, layers: tuple[int, ...], rows: Tensor) -> None:
    """A trained head reads other layers of the target from now on: its joined states are estimated from those by a fit
    on `rows`, and training does the rest."""

    def pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
        return target.read_layers(ids, layers)[0], head.enter(target.read_layers(ids, head.layers_read)[0])

    weight = fitted(rows, pairs)
    head.fc = torch.nn.Linear(weight.shape[1], len(weight), bias=False)
    head.fc.weight = torch.nn.Parameter(weight.to(target.device))
    head.layers_read = layers


def rehearsed(
    head: Eagle3Head, target: Frozen, ids: Tensor, count: int, share: float = 1.0, seed: int = 0
) -> list[tuple[Pair, Pair]]:
    """For each of `count` steps the head's and the target's states (b, n, d) before the output matrix, and the logits
    of both for the same token, (b, n, k) and (b, n, V).

    Steps after the first are rehearsed from a `share` of the places, drawn by `seed`.
    """
    joined, true_states, logits = target.read_layers(ids, head.layers_read)
    embedded = head.embedded(ids, target.embedding)

    def beside(states: Tensor, at: Tensor) -> tuple[Pair, Pair]:
        return (head.norm(states), true_states[:, at]), (head.guess(states, head.lm_head), logits[:, at])

    return [beside(*found) for found in unrolled(head, embedded, joined, count, share, seed)]


def unrolled(
    head: Eagle3Head, embedded: Tensor, joined: Tensor, count: int, share: float, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step the head's states (b, n, d), and the places int64 (n,) whose states of the target they stand for.

    Args:
        embedded, joined: (b, t, d) and (b, t, layers · d), of the text's tokens.
    """
    size = embedded.shape[1] - 1
    places = torch.arange(size, device=embedded.device)
    states, true = _layer(head, embedded[:, 1:], head.enter(joined[:, :-1]), places, None, [])
    yield states, places + 1
    own: list[Keys] = []
    for step in range(1, count):
        if step == 1:  # of all places those from which all steps still have a token to guess
            chance = torch.Generator().manual_seed(seed)
            drawn = torch.randperm(max(1, size - count + 1), generator=chance)
            places = drawn[: max(1, int(share * len(drawn)))].sort().values.to(embedded.device)
            states = states[:, places]
        further = places + step
        states, keys = _layer(head, embedded[:, further + 1], states, further, true, own)
        own.append(keys)
        yield states, further + 1


def _layer(
    head: Eagle3Head, embedded: Tensor, states: Tensor, places: Tensor, true: Keys | None, own: list[Keys]
) -> tuple[Tensor, Keys]:
    """One step over n places at once: two of (b, n, d) → the states that follow and this step's keys and values."""
    rows, onto = head.midlayer.reads(embedded, states)
    angles = head.angles(rows, places.expand(len(rows), -1))
    mixed, keys = attended(head.midlayer.self_attn, rows, angles, places, true, own)
    return head.midlayer.finish(onto, mixed), keys


def loss(head: Eagle3Head, target: Frozen, count: int, share: float, temperature: float = 1.0) -> Objective:
    """Maps ids int64 (b, t + 1) to the steps' cross-entropies in nats per token and their states' distances from the
    target's (smooth L1), float32 (2 · count,).

    A label is the target's distribution over its whole vocabulary, so a place whose token the head cannot guess counts
    as little as the rest of its distribution.
    """

    def losses(ids: Tensor) -> Tensor:
        with target.autocast():
            found = rehearsed(head, target, ids[:, :-1], count, share, seed=int(ids.sum()))
        tokens, distances = [], []
        for (state, true), (guess, said) in found:
            tokens.append(cross_entropy(guess, said, temperature, head.vocabulary))
            distances.append(F.smooth_l1_loss(state.float(), true.float()))
        return torch.stack(tokens + distances)

    return losses


@torch.no_grad()
def accuracy(head: Eagle3Head, target: Frozen, rows: Tensor, count: int, batch: int = 4) -> list[list[float]]:
    """For each step the share of places where its guess of each rank is the target's most likely token."""
    hits, places = [torch.zeros(())] * count, [0] * count
    for ids in torch.split(rows.to(target.device), batch):
        with target.autocast():
            found = rehearsed(head, target, ids, count)
        for step, (_, (guess, said)) in enumerate(found):
            best = guess.topk(min(RANKS, guess.shape[-1]), -1).indices
            best = best if head.vocabulary is None else head.vocabulary[best]
            right = best == said.argmax(-1, keepdim=True)
            hits[step] = hits[step] + right.flatten(0, 1).sum(0).cpu()
            places[step] += right[..., 0].numel()
    return [
        [round(share, 4) for share in (hit / all_).tolist()] for hit, all_ in zip(hits, places, strict=True)
    ]


def train(
    run: Path,
    head: Eagle3Head,
    target: Frozen,
    batches: Source,
    heldout: Tensor,
    plan: Plan,
    count: int = 4,
    share: float = 0.5,
    earlier: dict[str, Any] | None = None,
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Train a head, or resume the run; it then holds its measured accuracy. Returns the counters.

    `count` steps are rehearsed, those after the first from a `share` of the places. A head that was trained before,
    with the counters `earlier`, is no longer guided by the target's states. `temperature` is that of both models in the
    loss.
    """
    guesses = int(head.lm_head.weight.shape[0])
    facts: dict[str, Any] = {
        "kind": "eagle3", "target": target.name, "steps": count, "share": share, "guesses": guesses,
        "layers": list(head.layers_read),
        **({"temperature": temperature} if temperature != 1.0 else {}),
        **({"earlier": earlier} if earlier else {}),
    }  # fmt: skip
    decay = DECAY ** torch.arange(count, device=target.device)
    same_run(run, facts)
    state = steps(
        run, head, loss(head, target, count, share, temperature), batches,
        lambda: {"accuracy": accuracy(head, target, heldout, count)},
        plan, facts, None, torch.cat((decay, 0 * decay)) if earlier else guided(decay),
        lambda name, weight: is_matrix(name, weight) and not name.startswith("lm_head"),  # that one goes to AdamW
        target.device,
    )  # fmt: skip
    state["shares"] = accuracy(head, target, heldout, count)
    head.accuracy = state["shares"][0]
    return state


def export(folder: Path, head: Eagle3Head, target: Frozen, state: dict[str, Any]) -> None:
    """Write a trained head in its published layout, with what it was trained on."""
    kept = {
        key: state[key]
        for key in ("step", "tokens", "seconds", "steps", "share", "temperature", "earlier")
        if key in state
    }
    eagle3.write(folder, head, target.name, {"specdec_training": kept})
    rows = [
        [f"step {number}", f"{found[0]:.3f}", f"{sum(found[:5]):.3f}", f"{sum(found):.3f}"]
        for number, found in enumerate(state["shares"], start=1)
    ]
    size = sum(weight.numel() for weight in head.parameters())
    below = [layer for layer in head.layers_read if layer < target.model.config.num_hidden_layers]
    layers, made = ", ".join(map(str, below)), made_by("eagle3", state)
    last = " and what its last layer returns" if len(below) < len(head.layers_read) else ""
    text = f"""# An EAGLE-3 head for {target.name}

It reads what layers {layers} of the target read{last}, and guesses among {state["guesses"]:,} tokens:
{size:,} parameters, stored in 16 bits; the embedding is the target's. It guesses for `{target.name}` and is of no use
to another model, or to the same one after further training. {made}

How often the target itself would write the guessed token, on held-out text of the kind it learnt from
last: step 1 reads the target's states, each later step the head's own output of the step before.

{table(["", "first guess", "first five", f"first {RANKS}"], rows)}
"""
    (folder / "README.md").write_text(text, encoding="utf-8")
