"""A small model of the same family drafts a chain of γ tokens, one pass each (Leviathan et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.lengths import longest
from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, DraftedAhead, Dropped, Note, Outcome, Proposal
from specdec_core.sampling import draw, first_best, widen
from specdec_core.tree import TokenTree

from .drafting_ahead import Ahead

if TYPE_CHECKING:
    from torch import Tensor

WHICH = "Of two loaded drafts: the usual one, or the larger one, which guesses better and takes longer."


Result = TypeVar("Result")
Drafting = Generator["Tensor", None, Result]
"""Yields, before each pass, the tokens int64 (n,) it is about to read; several requests may share the pass."""


def finish(drafting: Drafting[Result]) -> Result:
    """The result of drafting alone."""
    while True:
        try:
            next(drafting)
        except StopIteration as end:
            result: Result = end.value
            return result


class ChainReader(Protocol):
    """What drafting a chain needs of a `Reader`."""

    vocabulary: int
    device: torch.device

    @property
    def length(self) -> int:
        """Tokens read and kept."""
        ...

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read `tokens` and keep them."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Read and keep tokens int64 (n,); float32 logits (V,) after the last."""
        ...

    def rewind(self, length: int) -> None:
        """Drop all but the first `length` kept tokens."""
        ...


class Chain:
    """A growing chain: each `advance` is one pass and one more token. Waits for the device only for a penalty,
    which needs the token ids.

    Args:
        reader: the drafting reader; it keeps the tokens it reads.
        unread: int64 (m,) on its device, read first; drafting continues after the last of them.
        context: of the round.
    """

    def __init__(self, reader: ChainReader, unread: Tensor, context: Context) -> None:
        self.reader, self.unread = reader, unread
        self.ids: Tensor | None = getattr(reader, "ids", None)  # of a draft that can guess only some tokens
        self.step: Callable[[Tensor], Tensor] = getattr(reader, "narrow_step", reader.step)
        self.begin, self.start = reader.length, reader.length + len(unread)
        self.warp, self.vocabulary, self.past = context.warp, context.vocabulary, context.past
        self.numbers = [] if self.warp.greedy else context.uniforms(longest(context.settings))
        self.logits: list[Tensor] = []  # of `ids`, or of all tokens
        self.scores: list[Tensor] = []  # the logits after penalties
        self.q: list[Tensor] = []
        self.columns: list[Tensor] = []  # of the logits, the token's
        self.tokens: list[Tensor] = []
        self.path: list[int] = []  # the same as a list, where a penalty needs them
        self.passes = 0  # made so far and not yet reported
        self.dropped: list[Dropped] = []

    def advance(self) -> None:
        """Draft one more token."""
        self.passes += 1
        logits = self.step(self.unread)
        if self.ids is None:
            logits = fit(logits, self.vocabulary)
        scores = logits if self.past is None else self.past.next(logits, self.path, self.ids)
        if self.warp.greedy:
            column = first_best(scores)
            token = column if self.ids is None else self.ids[column]
        else:
            self.q.append(self.warp(widen(scores, self.ids, self.vocabulary)))
            token = draw(self.q[-1], self.numbers[len(self.tokens)])
            column = token if self.ids is None else torch.searchsorted(self.ids, token)
        self.columns.append(column)
        self.logits.append(logits)
        self.scores.append(scores)
        self.tokens.append(token)
        if self.past is not None:
            self.path.append(int(token))
        self.unread = token.reshape(1)

    def complete(self, context: Context, length: int) -> int:
        """Draft until `length` tokens or until the policy stops; returns how many to propose."""
        return finish(self.drafting(context, length))

    def drafting(self, context: Context, length: int) -> Drafting[int]:
        """The same, yielding before each pass.

        More may have been drafted ahead. What ends a chain is known before they are drawn, so leaving
        them out changes no distribution.
        """
        for count in range(1, length + 1):
            if count > len(self.tokens):
                yield self.unread
                self.advance()
            if context.policy.can_stop and count < length:
                confidence = own(self.scores[count - 1], self.columns[count - 1])
                if not context.policy.more(context, count, confidence):
                    return count
        return length

    def cut(self, count: int) -> None:
        """Drop what was drafted beyond `count` tokens, which are the proposal."""
        if len(self.tokens) > count:
            self.dropped = self.given_up(count, count - 1, count)
            self.reader.rewind(self.start + count - 1 if count else self.begin)
            del (
                self.tokens[count:],
                self.logits[count:],
                self.scores[count:],
                self.q[count:],
                self.columns[count:],
                self.path[count:],
            )

    def given_up(self, start: int, parent: int, number: int) -> list[Dropped]:
        """The tokens from `start` on as discarded: node `number`, below `parent`, and the next each below the last."""
        dropped = []
        for at in range(start, len(self.tokens)):
            after = None if self.past is None else own(self.scores[at], self.columns[at])
            before = own(self.logits[at], self.columns[at])
            dropped.append(Dropped(int(self.tokens[at]), parent, "discarded", before, after))
            parent, number = number, number + 1
        return dropped

    def proposal(self, note: Note) -> Proposal:
        """All of it; must not be empty."""
        tokens: list[int] = torch.stack(self.tokens).tolist()
        q = torch.stack(self.q) if self.q else None
        return Proposal(
            TokenTree.chain(tokens),
            q,
            torch.stack(self.logits),
            penalised=None if self.past is None else torch.stack(self.scores),
            ids=self.ids,
            passes=self.passes,
            dropped=self.dropped,
            note=note,
        )


class ChainGuess:
    """Drafts ahead, guessing that the whole proposal is accepted and followed by the draft's most likely token.

    Args:
        reader: the draft, which has read all but the last token of the proposal.
        tokens: the proposal, not empty.
        context: of its round.
        length: how far to draft the next one.

    Attributes:
        guess: the guessed token and its logits, once the draft has read the last proposed token.
        next: the chain of the next round, if the guess comes true.
    """

    def __init__(self, reader: ChainReader, tokens: list[int], context: Context, length: int) -> None:
        self.reader, self.size, self.length = reader, len(tokens), length
        self.last = torch.tensor(tokens[-1:], device=reader.device)
        past = context.past.extended(tokens) if context.past is not None else None
        self.context = replace(context, round=context.round + 1, past=past)
        self.guess: tuple[Tensor, Tensor] | None = None
        self.next: Chain | None = None

    def advance(self) -> bool:
        """One pass; returns whether there is more to draft."""
        if self.next is None:
            logits = fit(self.reader.step(self.last), self.context.vocabulary)
            past = self.context.past
            token = first_best(logits if past is None else past.next(logits))
            self.guess = token, logits
            if past is not None:
                past.extend([int(token)])
            # The next round would read both tokens in one pass; doing the same here keeps even the rounding equal.
            self.reader.rewind(self.reader.length - 1)
            self.next = Chain(self.reader, torch.stack((self.last[0], self.guess[0])), self.context)
        else:
            self.next.advance()
        return len(self.next.tokens) < self.length

    def take_passes(self) -> int:
        """How many passes were made; reported now, so the next round's chain starts counting at 0."""
        if self.next is None:
            return 0
        made, self.next.passes = 1 + self.next.passes, 0
        return made

    def came_true(self, outcome: Outcome) -> bool:
        """Whether everything was accepted and the guess followed."""
        return (
            self.guess is not None
            and len(outcome.path) == self.size == len(outcome.tokens) - 1
            and outcome.tokens[-1] == int(self.guess[0])
        )

    def given_up(self, number: int) -> list[Dropped]:
        """What was drafted ahead on a wrong guess; the guess is node `number`."""
        if self.guess is None or self.next is None:
            return []
        token, logits = self.guess
        guess = Dropped(int(token), self.size - 1, "discarded", own(logits, token))
        return [guess, *self.next.given_up(0, number, number + 1)]


class DraftModel(Proposer):
    """Keeps the draft's KV cache in step with the committed text."""

    name = "draft-model"
    title = "Draft model"
    summary = (
        "A much smaller model with the same tokenizer writes γ tokens ahead, and the target checks them in one pass. "
        "It is slower when the small model guesses badly (poems, rare names) or is not small enough."
    )
    needs = ("draft",)
    can_overlap = True
    uses = ("length", "more")

    class Options(Proposer.Options):
        """Which draft."""

        draft: Literal["usual", "larger"] = Field("usual", description=WHICH)

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        assert resources.draft is not None, "`Plan.make` checks `needs` before it builds a proposer"
        self.draft: ChainReader = resources.draft
        self.ahead = Ahead(self.draft.device, resources.models.threads)
        self.ahead_guess: ChainGuess | None = None
        self.drafted_ahead: Chain | None = None  # the next round's, if a guess came true
        self.read = 0  # rows of the draft after drafting
        self.dropped = 0  # tokens dropped from the last proposal

    def start(self, context: Context) -> None:
        self.draft.prefill(readable(context.tokens[:-1], self.draft))

    def propose(self, context: Context) -> Proposal:
        return finish(self.drafting(context))

    def drafting(self, context: Context) -> Drafting[Proposal]:
        """`propose`, yielding before each pass of the draft."""
        chain, self.drafted_ahead = self.drafted_ahead, None
        length = min(context.length, context.room)
        done = len(chain.tokens) if chain else 0
        if chain is None and length > 0:
            # The root, and after a fully accepted round also the last draft token, which the draft has not read yet.
            unread = readable(context.tokens[self.draft.length :], self.draft)
            chain = Chain(self.draft, torch.tensor(unread, device=self.draft.device), context)
        if chain is not None:
            chain.cut((yield from chain.drafting(context, length)))
        dropped = chain.dropped if chain else []
        self.read, self.dropped = self.draft.length, len(dropped)
        if chain is None or not chain.tokens:
            return Proposal(TokenTree(), dropped=dropped)
        return chain.proposal({"ahead": min(done, len(chain.tokens))} if done else {})

    def draft_ahead(self, context: Context, proposal: Proposal) -> None:
        tokens = proposal.tree.tokens
        length = min(context.length, context.limit - len(tokens) - 1)
        if tokens and length > 0:
            self.ahead_guess = ChainGuess(self.draft, tokens, context, length)
            self.ahead.begin(self.ahead_guess.advance)

    def observe(self, context: Context, outcome: Outcome) -> DraftedAhead | None:
        guess, self.ahead_guess = self.ahead_guess, None
        report = None
        if guess is not None:
            self.ahead.end()
            report = DraftedAhead(self.ahead.beside(outcome.seconds[1]), guess.take_passes())
            if guess.came_true(outcome):
                self.drafted_ahead = guess.next
                return report
            report.dropped = guess.given_up(guess.size + self.dropped)
        before = len(context.tokens) - len(outcome.tokens)
        # it may not have drafted this round, see `combined`
        self.draft.rewind(min(self.draft.length, self.read, before + len(outcome.path)))
        return report

    def close(self) -> None:
        self.ahead.close()


def readable(tokens: list[int], reader: ChainReader) -> list[int]:
    """Ids beyond a narrower draft's padding as its last id; its guesses are judged like any others."""
    last = reader.vocabulary - 1
    return [min(token, last) for token in tokens]


def fit(logits: Tensor, vocabulary: int) -> Tensor:
    """Logits (…, V_draft) as (…, vocabulary): ids the draft lacks get −∞ (q = 0), ids beyond the target's are cut."""
    missing = vocabulary - logits.shape[-1]
    if missing == 0:
        return logits
    if missing < 0:
        return logits[..., :vocabulary]
    return torch.cat((logits, logits.new_full((*logits.shape[:-1], missing), -torch.inf)), -1)


def own(logits: Tensor, column: Tensor) -> float:
    """The draft's own probability (temperature 1) of the token in a column."""
    return float(logits.softmax(-1)[column])
