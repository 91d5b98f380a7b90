"""How are Medusa heads and an EAGLE head trained? On the hidden states of a frozen target.

Medusa (Cai et al. 2024, stage 1): head i at t is to guess token t + 2 + i; cross-entropy on the text's own token or on
the target's distribution there, later heads weighted by powers of λ. EAGLE (Li et al. 2024): from the true states up
to t and the tokens up to t + 1 the head is to guess the state at t + 1; smooth L1 on the state plus a tenth of the
cross-entropy between its distribution through the output matrix and the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig

from specdec_core.models.heads import EagleHead, MedusaHeads, Target, eagle, medusa
from specdec_core.models.heads.layouts.shapes import rope_theta
from specdec_measure.optimisation import is_matrix
from training.checkpoints import latest_checkpoint, load_state
from training.heads.frozen import Frozen, cross_entropy
from training.loop import Plan, Source, steps
from training.results.card import table

RANKS = 10  # ranks per head whose accuracy is measured
DECAY = 0.8  # λ of Medusa's loss
CLASSIFICATION = 0.1  # share of the cross-entropy in EAGLE's loss

Heads = MedusaHeads | EagleHead
Objective = Callable[[Tensor], Tensor]
Pair = tuple[Tensor, Tensor]  # what was guessed, and what is right


def medusa_pairs(heads: MedusaHeads, target: Frozen, ids: Tensor) -> list[Pair]:
    """For each head its logits (b, n, V) and the target's for the same token: ids int64 (b, t).

    Head i at place t guesses token t + 2 + i, and the target's distribution of that token is at t + 1 + i.
    """
    states, logits = target.read(ids)
    guesses = heads(states, target.output)
    reach = logits.shape[1] - 1
    return [(guess[:, : reach - head], logits[:, 1 + head :]) for head, guess in enumerate(guesses)]


def eagle_pairs(head: EagleHead, target: Frozen, ids: Tensor) -> tuple[Pair, Pair]:
    """Guessed and true states at 1 … t − 1, (b, t − 1, d), and the logits of both: ids int64 (b, t)."""
    states, logits = target.read(ids)
    places = torch.arange(ids.shape[1] - 1, device=ids.device).expand(len(ids), -1)
    guessed = head(ids[:, 1:], states[:, :-1], places, None, target.embedding)
    return (guessed, states[:, 1:]), (target.output(guessed), logits[:, 1:])


def medusa_loss(heads: MedusaHeads, target: Frozen, soft: bool) -> Objective:
    """Maps ids int64 (b, t + 1) to the heads' losses float32 (heads,), in nats per token.

    With `soft` the label is the target's distribution, else the text's token.
    """

    def losses(ids: Tensor) -> Tensor:
        with target.autocast():
            pairs = medusa_pairs(heads, target, ids[:, :-1])
        labels = (said.float().softmax(-1).flatten(0, 1) for _, said in pairs)
        if not soft:
            labels = (ids[:, 2 + head :].flatten() for head in range(len(pairs)))
        found = [
            F.cross_entropy(guess.float().flatten(0, 1), label)
            for (guess, _), label in zip(pairs, labels, strict=True)
        ]
        return torch.stack(found)

    return losses


def eagle_loss(head: EagleHead, target: Frozen, temperature: float = 1.0) -> Objective:
    """Maps ids int64 (b, t + 1) to float32 (2,): smooth L1 of the states, cross-entropy in nats per token."""

    def losses(ids: Tensor) -> Tensor:
        with target.autocast():
            (guessed, true), (guess, said) = eagle_pairs(head, target, ids[:, :-1])
        regression = F.smooth_l1_loss(guessed.float(), true.float())
        return torch.stack((regression, cross_entropy(guess, said, temperature)))

    return losses


@torch.no_grad()
def accuracy(heads: Heads, target: Frozen, rows: Tensor, batch: int = 4) -> list[list[float]]:
    """For each head the share of places where its guess of each rank is the target's most likely token.

    An EAGLE head counts as one, guessing after true states. rows: held-out ids int64 (n, t).
    """
    hits: dict[int, Tensor] = {}
    places: Counter[int] = Counter()
    for ids in torch.split(rows.to(target.device), batch):
        with target.autocast():
            if isinstance(heads, MedusaHeads):
                pairs = medusa_pairs(heads, target, ids)
            else:
                pairs = [eagle_pairs(heads, target, ids)[1]]
        for head, (guess, said) in enumerate(pairs):
            best = guess.topk(min(RANKS, guess.shape[-1]), -1).indices
            right = (best == said.argmax(-1, keepdim=True)).flatten(0, 1)
            hits[head] = hits.get(head, torch.zeros(())) + right.sum(0).cpu()
            places[head] += len(right)
    return [[round(share, 4) for share in (hits[head] / places[head]).tolist()] for head in hits]


def new_medusa(target: Frozen, heads: int, blocks: int, shared: bool) -> MedusaHeads:
    """Fresh heads: blocks near the identity, their own matrices start as the target's."""
    weight = target.output.weight
    vocabulary, width = weight.shape
    made = MedusaHeads(heads, blocks, width, None if shared else vocabulary).to(target.model.device)
    if not shared:
        with torch.no_grad():
            for head in made:
                # a ModuleList does not say that it holds Sequentials
                head[-1].weight.copy_(weight)  # type: ignore[index]
    return made


def layer_shape(target: Frozen) -> LlamaConfig:
    """The sizes of the target's own layers, for one layer of a head.

    Raises:
        ValueError: if the target embeds tokens at another width than its states have.
    """
    config = target.model.config
    width = int(target.output.weight.shape[1])
    if int(target.embedding.weight.shape[1]) != width:
        raise ValueError(
            f"'{target.name}' embeds tokens at another width than its states have; heads that read both cannot use it."
        )
    heads = int(config.num_attention_heads)
    return LlamaConfig(
        vocab_size=int(target.output.weight.shape[0]),
        hidden_size=width,
        intermediate_size=int(getattr(config, "intermediate_size", None) or 4 * width),
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or width // heads),
        max_position_embeddings=int(getattr(config, "max_position_embeddings", 2048)),
        rms_norm_eps=float(getattr(config, "rms_norm_eps", 1e-5)),
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta(config)},
    )


def new_eagle(target: Frozen, seed: int) -> EagleHead:
    """A fresh head with the sizes of the target's own layers."""
    shape = layer_shape(target)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return EagleHead(shape, bias=True).to(target.model.device)


def eagle_from(target: Frozen, folder: Path) -> EagleHead:
    """A head of the same target that was trained before, to be trained further.

    Raises:
        ModelError: with one sentence, if it cannot be read or does not fit the target.
    """
    vocabulary, width = map(int, target.output.weight.shape)
    head = eagle.read(str(folder), Target(width, vocabulary, int(target.embedding.weight.shape[1])))
    return head.to(target.model.device, torch.float32).requires_grad_(True).train()


def train(
    run: Path,
    heads: Heads,
    target: Frozen,
    batches: Source,
    heldout: Tensor,
    plan: Plan,
    soft: bool = False,
    classification: float = CLASSIFICATION,
    earlier: dict[str, Any] | None = None,
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Train heads, or resume the run; they then hold their measured accuracies. Returns the counters.

    `soft` is for Medusa heads, `classification` (the weight of the cross-entropy) and `temperature` (of both models
    in it) for an EAGLE head, `earlier` holds the counters of heads that were trained before.
    """
    facts: dict[str, Any] = {
        "kind": "eagle",
        "target": target.name,
        **({"earlier": earlier} if earlier else {}),
    }
    if isinstance(heads, MedusaHeads):
        facts |= {
            "kind": "medusa",
            "heads": len(heads),
            "blocks": heads.blocks,
            "shared": heads.shared,
            "soft": soft,
        }
        objective = medusa_loss(heads, target, soft)
        weights = DECAY ** torch.arange(len(heads), device=target.device)
    else:
        facts |= {"classification": classification}
        facts |= {"temperature": temperature} if temperature != 1.0 else {}
        objective = eagle_loss(heads, target, temperature)
        weights = torch.tensor([1.0, classification], device=target.device)
    same_run(run, facts)
    vocabulary = int(target.output.weight.shape[0])
    state = steps(
        run, heads, objective, batches,
        lambda: {"accuracy": accuracy(heads, target, heldout)},
        plan, facts, None, weights,
        lambda name, weight: is_matrix(name, weight) and weight.shape[0] != vocabulary,  # those go to AdamW
        target.device,
    )  # fmt: skip
    measured = accuracy(heads, target, heldout)
    if isinstance(heads, MedusaHeads):
        heads.accuracy = measured
    else:
        heads.accuracy = measured[0]
    return state


def export(folder: Path, heads: Heads, target: Frozen, state: dict[str, Any]) -> None:
    """Write trained heads in their published layout, with what they were trained on."""
    kept = ("step", "tokens", "seconds", "soft", "classification", "temperature", "earlier")
    notes = {"specdec_training": {key: state[key] for key in kept if key in state}}
    if isinstance(heads, MedusaHeads):
        medusa.write(folder, heads, target.name, notes)
        what = f"{len(heads)} Medusa heads of {heads.blocks} residual block(s)" + (
            ", which share the target's output matrix"
            if heads.shared
            else ", each with an output matrix of its own"
        )
        rows = [[f"head {number}", shares] for number, shares in enumerate(heads.accuracy or [], start=1)]
    else:
        eagle.write(folder, heads, target.name, notes)
        what = "An EAGLE head, which shares the target's embedding and output matrix"
        rows = [["after true states", heads.accuracy or []]]
    size = sum(weight.numel() for weight in heads.parameters())
    (folder / "README.md").write_text(folder_card(what, size, target.name, state, rows), encoding="utf-8")


def folder_card(what: str, size: int, target: str, state: dict[str, Any], rows: list[Any]) -> str:
    """The folder's model card."""
    shares = [
        [name, f"{found[0]:.3f}", f"{sum(found[:5]):.3f}", f"{sum(found):.3f}"]
        for name, found in rows
        if found
    ]
    return f"""# Heads for {target}

{what}:
{size:,} parameters, stored in 16 bits. They guess for `{target}` and are of no use to another model,
or to the same one after further training. {made_by(state["kind"], state)}

How often the target itself would write the guessed token, on held-out text of the kind it learnt from last:

{table(["", "first guess", "first five", f"first {RANKS}"], shares)}
"""


def made_by(kind: str, state: dict[str, Any]) -> str:
    """A sentence for a card: by which command, from how much text, in what time."""
    steps, tokens, minutes = state["step"], state["tokens"], state["seconds"] / 60
    before = state.get("earlier", {}).get("tokens")
    more = f", after {before:,} tokens in an earlier run" if before else ""
    made = f"{steps:,} steps, {tokens:,} tokens, {minutes:.1f} active minutes{more}"
    return f"Made by `python -m training {kind}`: {made}."


def same_run(run: Path, facts: dict[str, Any]) -> None:
    """Refuse to continue a run of other heads; a clear error that names the difference."""
    checkpoint = latest_checkpoint(run)
    if checkpoint is None:
        return
    stored = load_state(checkpoint)
    for key, value in facts.items():
        if stored.get(key) != value:
            raise ValueError(
                f"The run in {run} was made with {key} {stored.get(key)!r}, not {value!r}: choose another --name."
            )
