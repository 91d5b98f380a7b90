"""A head guesses a whole block in one pass over the target's states (DFlash, DSpark and their kin), sent as a chain or
as the best tree of its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import longest
from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.proposers.draft.draft_model import own
from specdec_core.round import Context, Outcome, Proposal
from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.sampling import draw, first_best, widen
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .marginals import Ranked, grown

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.heads.block import BlockHead


class WholeBlock(Proposer):
    """The head's memory has the text's states and nothing of a block, so a rejection leaves nothing to take back.

    A chain's guesses are drawn one after another; without an inner head q of a slot is fixed before any token is drawn,
    with one it depends on the token before, and is a q like any other to the rules. A tree is deterministic.
    """

    name = "block"
    title = "Block head"
    summary = (
        "Trained layers read the states of several of the target's layers and guess a whole block of tokens in one "
        "pass; an inner head lets a guess know the one before it. It is slower when the later guesses, made almost "
        "blindly, are wrong too often, as checking them takes time."
    )
    needs = ("states", "block")
    uses = ("length", "more", "slots", "nodes")

    class Options(Proposer.Options):
        nodes: int = Field(
            0,
            title="Tokens sent",
            ge=0,
            le=256,
            description="The most nodes of a tree from the block's slots, which takes no further pass; 0 sends a chain "
            "of γ tokens.",
        )
        top_k: int = Field(
            8,
            title="Guesses per slot",
            ge=1,
            le=64,
            description="How many guesses of a slot may be siblings in a tree.",
        )

    options: Any

    def __init__(self, resources: Resources, options: Any) -> None:
        from specdec_core.runtime.kv import KVMemory

        super().__init__(resources, options)
        self.head: BlockHead = resources.models.heads["block"]
        head, model = self.head, resources.models.causal_target
        self.output, self.ids = head.output(model.get_output_embeddings()), head.vocabulary
        self.embedding = model.get_input_embeddings()
        self.memory = KVMemory(len(head.layers), resources.capacity + head.block.size)
        self.prefilled: list[Tensor] | None = []  # states of the prompt, until the head has read them
        self.seen: Tensor | None = None  # states (m, T · d) of the last pass
        self.unread: list[Tensor] = []  # states not yet in the memory, in text order
        resources.target.watch(self._listen, head.layers_read)

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", options.nodes) if options.nodes else super().shape(settings, options)

    def start(self, context: Context) -> None:
        states = torch.cat(self.prefilled) if self.prefilled else None
        self.prefilled = None
        if states is not None:
            for part in states[:-1].split(PREFILL_CHUNK) if len(states) > 1 else ():
                self.head.read(part, None, self.memory, self.embedding)
            self.unread = [states[-1:]]

    def propose(self, context: Context) -> Proposal:
        tree = self.options.nodes > 0
        levels = min(self.head.block.guesses, context.limit if tree else context.length, context.room)
        if not self.unread or levels < 1:  # a prompt of one token leaves no state
            return Proposal(TokenTree())
        states = torch.cat(self.unread)
        self.unread = []
        block = self.head.block
        # later rows change nothing before them where rows do not see them
        count = levels + block.size - block.guesses if block.causal else block.size
        rows = [context.tokens[-1], *[block.mask] * (count - 1)]
        slots = self.head.read(states, torch.tensor(rows, device=states.device), self.memory, self.embedding)
        assert slots is not None
        logits = self.output(slots[:levels]).float()
        return self._tree(context, slots, logits) if tree else self._chain(context, slots, logits)

    def observe(self, context: Context, outcome: Outcome) -> None:
        assert self.seen is not None, "the target has just read"
        self.unread.append(self.seen[[0, *(node + 1 for node in outcome.path)]])

    def _listen(self, states: Tensor) -> None:
        if self.prefilled is not None:
            self.prefilled.append(states)
        else:
            self.seen = states

    def _biased(
        self, row: Tensor, state: Tensor, before: int, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """A slot's logits (k,) after the token before it, and the inner head's memory for the next slot."""
        inner = self.head.markov_head
        if inner is None:
            return row, None
        bias, memory = inner.after(before, state, memory)
        return row + bias.float(), memory

    def _chain(self, context: Context, slots: Tensor, logits: Tensor) -> Proposal:
        past, policy, greedy, inner = context.past, context.policy, context.warp.greedy, self.head.markov_head
        if policy.can_stop and inner is None:  # by the marginals alone, before a token is drawn
            logits = logits[: policy.slots(context, logits.softmax(-1).amax(-1).tolist())]
        numbers = [] if greedy else context.uniforms(longest(context.settings))
        tokens: list[int] = []
        rows: list[Tensor] = []
        after: list[Tensor] = []
        q: list[Tensor] = []
        memory: Tensor | None = None
        for place, row in enumerate(logits):
            row, memory = self._biased(
                row, slots[place], tokens[-1] if tokens else context.tokens[-1], memory
            )
            scores = row if past is None else past.next(row, tokens, self.ids)
            rows.append(row)
            after.append(scores)
            if greedy:
                column = first_best(scores)
                token = int(column if self.ids is None else self.ids[column])
            else:
                q.append(context.warp(widen(scores, self.ids, context.vocabulary)))
                token = int(draw(q[-1], numbers[place]))
            tokens.append(token)
            if policy.can_stop and inner is not None and not greedy and place + 1 < len(logits):
                column = torch.tensor(token) if self.ids is None else torch.searchsorted(self.ids, token)
                if not policy.more(context, place + 1, own(scores, column)):
                    break
        count = len(tokens)
        if policy.can_stop and inner is not None and greedy:  # nothing is drawn, so the guesses may be known
            count = policy.slots(context, torch.stack(after).softmax(-1).amax(-1).tolist())
        if not count:
            return Proposal(TokenTree(), passes=1)
        return Proposal(
            TokenTree.chain(tokens[:count]),
            torch.stack(q) if q else None,
            torch.stack(rows[:count]),
            None if past is None else torch.stack(after[:count]),
            ids=self.ids,
            passes=1,
            note={"slots": self.head.block.guesses},
        )

    def _tree(self, context: Context, slots: Tensor, logits: Tensor) -> Proposal:
        past, inner = context.past, self.head.markov_head
        wide = min(self.options.top_k, logits.shape[-1])
        rows: list[Tensor] = []
        after: list[Tensor] = []
        known: dict[int, Ranked] = {}  # of slots whose guesses do not depend on the path

        def follow(level: int, token: int, above: Any) -> Ranked:
            if level in known:
                return known[level]
            memory, path = above if above is not None else (None, [])
            path = [*path, token] if level else []
            before = token if level else context.tokens[-1]
            row, memory = self._biased(logits[level], slots[level], before, memory)
            scores = row if past is None else past.next(row, path, self.ids)
            best = scores.log_softmax(-1).topk(wide)
            columns = best.indices if self.ids is None else self.ids[best.indices]
            rows.append(row)
            after.append(scores)
            found = Ranked(columns.tolist(), best.values.tolist(), len(rows) - 1, (memory, path))
            if inner is None and past is None:
                known[level] = found
            return found

        tree = grown(min(self.options.nodes, context.room), len(logits), follow)
        count = context.policy.nodes(context, tree.values)
        tokens, parents, told = tree.by_level(max(0, min(count, len(tree.values))))
        return Proposal(
            TokenTree(tokens, parents),
            logits=torch.stack(rows),
            penalised=None if past is None else torch.stack(after),
            logit_rows=told,
            ids=self.ids,
            passes=1,
            note={"slots": self.head.block.guesses},
        )
