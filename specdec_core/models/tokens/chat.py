"""A prompt that is a message to a chat model: it is wrapped in the model's chat template before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_core.foundations.errors import PromptError, kind_of

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


Prompt = str | Chat | Sequence[int]
