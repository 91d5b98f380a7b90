"""Medusa: extra heads on the target's last hidden state guess several tokens ahead at once (Cai et al. 2024).

The state from which the target wrote the root is known from the last pass. There head i guesses the token i + 1 places
below the root, without knowing what the earlier heads chose, so their best guesses are combined into a tree.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.round import Context, Dropped, Outcome, Proposal
from specdec_core.sampling import first_best
from specdec_core.sampling.penalties import Past
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

from . import medusa_tree
from .medusa_tree import Choice

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.heads import MedusaHeads

MAX_TREE_NODES = 256  # nodes of a tree


class Medusa(Proposer):
    """Fills a fixed tree of choices with the heads' guesses; deterministic, so every lossless rule stays exact."""

    name = "medusa"
    title = "Medusa heads"
    summary = (
        "Small heads trained on the target's last hidden state guess the next few tokens all at once, and their best "
        "guesses are checked together as a tree. No head knows what the others chose, so it is slower "
        "when the text may continue in several ways, and when a wide tree makes the target's pass expensive."
    )
    needs = ("states", "medusa")
    uses = ("nodes",)

    class Options(Proposer.Options):
        tree: Literal[
            "auto", "grown", "chain", "mc_sim_7b_63", "vicuna_7b_stage2", "vicuna_13b_stage2", "vicuna_33b_stage2",
            "zephyr_stage2",
        ] = Field(
            "auto",
            description="Shape of the tree: grown from the heads' measured accuracies, a chain of first guesses, or a "
            "published one. Auto grows it where the heads include measurements, and otherwise uses mc_sim_7b_63.",
        )  # fmt: skip
        nodes: int = Field(
            16,
            title="Tokens sent",
            ge=1,
            le=MAX_TREE_NODES,
            description="The most nodes of the tree; the published trees have 63.",
        )
        top_k: int = Field(
            10,
            title="Guesses per head",
            ge=1,
            le=64,
            description="How many guesses of one head may be siblings in a grown tree.",
        )
        choices: list[list[int]] = Field(
            default_factory=list,
            description="A tree of your own in the published format, such as [[0], [0, 0], [1]]: each node is the path "
            "of ranks that leads to it. Replaces the other options.",
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        self.heads: MedusaHeads = resources.models.heads["medusa"]
        output = resources.models.causal_target.get_output_embeddings()
        self.output, self.ids = self.heads.output(output), self.heads.vocabulary
        self.choices = self._choices(
            resources.models.target.vocabulary if self.ids is None else len(self.ids)
        )
        self.seen: Tensor | None = None  # states (m, d) of the last pass
        self.state: Tensor | None = None  # the one (d,) from which the root was written
        resources.target.watch(self._listen)

    @classmethod
    def check(cls, settings: Settings, options: Any) -> None:
        if options.choices and len(medusa_tree.check(options.choices)) > MAX_TREE_NODES:
            raise SettingsError(
                f"The tree has {len(options.choices)} choices; at most {MAX_TREE_NODES} are sent. Give fewer."
            )

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", len(options.choices) or options.nodes)

    def start(self, context: Context) -> None:
        if self.seen is not None:
            self.state = self.seen[-1]

    def propose(self, context: Context) -> Proposal:
        choices = [choice for choice in self.choices if len(choice) <= context.limit]
        # a prompt of one token leaves no state
        if self.state is None or not choices or context.room < 1:
            return Proposal(TokenTree())
        levels = max(map(len, choices))
        logits = self.heads(self.state, self.output, levels).float()
        scores = logits if context.past is None else _penalised(logits, context.past, self.ids)
        best = scores.softmax(-1).clamp_max(1.0).topk(1 + max(map(max, choices)))
        tokens = (best.indices if self.ids is None else self.ids[best.indices]).tolist()
        chances = best.values.tolist()
        own = chances if scores is logits else logits.softmax(-1).gather(-1, best.indices).tolist()
        worth = {
            choice: prod(chances[level][rank] for level, rank in enumerate(choice)) for choice in choices
        }
        # parents before children
        ranked = sorted(choices, key=lambda choice: (-worth[choice], len(choice), choice))
        count = min(context.room, context.policy.nodes(context, [worth[choice] for choice in ranked]))
        sent, lost = medusa_tree.arranged(ranked[:count]), ranked[count:]
        number = {choice: index for index, choice in enumerate([*sent, *lost])}
        dropped = []
        for choice in lost:
            level = len(choice) - 1
            parent = number[choice[:-1]] if level else ROOT
            rank = choice[-1]
            dropped.append(Dropped(tokens[level][rank], parent, "pruned", own[level][rank]))
            if context.past is not None:
                dropped[-1].penalised_q = chances[level][rank]
        tree = TokenTree([tokens[len(choice) - 1][choice[-1]] for choice in sent], medusa_tree.parents(sent))
        rows = [0, *(depth if depth < levels else -1 for depth in tree.depths)]
        return Proposal(
            tree,
            logits=logits,
            penalised=None if context.past is None else scores,
            logit_rows=rows,
            ids=self.ids,
            passes=1,
            dropped=dropped,
            note={"heads": levels},
        )

    def observe(self, context: Context, outcome: Outcome) -> None:
        assert self.seen is not None, "the target has just read"
        self.state = self.seen[outcome.path[-1] + 1 if outcome.path else 0]

    def _listen(self, states: Tensor) -> None:
        self.seen = states

    def _choices(self, vocabulary: int) -> list[Choice]:
        """The tree set by the options, cut to the available heads."""
        options, heads = self.options, len(self.heads)
        shape = options.tree
        if shape == "auto":
            shape = "grown" if self.heads.accuracy else "mc_sim_7b_63"
        if options.choices:
            choices = medusa_tree.check(options.choices)
        elif shape == "chain":
            choices = [(0,) * depth for depth in range(1, heads + 1)]
        elif shape == "grown":
            accuracy = self.heads.accuracy or medusa_tree.assumed_accuracy(heads, options.top_k)
            choices = medusa_tree.grow([row[: options.top_k] for row in accuracy], options.nodes)
        else:
            choices = list(medusa_tree.PUBLISHED[shape])
        fitting = [choice for choice in choices if len(choice) <= heads and max(choice) < vocabulary]
        return fitting if options.choices else fitting[: options.nodes]


def _penalised(logits: Tensor, past: Past, ids: Tensor | None) -> Tensor:
    """Each head's logits (n, k) after the penalties of the text and of the best guesses of the heads before it.

    Off that chain of best guesses the path differs in ways the head cannot know; its guesses remain
    guesses, and the target's p is penalised with the actual path.
    """
    path: list[int] = []
    rows = []
    for row in logits:
        rows.append(past.next(row, path, ids))
        best = int(first_best(rows[-1]))
        path.append(best if ids is None else int(ids[best]))
    return torch.stack(rows)
