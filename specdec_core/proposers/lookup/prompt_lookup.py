"""Prompt lookup: find the last few tokens earlier in the text and propose what followed them there (Saxena 2023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from specdec_core.proposers.contract import Proposer, Resources
from specdec_core.round import Context, Note, Outcome, Proposal
from specdec_core.tree import TokenTree

CONTINUATIONS = 4  # different ones counted by `leading`
LEAD = 3  # how many times as frequent as all others together the one that is copied has to be


class PromptLookup(Proposer):
    """Copies what followed an earlier occurrence of the text's current ending.

    A place counts only if a token follows it. The suffix that is looked up has `max_ngram` tokens, or, where that
    does not occur, the longest one that does; among its occurrences, `match` chooses:

    - `longest`: the most recent one.
    - `first`: the earliest one (what transformers' prompt lookup does).
    - `most-frequent`: its followers are counted; the most recent place of the token that followed most often (of
      equal ones, the one seen last).
    - `last`: not the longest suffix but the most recent occurrence of the last token; the match is as long
      as the text agrees there. Recent context may predict better than a long match.
    - `leading`: only `max_ngram` tokens; what followed each occurrence is counted as a whole, the first four different
      continuations of a length, and the most frequent one is copied if it leads the others three to one (the idea of
      llama.cpp's `ngram-map-k4v`).
    - `walk`: only `max_ngram` tokens, of which the newest follower is known; it is taken, and the last tokens, it
      among them, are looked up again (the idea of llama.cpp's `ngram-mod`, without the collisions of its table). So a
      copy may change from one place of the text to another.

    With `max_ngram` 1 this is a table of word pairs. An encoder–decoder model's source counts as earlier text: the
    note's `match_start` counts in source and text joined. `matches` is the number of candidate places, `votes` how
    many of them had the most frequent follower.
    """

    name = "prompt-lookup"
    title = "Prompt lookup"
    summary = (
        "Looks for the last few tokens earlier in the text and proposes what came after them, with no second model. "
        "It is faster when the answer repeats the prompt (edits, summaries, code); elsewhere most guesses are wrong."
    )

    class Options(Proposer.Options):
        max_ngram: int = Field(
            3,
            ge=1,
            le=16,
            description="The longest sequence that is looked up, in tokens; 1 looks up the last token alone.",
        )
        match: Literal["longest", "first", "last", "most-frequent", "leading", "walk"] = Field(
            "longest",
            description="Which match is copied. Of the longest: 'longest' takes the newest, 'first' the earliest, "
            "'most-frequent' the one that continues as most do; 'last' takes the newest of any length. Of the whole "
            "sequence only: 'leading' takes the continuation that is three times as frequent as all others together, "
            "'walk' looks up again after each token.",
        )
        fewest: int = Field(
            1,
            ge=1,
            le=64,
            description="Copies of fewer tokens are not proposed; llama.cpp's ngram-mod wants 48.",
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        self.text: list[int] = []  # what is indexed: source, prompt and committed tokens
        self.followers: dict[tuple[int, ...], list[int]] = {}  # n-gram → positions of its followers

    def start(self, context: Context) -> None:
        self._index(context.source + context.tokens)

    def propose(self, context: Context) -> Proposal:
        text, length = self.text, min(context.length, context.room)
        for size in self._sizes():
            places = self.followers.get(tuple(text[-size:]))
            if places:
                start, votes = self._choose(places, length)
                size = self._agreeing(start) if self.options.match == "last" else size
                copied = text[start : start + length]
                if self.options.match == "walk":
                    copied = self._walk(length)
                if len(copied) < min(self.options.fewest, length) or votes == 0:
                    break
                note: Note = {"match_start": start - size, "match_length": size, "copied": len(copied)}
                note |= {"matches": len(places), **({"votes": votes} if votes else {})}
                return Proposal(TokenTree.chain(copied), note=note)
        return Proposal(TokenTree(), note={"match_start": None})

    def _sizes(self) -> Iterable[int]:
        """How many of the last tokens are looked up, in order, until there is a match."""
        longest = min(self.options.max_ngram, len(self.text) - 1)
        if self.options.match in ("leading", "walk"):
            return [longest] if longest == self.options.max_ngram else []
        return [1] if self.options.match == "last" else range(longest, 0, -1)

    def observe(self, context: Context, outcome: Outcome) -> None:
        self._index(outcome.tokens)

    def _choose(self, places: list[int], length: int) -> tuple[int, int | None]:
        """The follower to copy from, and its votes where they were counted; no vote if none leads."""
        if self.options.match == "first":
            return places[0], None
        if self.options.match == "leading":
            return self._leading(places, length)
        if self.options.match != "most-frequent":
            return places[-1], None
        newest_first = [self.text[place] for place in reversed(places)]
        token, votes = Counter(newest_first).most_common(1)[0]  # ties keep the order of first occurrence
        return places[-1 - newest_first.index(token)], votes

    def _leading(self, places: list[int], length: int) -> tuple[int, int]:
        """The newest place of the continuation that leads the others three to one, and how often it followed."""
        counts: Counter[tuple[int, ...]] = Counter()
        newest: dict[tuple[int, ...], int] = {}
        for place in places:
            if place + length > len(self.text):
                break
            continuation = tuple(self.text[place : place + length])
            if continuation in counts or len(counts) < CONTINUATIONS:
                counts[continuation] += 1
                newest[continuation] = place
        if not counts:
            return places[-1], 0
        (winner, votes), *others = counts.most_common()
        return newest[winner], votes if votes >= LEAD * sum(count for _, count in others) else 0

    def _walk(self, length: int) -> list[int]:
        """The newest follower of the last tokens, of these and itself, and so on."""
        walked = self.text[-self.options.max_ngram :]
        for _ in range(length):
            places = self.followers.get(tuple(walked[-self.options.max_ngram :]))
            if not places:
                break
            walked.append(self.text[places[-1]])
        return walked[self.options.max_ngram :]

    def _agreeing(self, follower: int) -> int:
        """How many tokens before `follower` are those that the text ends with, at most `max_ngram`."""
        size = 1
        while (
            size < min(self.options.max_ngram, follower)
            and self.text[follower - size - 1] == self.text[-size - 1]
        ):
            size += 1
        return size

    def _index(self, new: list[int]) -> None:
        """Index the n-grams that get a follower from the `new` tokens appended to the text."""
        begin = len(self.text)
        self.text += new
        for follower in range(max(1, begin), len(self.text)):
            for size in range(1, min(self.options.max_ngram, follower) + 1):
                self.followers.setdefault(tuple(self.text[follower - size : follower]), []).append(follower)
