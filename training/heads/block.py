"""How is a block head trained? At random places of a frozen target's text, each with the block that would begin there.

A block's rows see the text's states before its place, and each other (DFlash, 2602.06036). An earlier slot counts more,
by exp(−slot / GAMMA), as a later one is reached only where the earlier ones were right. Its loss is DSpark's
(2607.05147): the distance Σ|p − q| that decides acceptance, a little cross-entropy, and that of the confidence head
with Σ min(p, q). From random layers the distance teaches little, so the cross-entropy has all the weight at first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec_core.models.heads import Target
from specdec_core.models.heads.block import BlockHead, BlockShape, checkpoint
from specdec_core.models.heads.block.inner import Inner
from specdec_core.models.heads.layouts.shapes import rope_theta
from specdec_measure.optimisation import is_matrix
from training.heads.frozen import Frozen
from training.heads.medusa_eagle import Objective, layer_shape, made_by, same_run
from training.heads.started import fitted, last_input, last_layer, same_weights
from training.loop import Plan, Source, steps
from training.results.card import table

GAMMA = 4.0
CROSS_ENTROPY = 0.1  # its weight in the end; the rest is the distance's
ALONE = 0.6  # the share of the budget over which it falls to that, from 1
ANCHORS = 48  # places of a row at which blocks begin
SINGLE = 128  # further ones whose block ends with its first row, where rows do not see later ones
FAST, SHARP = 6, 5.0  # frequencies by which a fresh head looks one place back, and how sharply
SEEN = ("cross-entropy", "distance", "confidence")  # the parts of the loss


def usual_layers(count: int) -> tuple[int, ...]:
    """Layers of `count` whose inputs are read: four, evenly apart, up to the last one."""
    return tuple(min(count - 1, round(2 + (count - 3) * part / 3)) for part in range(4))


def new_head(
    target: Frozen, size: int, layers: int, mask: int, rows: Tensor, seed: int = 0,
    *, vocabulary: Tensor | None = None, inner: Inner | str = "", rank: int = 64, causal: bool = False,
) -> BlockHead:  # fmt: skip
    """A fresh head that guesses about as well as one fitted matrix before it has learnt anything; `rows` int64 (r, t)
    are for that fit.

    Its first layer looks one place back, whatever is there, and adds to the last token what, by a fit, makes of both
    the input of the target's last layer. That layer follows, with the norms of queries and keys that the published
    layouts have; its keys and values of the text are at first the target's own.
    """
    shape = layer_shape(target)
    shape.num_hidden_layers, shape.attention_bias = layers, True
    # all that a block knows of the text comes through keys and values
    shape.num_key_value_heads = shape.num_attention_heads
    count, width = int(target.model.config.num_hidden_layers), int(shape.hidden_size)
    read = usual_layers(count)
    block = BlockShape(read, size, mask, True, causal, inner, rank if inner else 0, bool(inner))
    norms = {f"layers.{at}.self_attn.q_norm.weight" for at in range(layers)}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = BlockHead(shape, block, len(read) * width, vocabulary, tensors=norms)
    head.to(target.model.device)
    if last_layer(target) is not None and layers > 1:
        _as_the_target(head, target, rows)
    return head


@torch.no_grad()
def _as_the_target(head: BlockHead, target: Frozen, rows: Tensor) -> None:
    """Let the layers after the first be the target's last ones, and the first one read the place before."""
    decoder, width = target.model.model.layers, int(head.config.hidden_size)
    first: Any = head.layers[0]
    later = head.layers[1:]
    same_weights(head.norm, target.model.model.norm)
    head.fc.weight.mul_(0.1)
    head.fc.weight[:, -width:] += torch.eye(width)
    head.hidden_norm.load_state_dict(decoder[-1].input_layernorm.state_dict())
    read = last_input(target, rows[:2])[0]
    for layer, original in zip(later, decoder[-len(later) :], strict=True):
        same_weights(layer, original)
        own: Any = layer.self_attn
        known, normed = original.self_attn, original.input_layernorm(read)
        for name in ("k_proj", "v_proj"):
            heads = getattr(known, name).weight.unflatten(0, (-1, own.head_dim))
            times = int(head.config.num_key_value_heads or 1) // len(heads)
            getattr(own, name).weight.copy_(heads.repeat_interleave(times, 0).flatten(0, 1))
        for name in ("q", "k"):
            made = getattr(known, f"{name}_proj")(normed).unflatten(-1, (-1, own.head_dim))
            getattr(own, f"{name}_norm").weight.fill_(float(made.square().mean(-1).sqrt().mean()))
        for name in ("q", "k", "v", "o"):
            getattr(own, f"{name}_proj").bias.zero_()
    _look_back(first.self_attn, head)
    same_weights(first.mlp, decoder[-1 - len(later)].mlp)
    first.mlp.down_proj.weight.zero_()

    def pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
        context = head.context(target.read_layers(ids, head.layers_read)[0])
        embedded = head.embedded(ids, target.embedding)
        return context[:, :-1], (last_input(target, ids)[0] - embedded)[:, 1:]

    first.self_attn.o_proj.weight.zero_()
    first.self_attn.o_proj.weight[:, :width] = fitted(rows, pairs)


def _look_back(attention: Any, head: BlockHead) -> None:
    """Queries and keys that agree at a distance of one place whatever is read, and values that are what is read."""
    half, width = attention.head_dim // 2, int(head.config.hidden_size)
    angles = rope_theta(head.config) ** (-torch.arange(half) / half)
    fast = (torch.arange(half) < FAST).float()
    query = torch.cat((fast, torch.zeros(half)))
    key = torch.cat((fast * angles.cos(), fast * angles.sin()))
    for name, direction in (("q", query), ("k", key)):
        product = getattr(attention, f"{name}_proj")
        product.weight.zero_()
        product.bias.copy_(direction.repeat(product.out_features // len(direction)))
    attention.q_norm.weight.fill_(SHARP)
    attention.v_proj.weight.zero_()
    attention.v_proj.weight[:width] = torch.eye(*attention.v_proj.weight[:width].shape)
    attention.v_proj.bias.zero_()
    attention.o_proj.bias.zero_()


def started_from(target: Frozen, folder: Path) -> BlockHead:
    """A head of the same target that was trained before, to be trained further.

    Raises:
        ModelError: with one sentence, if it cannot be read or does not fit the target.
    """
    vocabulary, width = map(int, target.output.weight.shape)
    layers = int(target.model.config.num_hidden_layers)
    head = checkpoint.read(
        str(folder), Target(width, vocabulary, int(target.embedding.weight.shape[1]), layers)
    )
    return head.to(target.model.device, torch.float32).requires_grad_(True).train()


def states_at(
    head: BlockHead, embedding: torch.nn.Module, ids: Tensor, joined: Tensor, anchors: Tensor, single: int = 0
) -> tuple[Tensor, Tensor]:
    """States (b, a, g, d) of the slots that guess, of blocks that begin at `anchors` int64 (b, a), and (b, single, d)
    of the first rows of blocks at the last `single` anchors, which have no others.

    Args:
        ids: int64 (b, t), the text.
        joined: (b, t, T · d), what the target's layers read there.
    """
    size, (texts, count), device = head.block.size, ids.shape, ids.device
    whole, alone = anchors.tensor_split([anchors.shape[1] - single], 1)
    tokens = head.rows(ids.gather(1, whole)).flatten(1)
    rows = head.embedded(torch.cat((tokens, ids.gather(1, alone)), 1), embedding)
    every, inside = torch.arange(count, device=device), torch.arange(size, device=device)
    places = every.expand(texts, -1), torch.cat(((whole[..., None] + inside).flatten(1), alone), 1)
    begun = torch.cat((whole.repeat_interleave(size, 1), alone), 1)
    own = torch.ones(size, size, dtype=torch.bool, device=device)
    blocks = [own.tril() if head.block.causal else own] * whole.shape[1]
    own = torch.block_diag(*blocks, torch.eye(single, dtype=torch.bool, device=device))
    visible = torch.cat((every < begun[..., None], own.expand(texts, -1, -1)), -1)
    states = head(head.context(joined), rows, places, visible)
    return head.guessing(states[:, : tokens.shape[1]].unflatten(1, (-1, size))), states[:, tokens.shape[1] :]


def at_slots(values: Tensor, anchors: Tensor, guesses: int) -> Tensor:
    """Values (b, t, …) at the places anchor, anchor + 1, … of each block: (b, a, g, …)."""
    places = anchors[..., None] + torch.arange(guesses, device=anchors.device)
    texts = torch.arange(len(values), device=anchors.device)[:, None, None]
    return values[texts, places]


def parts(
    head: BlockHead, states: Tensor, logits: Tensor, before: Tensor, p: Tensor, weight: Tensor
) -> Tensor:
    """The loss's parts of slots, float32 (3,): see `SEEN`.

    Args:
        states: (…, g, d).
        logits: (…, g, k), without the inner head's biases.
        before: int64 (…, g), the text's token before each guess.
        p: float32 (…, g, k), the target's distribution of what the slot guesses.
        weight: (…, g), 0 where a slot is beyond the text.
    """
    if head.markov_head is not None:
        logits = logits + head.markov_head.of_block(before, states)
    guessed = logits.float().log_softmax(-1)
    weight = weight / weight.sum()
    cross = -(p * guessed).sum(-1)
    distance = (p - guessed.exp()).abs().sum(-1)
    found = [(cross * weight).sum(), (distance * weight).sum(), torch.zeros((), device=p.device)]
    chance = head.confidence(states, before)
    if chance is not None:
        shared = torch.minimum(p, guessed.detach().exp()).sum(-1)
        each = F.binary_cross_entropy_with_logits(chance.float(), shared, reduction="none")
        found[2] = (each * weight).sum()
    return torch.stack(found)


def weights(progress: float) -> Tensor:
    """Of the loss's parts, by the spent share of the budget: float32 (3,)."""
    cross = 1 - (1 - CROSS_ENTROPY) * min(1.0, progress / ALONE)
    return torch.tensor([cross, 1 - cross, 1.0])


def decay(guesses: int, device: str | torch.device) -> Tensor:
    """What slots count for, (guesses,)."""
    return torch.exp(-torch.arange(guesses, device=device) / GAMMA)


def loss(head: BlockHead, target: Frozen, seed: int = 0, further: int = SINGLE) -> Objective:
    """Maps ids int64 (b, t + 1) to the loss's parts float32 (3,); `further` is as `SINGLE`."""
    guesses = head.block.guesses
    most = further if head.block.causal and head.block.from_anchor else 0

    def losses(ids: Tensor) -> Tensor:
        ids = ids[:, :-1]
        single = max(0, min(most, ids.shape[1] - guesses - ANCHORS))
        chance = torch.Generator().manual_seed(int(ids.sum()) + seed)
        drawn = [torch.randperm(ids.shape[1] - guesses, generator=chance)[: ANCHORS + single] for _ in ids]
        anchors = torch.stack(drawn).to(ids.device)
        with target.autocast():
            joined, _, logits = target.read_layers(ids, head.layers_read)
            states, alone = states_at(head, target.embedding, ids, joined, anchors, single)
            whole, others = anchors.tensor_split([anchors.shape[1] - single], 1)
            found = judged(states, whole, logits, ids)
            if single:  # the first slot at more places, as all others depend on it
                found = found + judged(alone[:, :, None], others, logits, ids)
            return found

    def judged(states: Tensor, anchors: Tensor, logits: Tensor, ids: Tensor) -> Tensor:
        slots = states.shape[2]
        p = at_slots(logits, anchors, slots).float().softmax(-1)
        p = p if head.vocabulary is None else p[..., head.vocabulary]
        before = at_slots(ids, anchors, slots)
        weight = decay(slots, ids.device).expand(before.shape)
        return parts(head, states, head.output(target.output)(states), before, p, weight)

    return losses


@torch.no_grad()
def chains(head: BlockHead, states: Tensor, logits: Tensor, last: Tensor) -> Tensor:
    """The head's most likely tokens, each after its own guess before: int64 (…, g), from the blocks' slots
    (…, g, d), logits (…, g, k) and last tokens int64 (…)."""
    if head.markov_head is None:
        best = logits.argmax(-1)
        return best if head.vocabulary is None else head.vocabulary[best]
    found, memory = [], None
    for slot in range(head.block.guesses):
        bias, memory = head.markov_head(last, states[..., slot, :], memory)
        last = (logits[..., slot, :] + bias).argmax(-1)
        last = last if head.vocabulary is None else head.vocabulary[last]
        found.append(last)
    return torch.stack(found, -1)


@torch.no_grad()
def right(head: BlockHead, target: Frozen, rows: Tensor, batch: int = 4) -> dict[str, list[float]]:
    """On held-out rows, at every eighth place where the target itself would have written the block's tokens.

    Returns:
        `slots`, by slot: the share of places where this guess is the target's, alone; `chain`: it and all before it.
    """
    guesses = head.block.guesses
    sums, chained, places = torch.zeros(guesses), torch.zeros(guesses), torch.zeros(guesses)
    for ids in torch.split(rows.to(target.device), batch):
        anchors = torch.arange(4, ids.shape[1] - guesses - 1, 8, device=ids.device).expand(len(ids), -1)
        with target.autocast():
            joined, _, logits = target.read_layers(ids, head.layers_read)
            states, _ = states_at(head, target.embedding, ids, joined, anchors)
            guessed = head.output(target.output)(states)
        guess = chains(head, states.float(), guessed.float(), ids.gather(1, anchors))
        wanted = at_slots(logits.argmax(-1), anchors, guesses)
        written = at_slots(ids[:, 1:], anchors, guesses)
        # where the text goes on otherwise than the target would, later slots are not about its words
        own = (wanted == written).long().cumprod(-1).roll(1, -1)
        own[..., 0] = 1
        hit = (guess == wanted).long() * own
        sums += hit.sum((0, 1)).cpu()
        chained += (hit.cumprod(-1)).sum((0, 1)).cpu()
        places += own.sum((0, 1)).cpu()
    return {
        "slots": [round(one, 4) for one in (sums / places.clamp(min=1)).tolist()],
        "chain": [round(one, 4) for one in (chained / places.clamp(min=1)).tolist()],
    }


def train(
    run: Path, head: BlockHead, target: Frozen, batches: Source, heldout: Tensor, plan: Plan,
    earlier: dict[str, Any] | None = None, further: int = SINGLE,
) -> dict[str, Any]:  # fmt: skip
    """Train a head, or resume the run; it then holds its measured shares. Returns the counters.

    A head that was trained before, with the counters `earlier`, learns from the distance from the beginning.
    """
    block = head.block
    facts: dict[str, Any] = {
        "kind": "block", "target": target.name, "layers": list(block.layers), "size": block.size, "inner": block.inner,
        "causal": block.causal, "rank": block.rank, "depth": len(head.layers),
        **({"earlier": earlier} if earlier else {}),
    }  # fmt: skip
    same_run(run, facts)
    state = steps(
        run, head, loss(head, target, plan.seed, further), batches, lambda: right(head, target, heldout), plan, facts,
        None, _weights_on(target.device, bool(earlier)), trained_by_muon, target.device,
    )  # fmt: skip
    state |= right(head, target, heldout)
    head.slots = state["chain"]
    return state


def _weights_on(device: str, later: bool) -> Callable[[float], Tensor]:
    return lambda progress: weights(1.0 if later else progress).to(device)


def trained_by_muon(name: str, weight: Tensor) -> bool:
    """Whether a weight is a hidden layer's matrix; the inner heads' go to AdamW."""
    return is_matrix(name, weight) and not name.startswith(("markov_head", "confidence_head", "lm_head"))


def export(
    folder: Path, head: BlockHead, target: Frozen, state: dict[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a trained head in DeepSpec's layout, with what it was trained on."""
    kept = {key: state[key] for key in ("step", "tokens", "seconds", "slots", "earlier") if key in state}
    count = int(target.model.config.num_hidden_layers)
    checkpoint.write(folder, head, target.name, {"specdec_training": kept}, dtype, target_layers=count)
    size = sum(weight.numel() for weight in head.parameters())
    rows = [
        [f"{slot}", f"{alone:.3f}", f"{chain:.3f}"]
        for slot, (alone, chain) in enumerate(zip(state["slots"], state["chain"], strict=True), start=1)
    ]
    inner = {"": "no inner head", "rnn": "a recurrent inner head"}.get(head.block.inner, "a Markov head")
    layers = ", ".join(map(str, head.layers_read))
    text = f"""# A block head for {target.name}

It reads what layers {layers} of the target read, and guesses {head.block.guesses} tokens in one pass of
{len(head.layers)} layers, with {inner}: {size:,} parameters, stored in 16 bits; embedding and output matrix are the
target's. It guesses for `{target.name}` and is of no use to another model, or to the same one after further
training. {made_by("block", state)}

How often the target itself would write the guessed token, on held-out text: at each slot, and together with all slots
before it, each guess after the head's own guesses.

{table(["slot", "this guess", "all so far"], rows)}
"""
    (folder / "README.md").write_text(text, encoding="utf-8")
