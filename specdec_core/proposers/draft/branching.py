"""A draft model proposes a tree: several guesses per position, most children where they are most likely to be reached.

At temperature 0 the tree holds the draft's most likely tokens. EAGLE-2 (Li et al. 2024, sec. 4) grows more than it
sends, expanding the best nodes of each level, and keeps the nodes with the largest path probability; it never rises
along a path, so the best nodes are a tree. Above temperature 0 siblings are drawn: without replacement as in Sequoia
(Chen et al. 2024, sec. 3.2), with replacement as in SpecInfer (Miao et al. 2024), or not at all, as fixed guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from specdec_core.foundations.errors import SettingsError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import room
from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.round import Context, DraftedAhead, Dropped, Outcome, Proposal
from specdec_core.sampling import narrow
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

from .draft_model import WHICH, readable
from .drafting_ahead import Ahead
from .growth import Growth, Rows, TreeGuess

if TYPE_CHECKING:
    from specdec_core.runtime.reader import Reader

MAX_DRAFTED = 1_024  # tokens drafted per round; keeps traces readable


class Branching(Proposer):
    """One pass of the draft per level, to a depth set by its options, or less where the length policy's `deeper` says
    so; its `nodes` is used for fixed trees only: drawn tokens stay."""

    name = "branching"
    title = "Branching draft"
    summary = (
        "The draft model proposes several tokens at each position, and the target checks the whole tree in one pass. "
        "It is slower when that wider pass costs more than the second guesses gain, as on a processor that is already "
        "busy with a chain."
    )
    needs = ("draft",)
    can_overlap = True
    uses = ("deeper", "nodes")

    class Options(Proposer.Options):
        width: int = Field(3, ge=1, le=16, description="The most guesses below one token.")
        depth: int = Field(
            4,
            title="Levels",
            ge=1,
            le=16,
            description="How many levels deep the tree may grow; one draft pass each.",
        )
        nodes: int = Field(
            16,
            title="Tokens sent",
            ge=1,
            le=256,
            description="How many tokens are sent to the target each round.",
        )
        beam: int = Field(
            4,
            title="Followed per level",
            ge=1,
            le=32,
            description="How many tokens of each level are followed further.",
        )
        threshold: float = Field(
            0.0,
            ge=0.0,
            le=1.0,
            description="Paths to which the draft gives a lower probability are not followed.",
        )
        rerank: bool = Field(
            True,
            description="Grow more than is sent and send the most likely part; tokens drawn at random are never taken "
            "back, so this is for temperature 0 and for draw = likeliest.",
        )
        draw: Literal["distinct", "independent", "likeliest"] = Field(
            "distinct",
            description="Above temperature 0: guesses drawn without repetition, guesses drawn independently, or the "
            "most likely ones as fixed guesses.",
        )
        draft: Literal["usual", "larger"] = Field("usual", description=WHICH)

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        assert resources.draft is not None, "`Plan.make` checks `needs` before it builds a proposer"
        self.draft: Reader = resources.draft
        self.ahead = Ahead(self.draft.device, resources.models.threads)
        self.growth: Growth | None = None  # of the round
        self.kept: list[int] = []  # which of its nodes were proposed
        self.dropped: list[Dropped] = []
        self.ahead_guess: TreeGuess | None = None
        self.drafted_ahead: Growth | None = (
            None  # the next round's tree, drafted ahead on a guess that came true
        )

    @classmethod
    def check(cls, settings: Settings, options: Any) -> None:
        most = options.width * (1 + (options.depth - 1) * options.beam)
        if options.rerank and most > MAX_DRAFTED:
            raise SettingsError(
                f"The proposer 'branching' would draft up to {most:,} tokens each round; at most {MAX_DRAFTED:,} are "
                "recorded. Lower width, levels or followed per level, or switch rerank off."
            )

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        """Includes what the draft reads without proposing it, and with overlap a second tree after the first."""
        read = (options.depth - 1) * options.beam
        most = max(options.nodes, 2 * read + 2 if settings.overlap else read)
        if settings.temperature == 0.0 or options.draw == "likeliest":
            return TreeShape("fixed tree", most)
        return TreeShape("distinct tree" if options.draw == "distinct" else "independent tree", most)

    def start(self, context: Context) -> None:
        self.draft.prefill(readable(context.tokens[:-1], self.draft))

    def propose(self, context: Context) -> Proposal:
        plan = min(self.options.depth, context.limit), min(self.options.nodes, context.room)
        growth, self.drafted_ahead = self.drafted_ahead, None
        done = growth.levels if growth else 0
        if growth is None and min(plan) > 0:
            unread = readable(context.tokens[self.draft.length :], self.draft)
            growth = Growth(Rows(self.draft, [], []), unread, ROOT, context, self.options, *plan)
        self.growth = growth
        if growth is None:
            return Proposal(TokenTree())
        while not growth.over and self._deeper(context, growth):
            growth.advance()
        self.kept, self.dropped = self._chosen(context, growth)
        return self._proposal(growth, done)

    def _deeper(self, context: Context, growth: Growth) -> bool:
        """Whether the length policy wants another level."""
        if not growth.levels or not context.policy.can_stop:
            return True
        values = [node.value for node in growth.nodes]
        front = [values[node] for node in growth.frontier]
        return context.policy.deeper(context, growth.levels, values, front, growth.budget)

    def _chosen(self, context: Context, growth: Growth) -> tuple[list[int], list[Dropped]]:
        """The nodes to propose, ascending, and those to drop."""
        every = list(range(len(growth.nodes)))
        if growth.drawn:
            return every, []
        # The sort is stable, so a parent of equal value stays before its child.
        order = sorted(every, key=lambda node: -growth.nodes[node].value)
        values = [growth.nodes[node].value for node in order]
        count = context.policy.nodes(context, values, growth.levels)
        kept = sorted(order[: min(count, growth.budget)])
        pruned = sorted(set(every) - set(kept))
        numbers = {node: number for number, node in enumerate([ROOT, *kept, *pruned], start=-1)}
        return kept, growth.given_up(pruned, numbers, "pruned")

    def _proposal(self, growth: Growth, done: int) -> Proposal:
        number = {node: place for place, node in enumerate([ROOT, *self.kept], start=-1)}
        tree = TokenTree(
            [growth.nodes[node].token for node in self.kept],
            [number[growth.nodes[node].parent] for node in self.kept],
        )
        read = [node for node in (ROOT, *self.kept) if node in growth.logit_row]
        where = {node: place for place, node in enumerate(read)}
        ids = getattr(self.draft, "ids", None)  # of a draft that can guess only some tokens
        rows = [growth.logit_row[node] for node in read]
        return Proposal(
            tree,
            q=torch.stack(growth.q) if growth.drawn else None,
            logits=narrow(torch.cat(growth.logits), ids)[rows],
            penalised=narrow(torch.cat(growth.scores), ids)[rows] if growth.scores else None,
            ids=ids,
            logit_rows=[where.get(node, -1) for node in (ROOT, *self.kept)],
            passes=growth.passes,
            dropped=self.dropped,
            note={"ahead_levels": done} if done else {},
        )

    def draft_ahead(self, context: Context, proposal: Proposal) -> None:
        if self.growth is None or not len(proposal.tree):
            return
        path = self._likeliest(self.growth, proposal.tree)
        rows_then = len(context.tokens) + len(path)  # rows of the target when the next round begins
        depth = min(self.options.depth, context.limit - len(path) - 1)
        budget = min(self.options.nodes, room(context.settings, self.resources.models, rows_then))
        if min(depth, budget) > 0:
            grown = [self.kept[node] for node in path]
            self.ahead_guess = TreeGuess(self.growth, (path, grown), context, depth, budget)
            self.ahead.begin(self.ahead_guess.advance)

    def _likeliest(self, growth: Growth, tree: TokenTree) -> list[int]:
        """The most likely path by the draft, taking the best child at each node."""
        path: list[int] = []
        while children := tree.children[path[-1] + 1 if path else 0]:
            path.append(max(children, key=lambda child: growth.nodes[self.kept[child]].value))
        return path

    def observe(self, context: Context, outcome: Outcome) -> DraftedAhead | None:
        growth, guess, self.ahead_guess = self.growth, self.ahead_guess, None
        report = None
        if growth is None:
            return report
        if guess is not None:
            self.ahead.end()
            report = DraftedAhead(self.ahead.beside(outcome.seconds[1]), guess.take_passes())
            if guess.came_true(outcome):
                self.drafted_ahead = guess.collect()
                return report
            report.dropped = guess.given_up(len(self.kept) + len(self.dropped))
        path = [growth.row[self.kept[node]] for node in outcome.path if self.kept[node] in growth.row]
        self.draft.keep([*growth.rows.path(growth.row[ROOT]), *path])
        return report

    def close(self) -> None:
        self.ahead.close()
