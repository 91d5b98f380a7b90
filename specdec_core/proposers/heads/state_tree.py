"""The walk of all heads that continue the target's hidden states, over the dynamic tree of EAGLE-2 (Li et al. 2024).

Each level reads the `top_k` candidates with the largest product of probabilities, and the best `nodes` of all
candidates are sent. These probabilities may be at another temperature than 1: where greedy text is guessed, a head that
learnt from soft targets is right more often than it says (temperature scaling, Guo et al. 2017, sec. 4.2). Row t of the
memory of module k pairs token t + k with a state at t: the target's for the first module, that of the module before for
the others. While a tree grows, guessed states stand in for the target's, which replace them after the pass. Heads with
one module (EAGLE) and chains of modules (MTP) differ only in their number: below a token at depth l, module l + 1
guesses, and the last one goes on with its own states.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.round import Context, Note, Outcome, Proposal
from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

from .state_candidates import TreeCandidates, best, penalised

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.heads import Continuing


class StateTree(Proposer):
    """Keeps the modules' memories in step with the target's states; the tree is deterministic at every temperature."""

    uses = ("deeper", "nodes")  # a chain (`top_k` 1) "more" and "slots"

    class Options(Proposer.Options):
        depth: int = Field(
            5,
            title="Levels",
            ge=1,
            le=16,
            description="Levels of the tree, one pass of the head each; 6 in the paper (EAGLE-2, 2024).",
        )
        top_k: int = Field(
            4,
            title="Followed per level",
            ge=1,
            le=32,
            description="Candidates followed on each level, and children of each; 10 in the paper (EAGLE-2, 2024).",
        )
        nodes: int = Field(
            16,
            title="Tokens sent",
            ge=1,
            le=256,
            description="The most tokens that are sent, the best of all levels; 59 in the code of EAGLE-2 (2024).",
        )
        tree_temperature: float | None = Field(
            None,
            ge=0.1,
            le=10.0,
            description="Temperature of the head's probabilities by which the tree is chosen: below 1 it follows the "
            "likely paths deeper. If left out, it is 1 as in the paper (EAGLE-2, 2024), or at temperature 0 what was "
            "measured to be best for the head.",
        )

    options: Any

    @classmethod
    def head_name(cls) -> str:
        """Under which name its head is loaded."""
        return cls.needs[-1]

    def __init__(self, resources: Resources, options: Any) -> None:
        from specdec_core.runtime.kv import KVMemory

        super().__init__(resources, options)
        self.head: Continuing = resources.models.heads[self.head_name()]
        head, model = self.head, resources.models.causal_target
        self.output, self.ids = head.output(model.get_output_embeddings()), head.vocabulary
        self.embedding = model.get_input_embeddings()
        rows, count = resources.capacity + self.options.depth * self.options.top_k, head.modules_chained
        self.memories = [KVMemory(head.layers_per_pass, rows) for _ in range(count)]
        self.ends: list[Tensor | None] = [None] * count  # each module's state (1, d) at the end of the text
        self.blocked = torch.finfo(model.dtype).min
        self.prefilled: list[Tensor] | None = []  # states of the prompt, until the head has read them
        self.seen: Tensor | None = None  # states (m, d) of the last pass
        self.unread: list[Tensor] = []  # true states not yet in the memory, in text order
        resources.target.watch(self._listen, head.layers_read)

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", options.nodes)

    def start(self, context: Context) -> None:
        states = torch.cat(self.prefilled) if self.prefilled else None
        self.prefilled = None
        if states is not None:
            for start in range(0, len(states) - 1, PREFILL_CHUNK):
                end = min(start + PREFILL_CHUNK, len(states) - 1)
                self._chain(context.tokens[start + 1 : end + 1], states[start:end])
            self.unread = [states[-1:]]

    def propose(self, context: Context) -> Proposal:
        depth, room = min(self.options.depth, context.limit), min(self.options.nodes, context.room)
        if not self.unread or min(depth, room) < 1:  # a prompt of one token leaves no state
            return Proposal(TokenTree())
        states = torch.cat(self.unread)
        self.unread = []
        self._chain(context.tokens[self.memories[0].length + 1 :], states)
        ready = sum(end is not None for end in self.ends)
        if ready < len(self.ends):  # so early in a text the later modules have read nothing
            depth = min(depth, ready)
        temperature = self.options.tree_temperature or (
            self.head.tree_temperature if context.warp.greedy else 1.0
        )
        found = self._candidates(depth, room, context, temperature)
        values, order = found.scores.sort(descending=True, stable=True)  # ties: parents come first
        chances = values[:room].exp().tolist()
        if self.options.top_k == 1:
            wanted = context.policy.slots(context, _conditional(chances), found.levels)
        else:
            wanted = context.policy.nodes(context, chances, found.levels)
        count = max(0, min(len(chances), wanted))
        sent = sorted(order[:count].tolist())  # level by level, siblings by probability
        number = {ROOT: ROOT} | {candidate: node for node, candidate in enumerate(sent)}
        tree = TokenTree(
            [found.tokens[candidate] for candidate in sent], [number[found.parents[one]] for one in sent]
        )
        kept = [place for place, candidate in enumerate(found.read) if candidate in number]
        told = [0, *(place + 1 for place in kept)]
        row = {found.read[place]: index + 1 for index, place in enumerate(kept)}
        rows = [0, *(row.get(candidate, -1) for candidate in sent)]
        note: Note = {"levels": found.levels, "candidates": len(found.tokens)}
        pruned = [candidate for candidate in found.read if candidate not in number]
        tree_q: list[float | None] | None = None
        if temperature != 1.0:
            note["tree_temperature"] = temperature
            tree_q = found.chances([*sent, *pruned])
        return Proposal(
            tree,
            logits=found.logits[told],
            penalised=None if found.penalised is None else found.penalised[told],
            logit_rows=rows,
            ids=self.ids,
            passes=found.levels,
            dropped=found.dropped(pruned, number),
            tree_q=tree_q,
            note=note,
        )

    def observe(self, context: Context, outcome: Outcome) -> None:
        assert self.seen is not None, "the target has just read"
        self.unread.append(self.seen[[0, *(node + 1 for node in outcome.path)]])

    def _listen(self, states: Tensor) -> None:
        if self.prefilled is not None:
            self.prefilled.append(states)
        else:
            self.seen = states

    def _candidates(self, depth: int, room: int, context: Context, temperature: float) -> TreeCandidates:
        """Expand at most `depth` levels below the root, the likeliest candidates at that temperature."""
        past = context.past
        begins = [memory.length for memory in self.memories]
        root = [end for end in self.ends if end is not None]
        logits = self._logits(root[0], 0)
        wide = min(self.options.top_k, logits.shape[-1])
        itself = torch.eye(wide, dtype=torch.bool, device=logits.device)
        after_penalties = [penalised(logits, past, [[]], self.ids)]
        scores, columns = (found[0] for found in best(after_penalties[0], wide, temperature))
        tokens = self._tokens(columns)
        paths = [[token] for token in tokens.tolist()] if past is not None else []
        above = torch.zeros(wide, dtype=torch.int64, device=logits.device)  # rows of `states` they follow
        states: list[Tensor] = root
        front, visible = torch.arange(wide, device=logits.device), itself
        rows, read, count = [logits], [], wide
        all_scores, all_columns = [scores], [columns]
        all_parents = [torch.full_like(tokens, ROOT)]
        level = 1
        while level < depth and self._deeper(level, all_scores, wide, room, context):
            states = self._level(level, tokens, [one[above] for one in states], begins, visible)
            logits = self._logits(states[min(level, len(states) - 1)], level)
            rows.append(logits)
            read.append(front)
            after_penalties.append(penalised(logits, past, paths, self.ids))
            steps, follow = best(after_penalties[-1], wide, temperature)
            reached = (scores.unsqueeze(1) + steps).flatten()
            all_scores.append(reached)
            all_columns.append(follow.flatten())
            all_parents.append(front.repeat_interleave(wide))
            scores, chosen = reached.topk(wide)
            above = chosen // wide
            tokens, front = self._tokens(follow.flatten()[chosen]), count + chosen
            visible = torch.cat((visible[above], itself), 1)
            if past is not None:
                paths = [
                    [*paths[place], token]
                    for place, token in zip(above.tolist(), tokens.tolist(), strict=True)
                ]
            count += wide * wide
            level += 1
        for memory, begin in zip(self.memories, begins, strict=True):
            memory.rewind(begin)
        columns = torch.cat(all_columns)
        return TreeCandidates(
            level,
            self._tokens(columns).tolist(),
            columns.tolist(),
            torch.cat(all_parents).tolist(),
            torch.cat(all_scores),
            torch.cat(read).tolist() if read else [],
            torch.cat(rows),
            None if past is None else torch.cat(after_penalties),
        )

    def _deeper(self, level: int, scores: list[Tensor], wide: int, room: int, context: Context) -> bool:
        """Whether another level is read; `scores` are those of each level so far, of the last the best `wide` are
        followed."""
        if not context.policy.can_stop:
            return True
        values = torch.cat(scores).exp().tolist()
        if wide == 1:
            most = min(self.options.depth, context.limit)
            return context.policy.more(replace(context, length=most), level, _conditional(values)[-1])
        front = nlargest(wide, values[-len(scores[-1]) :])
        return context.policy.deeper(context, level, values, front, room)

    def _level(
        self, level: int, tokens: Tensor, above: list[Tensor], begins: list[int], visible: Tensor
    ) -> list[Tensor]:
        """Read candidates of a level with the modules' states above them, (n, d) each; their own states.

        A module whose state is known from the text up to here is not run again: only those further on have a row.
        """
        states, last = list(above), len(self.memories) - 1
        for step in range(min(level, last), len(above)):
            before = above[min(step, last) if level > last else step - 1]
            places = torch.full_like(tokens, begins[step] + level - 1)
            states[step] = self._read(step, tokens, before, places, visible)
            self.memories[step].extend(len(tokens))
        return states

    def _logits(self, states: Tensor, level: int) -> Tensor:
        """Float32 (m, k) over what the head may guess."""
        return self.head.guess(states, self.output, min(level, len(self.memories) - 1)).float()

    def _tokens(self, columns: Tensor) -> Tensor:
        """The ids of what the head guesses in these columns."""
        return columns if self.ids is None else self.ids[columns]

    def _chain(self, tokens: list[int], states: Tensor) -> None:
        """Read and keep rows of the text with every module: the target's state at each place, the token after it."""
        ids, before = torch.tensor(tokens, device=states.device), self.head.enter(states)
        for step, memory in enumerate(self.memories):
            count, begin = len(before), memory.length
            if not count:
                break
            places = torch.arange(begin, begin + count, device=states.device)
            visible = torch.ones(count, count, dtype=torch.bool, device=states.device).tril()
            made = self._read(step, ids[-count:], before, places, visible)
            memory.extend(count)
            # the next module reads each state with the token one further on
            end = self.ends[step]
            self.ends[step] = made[-1:]
            before = made[:-1] if end is None else torch.cat((end, made[:-1]))

    def _read(self, step: int, tokens: Tensor, states: Tensor, places: Tensor, visible: Tensor) -> Tensor:
        """One pass of a module over n rows after its memory; `visible` (n, m): which of the last m rows each sees."""
        total = self.memories[step].length + len(tokens)
        mask = states.new_zeros(len(tokens), total)
        mask[:, total - visible.shape[1] :].masked_fill_(~visible, self.blocked)
        return self.head.follow(tokens, states, places, mask, self.embedding, self.memories[step], step)


def _conditional(chances: list[float]) -> list[float]:
    """Each node's probability given those before it, of a chain whose products along the path these are."""
    return [chance / above if above > 0.0 else 0.0 for above, chance in pairwise([1.0, *chances])]
