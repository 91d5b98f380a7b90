"""Between two tokenizers, through the bytes that their tokens write.

A draft with another tokenizer can guess in two ways. Its text can be split anew into the target's tokens, as
transformers' universal assisted decoding does. Or its distribution can be restricted to the tokens that both
vocabularies have (token-level intersection, Timor et al. 2025), which keeps sampling exact.

A special token writes no text. One that both tokenizers have is written here as its name between bytes that occur in
no text (`MARK`), so that it is found again on the other side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from specdec_core.foundations.lazy_torch import torch

from .tokenizer import BROKEN, Codec, incomplete

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.bundle import Model

BEFORE = 32  # bytes before a split that it may depend on
MARK = b"\xff\xfe\xff"  # bytes that UTF-8 does not use
_MARKED = re.compile(b"(%b[^\xff]*%b)" % (MARK, MARK))
MAX_PIECES = 8  # tokens that one of the target's is read as; of a longer spelling the last ones


class Spelling:
    """A tokenizer as bytes.

    Args:
        codec: the tokenizer.
        size: number of the model's logits; tokens beyond are left out.
        marks: what stands for its special tokens.
    """

    def __init__(self, codec: Codec, size: int, marks: Mapping[int, bytes] | None = None) -> None:
        self.codec = codec
        self.marks = dict(marks or {})
        written = {token: data for token, data in codec.spelled().items() if data and token < size}
        self.bytes: Mapping[int, bytes] = written | self.marks
        self.tokens: dict[bytes, int] = {}
        for token, data in self.bytes.items():
            self.tokens.setdefault(data, token)
        self.longest = max(map(len, self.tokens), default=0)

    def text(self, tokens: Sequence[int]) -> bytes:
        """What the tokens write; special ones without a mark write nothing."""
        return b"".join(self.bytes.get(token, b"") for token in tokens)

    def after(self, before: bytes, data: bytes) -> list[int]:
        """Tokens that write `data`, split as the tokenizer splits them in a text where `before` precedes them.

        Where a token of that split would begin in `before`, and for an incomplete last character, the longest tokens
        that fit are taken instead.
        """
        ids: list[int] = []
        for part in _MARKED.split(data):
            before = before.rpartition(MARK)[2]  # a special token ends the text before it
            if part in self.tokens and part.startswith(MARK):
                ids.append(self.tokens[part])
            elif part:
                ids += self._after(before[-BEFORE:], part)
            before += part
        return ids

    def _after(self, before: bytes, data: bytes) -> list[int]:
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
        return Spelling(self.codec, self.model.vocabulary, {own: mark for _, own, mark in self.marked})

    @cached_property
    def target(self) -> Spelling:
        """The target's tokens."""
        return Spelling(self.target_codec, self.vocabulary, {token: mark for token, _, mark in self.marked})

    @cached_property
    def marked(self) -> list[tuple[int, int, bytes]]:
        """The special tokens that both have: the target's id, the draft's id, and what is written for them.

        Those of one name are the same, and of the others those that begin a text and those that end one.
        """
        own = {name: one for name, one in self.codec.added().items() if one[0] < self.model.vocabulary}
        pairs = {
            token: (own[name][0], name)
            for name, (token, special) in self.target_codec.added().items()
            if token < self.vocabulary and name in own and (special or own[name][1])
        }
        starts = [next(iter(codec.frame()[0]), None) for codec in (self.target_codec, self.codec)]
        roles = (("end", self.target_eos, self.eos), ("begin", starts[0], starts[1]))
        for role, theirs, mine in roles:
            known = theirs in pairs or mine in {token for token, _ in pairs.values()}
            if theirs is not None and mine is not None and not known:
                pairs[theirs] = mine, f"\0{role}"
        return [(theirs, mine, MARK + name.encode() + MARK) for theirs, (mine, name) in pairs.items()]

    @cached_property
    def shared(self) -> dict[int, int]:
        """The target's tokens that the draft has as well, ascending, each with the draft's id."""
        both = {
            token: self.own.tokens[data]
            for data, token in self.target.tokens.items()
            if data in self.own.tokens
        }
        return dict(sorted(both.items()))

    @cached_property
    def ids(self) -> tuple[Tensor, Tensor]:
        """The shared tokens, int64 (k,): the target's ids, the draft's ids."""
        return torch.tensor(list(self.shared)), torch.tensor(list(self.shared.values()))

    def read(self, tokens: Sequence[int], most: int) -> list[int]:
        """A whole text of the target as the draft reads it; not empty, and of a longer text the last `most`.

        Where the draft expects a text to begin with a token that the target does not have, it begins so.
        """
        theirs, mine = self.target_codec.frame()[0], self.codec.frame()[0]
        ids: list[int] = []
        if not {*mine} <= {own for _, own, _ in self.marked}:
            ids += mine
            tokens = tokens[len(theirs) if list(tokens[: len(theirs)]) == theirs else 0 :]
        plain = self.target.bytes.keys() - self.target.marks.keys()
        for written, run in groupby(tokens, plain.__contains__):
            part = list(run)
            ids += self._text(part) if written else [self.shared[one] for one in part if one in self.shared]
        return [token for token in ids if token < self.model.vocabulary][-most:] or [self.begin]

    def _text(self, run: list[int]) -> list[int]:
        """Tokens of the target that are no special ones, as the draft splits their text."""
        data = self.target.text(run)
        ids = self.codec.split(self.target_codec.decode(run).rstrip(BROKEN))
        if (
            self.own.text(ids) != data
        ):  # a space that one of the two adds, or a character that is not whole yet
            other = self.own.after(b"", data)
            if self.own.text(other) == data:
                return other
        return ids

    def spelled(self, token: int) -> list[int]:
        """One of the target's tokens as the draft reads it; nothing of a special one that it does not have."""
        if token not in self._spelled:
            if (own := self.shared.get(token)) is not None:
                ids = [own]
            else:
                ids = self.own.longest_first(self.target.bytes.get(token, b""))[-MAX_PIECES:]
            self._spelled[token] = ids
        return self._spelled[token]
