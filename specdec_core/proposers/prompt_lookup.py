"""Prompt lookup: find the last few tokens earlier in the text and propose what followed them there (Saxena 2023)."""

from __future__ import annotations

from ..errors import SettingsError
from ..settings import Options, Settings
from ..tree import TokenTree
from .base import Context, Outcome, Proposal, Proposer, Resources

MAX_NGRAM = 16


class PromptLookup(Proposer):
    """Longest suffix first, and among matches of that length the most recent one. The table grows with the text.

    Options:
        max_ngram: the longest suffix that is looked up, in tokens (default 3).
    """

    name = "prompt-lookup"
    title = "Prompt lookup"
    summary = (
        "Looks for the last few tokens earlier in the text and proposes what came after them, with no second model. "
        "It wins when the answer repeats the prompt (edits, summaries, code); elsewhere its guesses are mostly wrong."
    )
    options = {"max_ngram": int}  # noqa: RUF012 (declared ClassVar in the base)

    def __init__(self, resources: Resources, options: Options) -> None:
        super().__init__(resources, options)
        longest = options.get("max_ngram", 3)
        assert isinstance(longest, int)
        self.longest = longest
        self.followers: dict[tuple[int, ...], int] = {}  # n-gram → where its most recent follower stands
        self.indexed = 0

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        longest = settings.options.get("max_ngram", 3)
        if not isinstance(longest, int) or not 1 <= longest <= MAX_NGRAM:
            raise SettingsError(f"Option 'max_ngram' must lie between 1 and {MAX_NGRAM}, got {longest!r}.")

    def start(self, context: Context) -> None:
        self._index(context.tokens)

    def propose(self, context: Context) -> Proposal:
        tokens = context.tokens
        length = min(context.settings.draft_length, context.limit)
        for size in range(min(self.longest, len(tokens) - 1), 0, -1):
            start = self.followers.get(tuple(tokens[-size:]))
            if start is not None:
                copied = tokens[start : start + length]
                note = {"match_start": start - size, "match_length": size, "copied": len(copied)}
                return Proposal(TokenTree.chain(copied), note=dict(note))
        return Proposal(TokenTree(), note={"match_start": None})

    def observe(self, context: Context, outcome: Outcome) -> None:
        self._index(context.tokens)

    def _index(self, tokens: list[int]) -> None:
        """Enter every n-gram that has a follower by now and was not entered before."""
        for follower in range(max(1, self.indexed), len(tokens)):
            for size in range(1, min(self.longest, follower) + 1):
                self.followers[tuple(tokens[follower - size : follower])] = follower
        self.indexed = len(tokens)
