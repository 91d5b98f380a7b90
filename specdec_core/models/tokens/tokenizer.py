"""Between token ids and text: whole texts, the piece each committed token adds, and a token's own name."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BROKEN = "\N{REPLACEMENT CHARACTER}"  # stands for bytes that are not yet a complete character
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")  # the name of a byte in tokenizers that fall back to bytes
ANSWER = "an answer"  # what a chat template is asked to write
CONTEXT = 6  # tokens before a piece that its decoding may depend on (leading spaces, split characters)


class Codec(Protocol):
    """What the decoder needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, special tokens added as the model expects them."""
        ...

    def frame(self) -> tuple[list[int], list[int]]:
        """The special tokens that `encode` adds before a text, and those behind it."""
        ...

    def added(self) -> dict[str, tuple[int, bool]]:
        """The tokens that stand beside the vocabulary of texts, by name: the id, and whether it is special, so that
        `decode` leaves it out."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens left out."""
        ...

    def names(self, ids: Iterable[int]) -> list[str]:
        """Each token on its own, for display: its text, its bytes as ⟨0xE2⟩ where they are not a whole character,
        its name if it is special, ⟨id⟩ if it has no text at all."""
        ...

    def split(self, text: str) -> list[int]:
        """Token ids of `text`, without special tokens added."""
        ...

    def spelled(self) -> dict[int, bytes]:
        """The bytes that each token writes after another one; special tokens and those without text left out."""
        ...


class HubCodec:
    """A Hugging Face fast tokenizer behind the `Codec` protocol.

    Args:
        tokenizer: as loaded.
        finishing: whether `encode` adds what the tokenizer adds behind a text, such as an end token. A causal model
            that is to continue the text has to read it without.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, finishing: bool = True) -> None:
        self.tokenizer = tokenizer
        self._rust = tokenizer.backend_tokenizer
        self._known = len(tokenizer)
        mask = self._rust.encode("a").special_tokens_mask
        self._before, self._after = (len(list(takewhile(bool, one))) for one in (mask, reversed(mask)))
        self.appended: list[int] = []  # what is left out behind a text
        if not finishing:
            self.appended, self._after = self.frame()[1], 0
        self._special = {
            *tokenizer.all_special_ids,
            *(token for token, special in self.added().values() if special),
        }
        self._anchor = next(iter(tokenizer.encode("a", add_special_tokens=False)), 0)
        self._prefix = len(self._rust.decode([self._anchor], skip_special_tokens=False))
        self._names: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text)
        return ids[: len(ids) - len(self.appended)]

    def frame(self) -> tuple[list[int], list[int]]:
        ids = self.tokenizer.encode("a")
        return ids[: self._before], ids[len(ids) - self._after :] if self._after else []

    def added(self) -> dict[str, tuple[int, bool]]:
        found = self.tokenizer.added_tokens_decoder
        return {
            one.content: (token, one.special and not _BYTE.fullmatch(one.content))
            for token, one in found.items()
        }

    def turn_end(self) -> int | None:
        """The added token that the chat template writes directly after an answer; None if there is none."""
        if not self.tokenizer.chat_template:
            return None
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": ANSWER}]
        try:
            text = str(self.tokenizer.apply_chat_template(turns, tokenize=False))
        except Exception:  # code of the model's authors, which may refuse these turns
            return None
        after = text.rpartition(ANSWER)[2].lstrip() if ANSWER in text else ""
        return next(
            (token for name, (token, _) in self.added().items() if name and after.startswith(name)), None
        )

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._rust.decode(list(ids), skip_special_tokens=True)
        return text

    def names(self, ids: Iterable[int]) -> list[str]:
        ids = list(ids)
        new = [token for token in dict.fromkeys(ids) if token not in self._names]
        plain = [token for token in new if token < self._known and token not in self._special]
        # A token's leading space shows only after another token, so each is decoded after an anchor.
        texts = self._rust.decode_batch([[self._anchor, token] for token in plain], skip_special_tokens=False)
        for token, text in zip(plain, texts, strict=True):
            self._names[token] = self._bytes(token) if BROKEN in text else text[self._prefix :]
        for token in new:
            if token not in self._names:
                name = self.tokenizer.convert_ids_to_tokens(token) if token < self._known else None
                self._names[token] = str(name) if name else f"⟨{token}⟩"
        return [self._names[token] for token in ids]

    def split(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def spelled(self) -> dict[int, bytes]:
        plain = [token for token in range(self._known) if token not in self._special]
        texts = self._rust.decode_batch([[self._anchor, token] for token in plain], skip_special_tokens=False)
        return {
            token: self._raw(token) if BROKEN in text else text[self._prefix :].encode()
            for token, text in zip(plain, texts, strict=True)
        }

    def _bytes(self, token: int) -> str:
        return "".join(f"⟨0x{byte:02X}⟩" for byte in self._raw(token)) or f"⟨{token}⟩"

    def _raw(self, token: int) -> bytes:
        """The bytes of a token that is no whole text; empty where its name does not say them."""
        name = str(self.tokenizer.convert_ids_to_tokens(token))
        if _BYTE.fullmatch(name):
            return bytes.fromhex(name[3:-1])
        table = _byte_table()
        if all(character in table for character in name):
            return bytes(table[character] for character in name)
        return b""


class Pieces:
    """The text each committed token adds, so that the pieces join to the full text; bytes of a split character wait.

    Args:
        codec: the tokenizer.
        prompt: the prompt's ids, of which the last few are context.
    """

    def __init__(self, codec: Codec, prompt: Sequence[int]) -> None:
        self._codec = codec
        self._ids = list(prompt[-CONTEXT:])
        self._start = 0
        self._read = len(self._ids)
        self._before = codec.decode(self._ids)

    def push(self, token: int) -> str:
        """The text that `token` completes; empty while a character is still incomplete."""
        self._ids.append(token)
        text = self._codec.decode(self._ids[self._start :])
        if text.endswith(BROKEN) and len(self._ids) - self._read < CONTEXT:
            return ""
        piece = text[len(self._before) :]
        start, self._read = self._read, len(self._ids)
        later = self._codec.decode(self._ids[start:])
        # After only tokens without text, the next one would lose its leading space: look further back.
        self._start, self._before = (start, later) if later else (self._start, text)
        return piece

    def rest(self) -> str:
        """The remainder at the end: marks for bytes that never became a character."""
        text = self._codec.decode(self._ids[self._start :])
        return text[len(self._before) :]


def incomplete(data: bytes) -> int:
    """How many bytes at the end begin a character that is not whole yet."""
    decoder = getincrementaldecoder("utf-8")("ignore")
    decoder.decode(data)
    return len(decoder.getstate()[0])


@cache
def _byte_table() -> dict[str, int]:
    """The printable stand-ins of byte-level BPE (Radford et al. 2019): visible bytes are themselves, others shifted."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}
