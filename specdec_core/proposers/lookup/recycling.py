"""Token recycling: what the target found likely after a token is proposed when it comes again (Luo et al. 2024).

Each pass of the target says, of every token it read, which tokens are likely next; plain verification uses one of them
and throws the others away. Here the best few are kept, a row of an adjacency matrix for each token (sec. 3.1), also
those after rejected tokens. A fixed tree of ranks is filled from it (sec. 3.2): (0, 2) is the third best successor of
the root's best.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pydantic import Field

from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.proposers.heads import medusa_tree
from specdec_core.round import Context, Outcome, Proposal
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

# How often the successor of each rank is the next token; only the tree's shape depends on it. Measured on the bundled
# models' stories; each further rank is assumed to have this share of the one before.
_SHARES = (0.47, 0.12, 0.045, 0.025)
_FURTHER = 0.8


class Recycling(Proposer):
    """Fills a fixed tree of ranks from the adjacency matrix; deterministic, so every lossless rule stays exact.

    The matrix holds what earlier passes found, never anything of the round itself. A token's row is replaced whenever
    the target reads it again, by what was found last and preferably on the accepted path; where nothing is known of a
    token, its branch ends. The note: `known`, of how many tokens successors are known, and `renewed`, how many rows the
    pass before wrote.
    """

    name = "recycling"
    title = "Token recycling"
    summary = (
        "Keeps what the target found likely after each token, and proposes it as a tree when the token comes again, "
        "with no second model. It knows one token of context only, so it is slower than proposers that read more, and "
        "when a wide tree makes the target's pass expensive."
    )
    uses = ("nodes",)

    class Options(Proposer.Options):
        nodes: int = Field(
            16,
            title="Tokens sent",
            ge=1,
            le=256,
            description="The most nodes of the tree; the published one has 80.",
        )
        successors: int = Field(8, ge=1, le=32, description="How many successors of a token are kept.")
        depth: int = Field(6, title="Levels", ge=1, le=16, description="The most levels of the tree.")
        from_prompt: bool = Field(
            True, description="Whether the pairs of tokens in the prompt are known from the start."
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        width = self.options.successors
        self.shares = [*_SHARES, *(_SHARES[-1] * _FURTHER**rank for rank in range(1, width))][:width]
        self.choices = medusa_tree.grow([self.shares] * self.options.depth, self.options.nodes)
        self.successors: dict[int, list[int]] = {}  # token → the likeliest first
        self.read: list[int] = []  # what the target reads this round: the root and the tree
        self.renewed = 0

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", options.nodes)

    def start(self, context: Context) -> None:
        text = context.source + context.tokens
        for token, following in (
            zip(text[::-1][1:], text[:0:-1], strict=True) if self.options.from_prompt else ()
        ):
            known = self.successors.setdefault(token, [])  # the newest pair first
            if following not in known and len(known) < self.options.successors:
                known.append(following)

    def propose(self, context: Context) -> Proposal:
        tokens: list[int] = []
        parents: list[int] = []
        values: list[float] = []
        number: dict[medusa_tree.Choice, int] = {(): ROOT}
        for choice in self.choices:  # falling in value, parents before children
            parent = number.get(choice[:-1])
            if parent is None or len(choice) > context.limit:
                continue
            known = self.successors.get(context.tokens[-1] if parent == ROOT else tokens[parent], [])
            if choice[-1] < len(known):
                number[choice] = len(tokens)
                tokens.append(known[choice[-1]])
                parents.append(parent)
                values.append(prod(self.shares[rank] for rank in choice))
        count = min(context.room, context.policy.nodes(context, values)) if values else 0
        tree = TokenTree(tokens[:count], parents[:count])
        self.read = [context.tokens[-1], *tree.tokens]
        note = {"known": len(self.successors), "renewed": self.renewed}
        return Proposal(tree, note={**note})

    def observe(self, context: Context, outcome: Outcome) -> None:
        assert outcome.logits is not None, "the target has just read"
        width = min(self.options.successors, outcome.logits.shape[-1])
        rows = outcome.logits.topk(width).indices.tolist()
        path = [0, *(node + 1 for node in outcome.path)]
        dead = set(range(len(rows))) - {*path}
        for position in [*sorted(dead), *path]:  # of a token read twice, the row on the accepted path stays
            self.successors[self.read[position]] = rows[position]
        self.renewed = len({*self.read})
