"""You are the draft: a person types the next words, and the target shows how far it agrees."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import SettingsError, kind_of
from specdec_core.round import Context, Note, Proposal
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .contract import Proposer, TreeShape

if TYPE_CHECKING:
    from specdec_core.models.tokens.tokenizer import Codec

MAX_TOKENS = 64
MAX_CHARACTERS = 2_000  # read per answer; 64 tokens are rarely longer


class You(Proposer):
    """Asks once per round and proposes what was typed, up to 64 tokens regardless of γ; nothing for an empty answer.

    The person's time is off the lane's clock. The note keeps what was `typed` (its first 500 characters) and how
    many of its tokens were left out because there was no room (`left_out`).
    """

    name = "you"
    title = "You"
    off_the_clock = True
    uses = ()
    summary = (
        "You type the next words, and the target model checks them like any draft; your time is not counted. "
        "Your guesses are rejected when they are not the model's exact words, including spaces and full stops."
    )
    needs = ("person",)

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("chain", MAX_TOKENS)

    def propose(self, context: Context) -> Proposal:
        ask, codec = self.resources.ask, self.resources.models.codec
        assert ask is not None, "`Plan.make` checks `needs` before it builds a proposer"
        most = min(MAX_TOKENS, context.limit, context.room)
        if most <= 0:  # nothing typed could be used
            return Proposal(TokenTree())
        text = codec.decode(context.tokens)
        began = time.perf_counter()
        answer = ask(text)
        waited = time.perf_counter() - began
        if not isinstance(answer, str):
            raise SettingsError(f"`ask` has to return the next words as text, got {kind_of(answer)}.")
        typed = answer[:MAX_CHARACTERS].encode(errors="ignore").decode()  # no partial characters
        tokens = list(takewhile(context.vocabulary.__gt__, continuation(codec, context.tokens, typed)))
        note: Note = {"typed": typed[:500], "left_out": max(0, len(tokens) - most)}
        return Proposal(TokenTree.chain(tokens[:most]), waited=waited, note=note)


def continuation(codec: Codec, tokens: list[int], typed: str) -> list[int]:
    """Token ids that append `typed` to the text of `tokens`, exactly where the tokenizer can.

    Preferably the ids the whole text would have, since the model writes such; they exist unless the typed text
    merges with the last token ("ca", then "t"). Else its ids after a line break, because many tokenizers put a
    space before a first word; else its ids alone.
    """
    if not typed:
        return []
    for before in (codec.decode(tokens), "\n"):
        head, whole = _plain(codec, before), _plain(codec, before + typed)
        if whole[: len(head)] == head:
            return whole[len(head) :]
    return _plain(codec, typed)


def _plain(codec: Codec, text: str) -> list[int]:
    """The ids of `text` without the special tokens that the codec adds around a text."""
    frame, ids = codec.encode(""), codec.encode(text)
    lead = 0
    while lead < min(len(frame), len(ids)) and ids[lead] == frame[lead]:
        lead += 1
    tail = frame[lead:]
    return ids[lead : len(ids) - len(tail)] if tail and ids[-len(tail) :] == tail else ids[lead:]
