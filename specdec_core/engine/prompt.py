"""A prompt as token ids, or refused with a sentence where the models cannot read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from operator import index

from specdec_core.foundations.errors import PromptError
from specdec_core.models.bundle import Models
from specdec_core.models.tokens.chat import MAX_PROMPT_CHARACTERS, MAX_SYSTEM, Branched, Chat, Prompt


def check_window(models: Models, ids: Sequence[int], more: int) -> None:
    """Refuse what the target cannot read; an encoder's prompt and a decoder's output each have a window.

    A draft that reads less guesses nothing beyond its own window.

    Raises:
        PromptError: one sentence.
    """
    name, window, encoded = models.target.info.name, models.target.positions, models.decoder_start is not None
    if encoded and len(ids) > window:
        raise PromptError(
            f"The prompt has {len(ids):,} tokens, but the encoder of '{name}' reads at most {window:,}. Shorten the "
            "prompt."
        )
    if encoded and more >= window:
        raise PromptError(
            f"{more:,} tokens are requested, but the decoder of '{name}' writes at most {window - 1:,}. Request fewer."
        )
    if not encoded and len(ids) + more > window:
        raise PromptError(
            f"The prompt has {len(ids):,} tokens and {more:,} more are requested, but '{name}' reads at most "
            f"{window:,} in all. Shorten the prompt or request fewer tokens."
        )


def _check_text(what: str, text: str, most: int) -> None:
    """Refuse what is too long or not text."""
    if len(text) > most:
        raise PromptError(f"The {what} has {len(text):,} characters; at most {most:,} are read. Shorten it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PromptError(
            f"The {what} contains half of a character (a lone surrogate). Paste it again as text."
        ) from None


def token_ids(prompt: object) -> list[int]:
    """The ids of a prompt that is no text.

    Raises:
        PromptError: if it is no list of whole numbers either.
    """
    try:
        # numbers as well, but no text's tokens
        if isinstance(prompt, bytes | bytearray | Mapping | Set) or not isinstance(prompt, Iterable):
            raise TypeError
        return [index(token) for token in prompt]
    except TypeError:
        raise PromptError(
            "A prompt is text or a list of token ids; this one contains something else."
        ) from None


def read_prompt(models: Models, prompt: Prompt) -> tuple[str, list[int]]:
    """Text and token ids of a prompt given as either; for a chat message its own text and the templated ids."""
    if isinstance(prompt, str | Chat):
        text = prompt.message if isinstance(prompt, Chat) else prompt
        _check_text("prompt", text, MAX_PROMPT_CHARACTERS)
        if isinstance(prompt, Chat):
            _check_text("system line", prompt.system, MAX_SYSTEM)
            ids = models.chat(text, prompt.system)
        else:
            ids = models.codec.encode(text)
        wide = next((token for token in ids if token >= models.target.vocabulary), None)
        if wide is not None:
            raise PromptError(
                f"The tokenizer turns this prompt into the token id {wide}, but the target model knows only ids 0 to "
                f"{models.target.vocabulary - 1}: tokenizer and model do not belong together."
            )
    else:
        ids = list(prompt.ids) if isinstance(prompt, Branched) else token_ids(prompt)
        width = models.target.vocabulary
        bad = next((token for token in ids if not 0 <= token < width), None)
        if bad is not None:
            raise PromptError(
                f"The prompt contains the token id {bad}; the target model knows ids 0 to {width - 1}."
            )
        text = models.codec.decode(ids)
    if not ids or (isinstance(prompt, Chat) and not text.strip()):
        if models.bos is None or isinstance(prompt, Chat):
            raise PromptError(
                "The message is empty. Type a few words."
                if isinstance(prompt, Chat)
                else "The prompt is empty and this model has no beginning-of-sequence token to start from. "
                "Type a few words."
            )
        ids = [models.bos]
    return text, ids
