"""Lookahead decoding: the target guesses for itself, by Jacobi iteration on a window ahead (Fu et al. 2024).

The window has W columns and N − 1 levels. The token of level j and column c is a guess for the position c + j after
the root; level 0 of column 0 is the root itself. In one pass the target reads the whole window, and what it finds
most likely after the last level is the next level: each column has then grown into an n-gram, which goes to a pool. The
window moves on, and the pool's n-grams that begin with the new root are checked in the pass that reads it.

The published mask lets a token of the window see the text, level 0 up to its own column, and the earlier levels of its
own column. That is a tree: level 0 is a chain below the root, and every other token hangs below the level before it in
its column. So the window goes through the target's pass as extra tokens, and the n-grams, merged into a trie, are the
proposal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.round import Context, Note, Outcome, Proposal
from specdec_core.sampling import first_best
from specdec_core.sampling.penalties import paths_of
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from torch import Tensor

Gram = tuple[int, ...]
UNKNOWN = -1
RECENT = 8  # how many untried n-grams of the pool the note lists


class Lookahead(Proposer):
    """Jacobi window, pool of n-grams, and the trie of those that begin with the root.

    It is exact above temperature 0 as well. Window and pool follow from the seed's initial tokens and from earlier
    rounds (their text, logits and verdicts), so a proposal is fixed before the round's coins are drawn: given all
    that came before it is a point mass, and the rules are exact for those. What a round teaches, which n-gram was
    accepted and what the window found, serves later rounds only. The window takes the most likely token, never a drawn
    one, so it shares no random numbers with the text.

    The note (counts are of the rounds before): `window` its levels, `generated` how many of a column's levels the
    target has written (the others are initial tokens), `pool` its size, `guesses` the n-grams tried, `recent` others
    of the pool, the last used first, `hits` rounds in which one began correctly, `evictions`. Where the window was
    read, also: `newest`, one level, what the target wrote below each column, `harvested` the
    n-grams that were new to the pool.
    """

    name = "lookahead"
    title = "Lookahead"
    uses = ()
    summary = (
        "The target model guesses several positions ahead in parallel, keeps the resulting phrases and tries those "
        "that fit, with no second model. It is slower when a pass over many tokens costs much more than over one, "
        "and on short answers, before the pool has filled."
    )

    class Options(Proposer.Options):
        # A pass reads 1 + W(N − 1) − 1 + G(N − 1) tokens. The published W = 15, N = 5 asks for a large GPU, where 120
        # tokens cost about as much as one; on a CPU each costs, so the defaults stay below 20.
        window: int = Field(
            5, ge=2, le=32, description="W: how many positions ahead are guessed in parallel."
        )
        ngram: int = Field(
            3,
            ge=3,
            le=8,
            description="N: tokens in a phrase of the pool; one fewer than that can be gained at once.",
        )
        guesses: int = Field(
            3, ge=1, le=32, description="G: how many phrases are kept per first token and tried in one pass."
        )
        initial: Literal["prompt", "random", "blank"] = Field(
            "prompt",
            description="What fills a position not guessed yet: a token of the prompt, any token of the "
            "vocabulary, or a blank (the end-of-text token, or id 0 where there is none).",
        )
        pool_size: int = Field(
            2_000,
            ge=1,
            le=100_000,
            description="How many phrases are kept in all; the longest unused one is dropped first.",
        )
        from_prompt: bool = Field(
            False, description="Whether the pool starts with the phrases of the prompt."
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        self.levels = self.options.ngram - 1
        self.columns = [[UNKNOWN] * self.levels for _ in range(self.options.window)]
        self.generated = [0] * len(self.columns)  # how many of a column's last levels the target has written
        self.pool = Pool(self.options.guesses, self.options.pool_size)
        self.tried: list[Gram] = []
        self.proposal = Proposal(TokenTree())
        self.hits = 0

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", (options.guesses + options.window) * (options.ngram - 1) - 1)

    def start(self, context: Context) -> None:
        if self.options.from_prompt:
            text, size = context.source + context.tokens, self.options.ngram
            for begin in range(len(text) - size + 1):
                self.pool.add(tuple(text[begin : begin + size]))

    def propose(self, context: Context) -> Proposal:
        root = context.tokens[-1]
        self._fill(context)
        self.columns[0][0] = root
        self.tried = self.pool.beginning_with(root)
        tree = trie(self.tried, min(self.levels, context.limit), context.room)
        extra = branch(self.columns) if self._fits(context, len(tree)) else TokenTree()
        note: Note = {
            "window": [list(level) for level in zip(*self.columns, strict=True)],
            "generated": list(self.generated),
            "pool": len(self.pool),
            "guesses": [list(gram) for gram in self.tried],
            "recent": [list(gram) for gram in self.pool.recent(RECENT, beside=root)],
            "hits": self.hits,
            "evictions": self.pool.evictions,
        }
        self.proposal = Proposal(tree, extra=extra, note=note)
        return self.proposal

    def observe(self, context: Context, outcome: Outcome) -> None:
        accepted = tuple(self.proposal.tree.tokens[node] for node in outcome.path)
        if accepted:
            self.hits += 1
            for gram in self.tried:
                if gram[1 : 1 + len(accepted)] == accepted:
                    self.pool.touch(gram)
        moved = len(outcome.tokens)
        if len(self.proposal.extra) and outcome.extra is not None:
            newest = self._likeliest(context, outcome.extra)
            harvested = self._grow(newest)
            self.proposal.note |= {"newest": [newest], "harvested": [list(gram) for gram in harvested]}
            moved -= 1  # the levels have moved up by one position
        width = len(self.columns)
        fresh = [[UNKNOWN] * self.levels for _ in range(moved)]
        self.columns = (self.columns + fresh)[moved : moved + width]
        self.generated = (self.generated + [0] * moved)[moved : moved + width]

    def _likeliest(self, context: Context, extra: Tensor) -> list[int]:
        """The target's most likely token after each column, penalised for the text and the column's path."""
        rows = extra[-len(self.columns) :]
        if context.past is not None:
            rows = context.past.penalised(rows, paths_of(self.proposal.extra)[-len(self.columns) :])
        found: list[int] = first_best(rows).tolist()
        return found

    def _grow(self, newest: list[int]) -> list[Gram]:
        """Put the target's tokens after the last level below their columns and drop level 0; returns new n-grams."""
        harvested: list[Gram] = []
        for number, (column, token) in enumerate(zip(self.columns, newest, strict=True)):
            gram = (*column, token)
            written = self.generated[number] >= self.levels - 1  # all but perhaps its first token
            if written and self.pool.add(gram):
                harvested.append(gram)
            self.columns[number] = list(gram[1:])
            self.generated[number] = min(self.levels, self.generated[number] + 1)
        return harvested

    def _fill(self, context: Context) -> None:
        """Give positions without a guess their initial token."""
        if all(UNKNOWN not in column for column in self.columns):
            return
        numbers = iter(context.uniforms(len(self.columns) * self.levels))
        prompt = context.source + context.tokens[: context.prompt_length]
        blank = min(self.resources.models.eos, default=0)
        for column in self.columns:
            for level in range(self.levels):
                number = next(numbers)
                if column[level] == UNKNOWN:
                    column[level] = {
                        "prompt": prompt[int(number * len(prompt))],
                        "random": int(number * context.vocabulary),
                        "blank": blank,
                    }[self.options.initial]

    def _fits(self, context: Context, nodes: int) -> bool:
        """Whether the window is useful and fits the memory budget and the target's context."""
        size = len(self.columns) * self.levels - 1
        # position of the last level's last column, + 1
        end = len(context.tokens) + len(self.columns) + self.levels - 2
        positions = self.resources.models.target.positions
        return context.limit > 1 and nodes + size <= context.room and end <= positions


def branch(columns: Sequence[Sequence[int]]) -> TokenTree:
    """The window as extra, level by level and without its first token, which is the root."""
    width = len(columns)
    tokens: list[int] = []
    parents: list[int] = []
    for level in range(len(columns[0])):
        for number, column in enumerate(columns):
            if level or number:
                tokens.append(column[level])
                parents.append(len(parents) - 1 if not level else len(parents) - width)
    return TokenTree(tokens, parents)


def trie(grams: Sequence[Gram], depth: int, room: int) -> TokenTree:
    """What follows the first token of each n-gram, to `depth`, common prefixes merged; at most `room` nodes."""
    tokens: list[int] = []
    parents: list[int] = []
    known: dict[tuple[int, int], int] = {}
    for gram in grams:
        parent = ROOT
        for token in gram[1 : 1 + depth]:
            node = known.get((parent, token))
            if node is None:
                if len(tokens) >= room:
                    break
                node = known[parent, token] = len(tokens)
                tokens.append(token)
                parents.append(parent)
            parent = node
    return TokenTree(tokens, parents)


class Pool:
    """N-grams by their first token, at most `share` per first token and `size` in all; drops the least recently used.

    An n-gram is used when it is harvested (again) or begins with what was accepted.
    """

    def __init__(self, share: int, size: int) -> None:
        self.share, self.size = share, size
        self.evictions = 0
        self._all: OrderedDict[Gram, None] = OrderedDict()  # least recently used first, here and below
        self._by_first: dict[int, OrderedDict[Gram, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, gram: Gram) -> bool:
        """Enter an n-gram as just used; returns whether it is new."""
        if gram in self._all:
            self.touch(gram)
            return False
        family = self._by_first.setdefault(gram[0], OrderedDict())
        self._all[gram] = family[gram] = None
        if len(family) > self.share:
            self._evict(next(iter(family)))
        elif len(self._all) > self.size:
            self._evict(next(iter(self._all)))
        return True

    def touch(self, gram: Gram) -> None:
        """Mark an n-gram of the pool as just used."""
        self._all.move_to_end(gram)
        self._by_first[gram[0]].move_to_end(gram)

    def beginning_with(self, token: int) -> list[Gram]:
        """The n-grams with that first token, the most recently used first."""
        return list(reversed(self._by_first.get(token, ())))

    def recent(self, count: int, beside: int) -> list[Gram]:
        """The `count` most recently used n-grams that do not begin with `beside`."""
        others = (gram for gram in reversed(self._all) if gram[0] != beside)
        return list(islice(others, count))

    def _evict(self, gram: Gram) -> None:
        del self._all[gram], self._by_first[gram[0]][gram]
        self.evictions += 1
