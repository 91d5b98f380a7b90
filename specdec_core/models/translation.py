"""Between two tokenizers, through the bytes that their tokens write.

A draft with another tokenizer can guess in two ways. Its text can be split anew into the target's tokens, as
transformers' universal assisted decoding does. Or its distribution can be restricted to the tokens that both
vocabularies have (token-level intersection, Timor et al. 2025), which keeps sampling exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from specdec_core.lazy_torch import torch

from .tokenizer import BROKEN, Codec, incomplete

if TYPE_CHECKING:
    from torch import Tensor

    from .bundle import Model

BEFORE = 32  # bytes before a split that it may depend on
MOST = 8  # tokens that one of the target's is read as; of a longer spelling the last ones


class Spelling:
    """A tokenizer as bytes.

    Args:
        codec: the tokenizer.
        size: number of the model's logits; tokens beyond are left out.
    """

    def __init__(self, codec: Codec, size: int) -> None:
        self.codec = codec
        self.bytes: Mapping[int, bytes] = {
            token: data for token, data in codec.spelled().items() if data and token < size
        }
        self.tokens: dict[bytes, int] = {}
        for token, data in self.bytes.items():
            self.tokens.setdefault(data, token)
        self.longest = max(map(len, self.tokens), default=0)

    def text(self, tokens: Sequence[int]) -> bytes:
        """What the tokens write; special ones write nothing."""
        return b"".join(self.bytes.get(token, b"") for token in tokens)

    def after(self, before: bytes, data: bytes) -> list[int]:
        """Tokens that write `data`, split as the tokenizer splits them in a text where `before` precedes them.

        Where a token of that split would begin in `before`, and for an incomplete last character, the longest tokens
        that fit are taken instead.
        """
        if not data:
            return []
        before = before[-BEFORE:]
        open_bytes = incomplete(before + data)
        whole, rest = data[: max(0, len(data) - open_bytes)], data[max(0, len(data) - open_bytes) :]
        ids: list[int] = []
        for token in reversed(self.codec.split((before + whole).decode(errors="ignore"))):
            piece = self.bytes.get(token)
            if not whole or piece is None or not whole.endswith(piece):
                break
            ids.append(token)
            whole = whole[: -len(piece)]
        return [*self.longest_first(whole), *reversed(ids), *self.longest_first(rest)]

    def longest_first(self, data: bytes) -> list[int]:
        """Tokens that write `data`, each the longest that fits; bytes that no token begins with are left out."""
        ids, start = [], 0
        while start < len(data):
            for size in range(min(self.longest, len(data) - start), 0, -1):
                if (token := self.tokens.get(data[start : start + size])) is not None:
                    ids.append(token)
                    start += size
                    break
            else:
                start += 1
        return ids


class ForeignDraft:
    """A draft model with another tokenizer than the target's, and the way between the two.

    Args:
        model: over its own tokens.
        codec: its tokenizer.
        begin: the token an empty text starts from.
        eos: its token that ends a text, if there is one.
        target: the target's tokenizer, its number of logits, and its token that ends a text, if there is one.
    """

    def __init__(
        self, model: Model, codec: Codec, begin: int, eos: int | None, target: tuple[Codec, int, int | None]
    ) -> None:
        self.model, self.codec, self.begin, self.eos = model, codec, begin, eos
        self.target_codec, self.vocabulary, self.target_eos = target
        self._spelled: dict[int, list[int]] = {}

    @cached_property
    def own(self) -> Spelling:
        """The draft's tokens."""
        return Spelling(self.codec, self.model.vocabulary)

    @cached_property
    def target(self) -> Spelling:
        """The target's tokens."""
        return Spelling(self.target_codec, self.vocabulary)

    @cached_property
    def shared(self) -> dict[int, int]:
        """The target's tokens that the draft has as well, ascending, each with the draft's id.

        The tokens that end a text are the same whatever they are called.
        """
        both = {
            token: self.own.tokens[data]
            for data, token in self.target.tokens.items()
            if data in self.own.tokens
        }
        if self.target_eos is not None and self.eos is not None:
            both[self.target_eos] = self.eos
        return dict(sorted(both.items()))

    @cached_property
    def ids(self) -> tuple[Tensor, Tensor]:
        """The shared tokens, int64 (k,): the target's ids, the draft's ids."""
        return torch.tensor(list(self.shared)), torch.tensor(list(self.shared.values()))

    def read(self, tokens: Sequence[int], most: int) -> list[int]:
        """A whole text of the target as the draft reads it, with the special tokens that it expects; not empty, and of
        a longer text the last `most`."""
        text = self.target_codec.decode(tokens).rstrip(BROKEN)
        ids = [token for token in self.codec.encode(text) if token < self.model.vocabulary]
        return ids[-most:] or [self.begin]

    def spelled(self, token: int) -> list[int]:
        """One of the target's tokens as the draft reads it; not empty."""
        if token not in self._spelled:
            if (own := self.shared.get(token)) is not None:
                ids = [own]
            else:
                ids = self.own.longest_first(self.target.bytes.get(token, b""))[-MOST:]
            self._spelled[token] = ids or [self.begin]
        return self._spelled[token]
