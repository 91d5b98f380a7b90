"""Prompts that are more than text: a message, which is wrapped in the model's chat template before it is read, and a
record that goes on with a token that somebody chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from specdec_core.foundations.errors import PromptError, kind_of
from specdec_core.record.schema import Branch
from specdec_core.record.trace import Trace

MAX_PROMPT_CHARACTERS = 1_000_000
MAX_SYSTEM = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Chat:
    """A user's message, and perhaps a system line replacing the template's.

    `decode`, `stream`, `race` and `sweep` accept it in place of a text; the record keeps the message as its prompt
    and the whole templated text as its prompt tokens.

    Raises:
        PromptError: if message or system line is not text.
    """

    message: str
    system: str = ""

    def __post_init__(self) -> None:
        for what, given in (("message", self.message), ("system line", self.system)):
            if not isinstance(given, str):
                raise PromptError(f"The {what} of a chat is text, got {kind_of(given)}.")


@dataclass(frozen=True, slots=True)
class Branched:
    """The prompt of a branch: another record's prompt, the tokens that are kept of its text, and a forced token.

    `decode`, `stream` and `race` accept it; the new record says in `header.branch` what it goes on from. `chat`:
    whether it is within an answer to a `Chat`, which the end of the turn then ends.
    """

    ids: tuple[int, ...]
    branch: Branch
    chat: bool = False

    @classmethod
    def of(cls, trace: Trace, at: int, token: int, *, chat: bool | None = None) -> Self:
        """Go on from `trace` after the first `at` of its tokens, with `token` in place of its own; `chat` as the
        record has it, if None.

        Raises:
            PromptError: if the record has fewer tokens, or an encoder read its prompt.
        """
        if not 0 <= at <= len(trace.token_ids):
            raise PromptError(f"The record has {len(trace.token_ids)} tokens; none can be chosen after {at}.")
        if trace.header.decoder_start:
            raise PromptError(
                "A record of an encoder-decoder cannot be continued: its prompt is the encoder's."
            )
        ids = (*trace.header.prompt_ids, *trace.token_ids[:at], token)
        return cls(ids, Branch(trace.header.id, at, token), trace.header.chat if chat is None else chat)


Prompt = str | Chat | Branched | Sequence[int]
