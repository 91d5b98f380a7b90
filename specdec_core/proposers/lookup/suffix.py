"""Suffix decoding: propose what most often followed the text's current ending, here and in earlier texts (Oliaro et al.
2024).

Every earlier place at which the text read as it ends now is known, with the number of tokens that agree there. The
places that agree in at least p tokens are the node of a suffix tree that the last p tokens lead to, and what follows
at those places is the tree below it. So the suffix tree is never built: a node of it is a list of places, and its count
is their number.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from pydantic import Field

from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers.contract import Proposer, Resources, TreeShape
from specdec_core.round import Context, Note, Outcome, Proposal
from specdec_core.settings import Settings
from specdec_core.tree import ROOT, TokenTree

MAX_MATCH = 64  # tokens that are compared before a place
PLACES = 1_000  # places remembered of one token, the newest ones
END = -1  # after each text that is not continued


@dataclass(slots=True)
class Guess:
    """A tree grown from some places, its nodes by falling value.

    Attributes:
        value: for each node the share of the places that continue as the path down to it (D(N) of sec. 3.2).
        length: how many tokens agree at every one of the places.
        places: them.
    """

    length: int = 0
    places: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class Suffix(Proposer):
    """The continuations of all places that read like the text's ending, merged and weighted by their counts.

    For each p the places that agree in at least p tokens grow a tree, the most frequent continuation first, of at most
    `factor` · p nodes: a longer match is trusted further (sec. 3.2). The tree with the largest sum of values is
    proposed; were the counts probabilities, it would be the number of tokens gained. It follows from earlier rounds
    alone, so given these it is a point mass and all rules for those are exact.

    The note: `match_length` p, `matches` the number of its places, `earlier` how many of these are in `earlier` texts.
    """

    name = "suffix"
    title = "Suffix decoding"
    summary = (
        "Looks for every place where the text, or an earlier text given to it, read as it ends now, and proposes a "
        "tree of what most often followed. It is faster where answers repeat the prompt or earlier ones (edits, code, "
        "agents); on new text most guesses are wrong."
    )
    uses = ("nodes",)

    class Options(Proposer.Options):
        shape: Literal["tree", "chain"] = Field(
            "tree",
            description="'tree' proposes several continuations where they differ, 'chain' only the most frequent one.",
        )
        nodes: int = Field(
            16, title="Tokens sent", ge=1, le=256, description="The most tokens proposed in one round."
        )
        factor: float = Field(
            8.0,
            ge=0.1,
            le=64.0,
            description="How many tokens are proposed per token that agrees: a longer match is trusted further.",
        )
        least: float = Field(
            0.1,
            ge=0.0,
            le=1.0,
            description="A continuation is proposed only if at least this share of the places went on like it.",
        )
        earlier: list[list[int]] = Field(
            default_factory=list,
            description="Earlier texts that are searched as well, the oldest first, each a list of token ids. The "
            "record keeps them, so that a run can be repeated.",
        )

    options: Options

    @classmethod
    def check(cls, settings: Settings, options: Any) -> None:
        if any(token < 0 for text in options.earlier for token in text):
            raise SettingsError(
                "Option 'earlier' of the proposer 'suffix' holds a negative token id. Give the ids of earlier texts."
            )

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("chain" if options.shape == "chain" else "fixed tree", options.nodes)

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        largest = max((token for text in self.options.earlier for token in text), default=0)
        if largest >= resources.models.target.vocabulary:
            raise SettingsError(
                f"Option 'earlier' of the proposer 'suffix' holds the token id {largest}, and the target has "
                f"{resources.models.target.vocabulary:,}. Give texts of the same tokenizer."
            )
        self.text: list[int] = []  # earlier texts, each closed by END; source, prompt and committed tokens
        self.after: dict[int, deque[int]] = {}  # token → the places after it, the oldest first
        self.agreeing: dict[
            int, int
        ] = {}  # place → how many tokens before it are those that the text ends with
        self.begin = 0  # where this run's own text begins

    def start(self, context: Context) -> None:
        for text in self.options.earlier:
            self._index([*text, END])
        self.begin = len(self.text)
        own = context.source + context.tokens
        self._index(own[:-MAX_MATCH])
        self._follow(own[-MAX_MATCH:])

    def propose(self, context: Context) -> Proposal:
        most = min(self.options.nodes, context.room)
        best = Guess()
        if context.limit > 0 and most > 0:
            for length in sorted(set(self.agreeing.values()), reverse=True):
                budget = min(most, max(1, int(self.options.factor * length)))
                if sum(best.values) >= budget:  # a shorter match has no larger budget, and no value exceeds 1
                    break
                places = [place for place, agreed in self.agreeing.items() if agreed >= length]
                guess = self._grown(Guess(length, places), budget, context.limit)
                if sum(guess.values) > sum(best.values) + 1e-9:  # of equal ones the longest match
                    best = guess
        sent = context.policy.nodes(context, best.values) if best.values else 0
        note: Note = {
            "match_length": best.length,
            "matches": len(best.places),
            "earlier": sum(place < self.begin for place in best.places),
        }
        return Proposal(TokenTree(best.tokens[:sent], best.parents[:sent]), note=note)

    def observe(self, context: Context, outcome: Outcome) -> None:
        self._follow(outcome.tokens)

    def _grown(self, guess: Guess, budget: int, depth: int) -> Guess:
        """The continuations of the guess's places, the most frequent first (Algorithm 1)."""
        waiting: list[tuple[float, int, int, int, int, list[int]]] = []
        numbers = count()

        def offer(parent: int, level: int, value: float, places: Sequence[int]) -> None:
            """What follows the node `parent`, which is on this level and known at these places."""
            followers = self._followers(places)
            total = sum(map(len, followers.values()))
            ranked = sorted(followers.items(), key=lambda item: -len(item[1]))  # ties: the newest first
            for token, following in ranked[: 1 if self.options.shape == "chain" else None]:
                share = value * len(following) / total
                if share >= self.options.least:
                    heapq.heappush(waiting, (-share, next(numbers), token, parent, level + 1, following))

        offer(ROOT, 0, 1.0, guess.places)
        while waiting and len(guess.tokens) < budget:
            share, _, token, parent, level, places = heapq.heappop(waiting)
            guess.tokens.append(token)
            guess.parents.append(parent)
            guess.values.append(-share)
            if level < depth:
                offer(len(guess.tokens) - 1, level, -share, places)
        return guess

    def _followers(self, places: Iterable[int]) -> dict[int, list[int]]:
        """The tokens at these places, each with the places after it; the newest first."""
        found: dict[int, list[int]] = {}
        for place in sorted(places, reverse=True):
            if place < len(self.text) and self.text[place] != END:
                found.setdefault(self.text[place], []).append(place + 1)
        return found

    def _index(self, tokens: Iterable[int]) -> None:
        """Append tokens whose place is remembered."""
        for token in tokens:
            self.text.append(token)
            if token != END:
                self.after.setdefault(token, deque(maxlen=PLACES)).append(len(self.text))

    def _follow(self, tokens: Iterable[int]) -> None:
        """Append tokens and find the places that agree with the new ending."""
        for token in tokens:
            known = list(self.after.get(token, ()))
            self._index([token])
            self.agreeing = {
                place: min(MAX_MATCH, 1 + self.agreeing.get(place - 1, 0))
                for place in known
                if self.text[place] != END
            }
