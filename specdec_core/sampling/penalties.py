"""How the text so far changes the next token's logits: the repetition penalty and the ban on repeated n-grams.

Both depend on all tokens before a place, so they differ per node of a tree: the text and the tokens on the path down
to it. They are applied to p and to q alike, before temperature and the cuts of `sampling.Warp`, in the order and with
the meaning of transformers' `generate`. A rule that is lossless for p is then lossless for the penalised p.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from specdec_core.foundations.lazy_torch import torch
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Penalties:
    """How logits depend on the text so far; the defaults change nothing.

    Attributes:
        repetition: of every token in the text so far, prompt included, positive logits are divided by this and negative
            ones multiplied (Keskar et al. 2019, with `generate`'s treatment of the sign); 1 is off.
        ngram: no n-gram of this many tokens occurs twice: what would complete one gets −∞; 0 is off.
    """

    repetition: float = 1.0
    ngram: int = 0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The penalties of a decode's settings; unset ones are off."""
        return cls(settings.repetition_penalty or 1.0, settings.no_repeat_ngram_size or 0)

    @property
    def off(self) -> bool:
        """Whether nothing depends on the text."""
        return self.repetition == 1.0 and self.ngram == 0

    def after(self, tokens: Sequence[int]) -> Past | None:
        """The `Past` these penalties need; None where they are off."""
        return None if self.off else Past(self, tokens)


class _Columns:
    """Where the logits of a text's tokens are, over one vocabulary; kept while the text grows.

    Args:
        vocabulary: as for `Past.penalised`; kept, so that no other can take its identity.
    """

    def __init__(self, vocabulary: Tensor | None) -> None:
        self.vocabulary = vocabulary
        tokens = [] if vocabulary is None else vocabulary.tolist()
        self._places = {token: column for column, token in enumerate(tokens)}
        self._seen = 0  # how many of the text's tokens have been looked up,
        self._found: Tensor | None = None  # and where they are, int64 (m,)

    def of(self, tokens: Iterable[int]) -> tuple[list[int], list[int]]:
        """Those of the tokens that the vocabulary has, and their columns."""
        if self.vocabulary is None:
            given = list(tokens)
            return given, given
        there = [token for token in tokens if token in self._places]
        return there, [self._places[token] for token in there]

    def of_text(self, seen: Mapping[int, None], device: torch.device) -> Tensor:
        """The columns of the text's different tokens, int64 (m,); those looked up before come first."""
        if self._found is None or self._found.device != device:
            self._seen, self._found = 0, torch.empty(0, dtype=torch.long, device=device)
        if len(seen) > self._seen:
            _, further = self.of(islice(seen, self._seen, None))
            self._seen = len(seen)
            self._found = torch.cat((self._found, torch.tensor(further, dtype=torch.long, device=device)))
        return self._found


class Past:
    """The text so far; penalises the logits after it and after any continuation.

    Args:
        penalties: what is applied.
        tokens: the text so far, prompt included; for an encoder–decoder what the decoder has read.
    """

    def __init__(self, penalties: Penalties, tokens: Sequence[int]) -> None:
        self.penalties = penalties
        self.length = 0
        self._seen: dict[int, None] = {}  # the different tokens, in order of appearance
        self._grams: dict[tuple[int, ...], list[int]] = {}  # first n − 1 tokens → the tokens that followed
        self._tail: list[int] = []  # the last n − 1 tokens
        self._columns: dict[int, _Columns] = {}  # by the identity of the vocabulary
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens that were committed."""
        size = self.penalties.ngram
        for token in tokens:
            self.length += 1
            self._seen[token] = None
            if size:
                if len(self._tail) == size - 1:
                    self._grams.setdefault(tuple(self._tail), []).append(token)
                self._tail = [*self._tail, token][-(size - 1) :] if size > 1 else []

    def extended(self, tokens: Iterable[int]) -> Past:
        """A new past: this text with `tokens` after it. This one is unchanged."""
        longer = Past(self.penalties, ())
        longer.length, longer._tail = self.length, list(self._tail)
        longer._seen = dict(self._seen)
        longer._grams = {start: list(ends) for start, ends in self._grams.items()}
        longer._columns = {name: copy(known) for name, known in self._columns.items()}
        longer.extend(tokens)
        return longer

    def penalised(
        self, logits: Tensor, paths: Sequence[Sequence[int]], vocabulary: Tensor | None = None
    ) -> Tensor:
        """The penalised logits; the given tensor is unchanged.

        Args:
            logits: float32 (m, V), each row the logits after the text and a path.
            paths: for each row the tokens between the text and it.
            vocabulary: the tokens that the columns belong to, int64 (V,) ascending; None is all of them.

        Returns:
            float32 (m, V). A row in which the n-gram ban would leave nothing is exempt from it: a distribution
            needs a token, and this can only happen with a vocabulary smaller than the text.
        """
        if self.penalties.repetition != 1.0:
            logits = self._discouraged(logits, paths, vocabulary)
        if self.penalties.ngram:
            logits = self._without_repeats(logits, paths, vocabulary)
        return logits

    def next(self, logits: Tensor, path: Sequence[int] = (), vocabulary: Tensor | None = None) -> Tensor:
        """`penalised` for one row: float32 (V,) → (V,)."""
        return self.penalised(logits.unsqueeze(0), [path], vocabulary).squeeze(0)

    def _discouraged(
        self, logits: Tensor, paths: Sequence[Sequence[int]], vocabulary: Tensor | None
    ) -> Tensor:
        """The repetition penalty, applied only to the columns of tokens that occur."""
        known = self._known(vocabulary)
        common = known.of_text(self._seen, logits.device)  # of every row
        new = dict.fromkeys(token for path in paths for token in path if token not in self._seen)
        fresh, further = known.of(new)
        columns = torch.cat((common, common.new_tensor(further))) if fresh else common
        own = logits.index_select(-1, columns)
        changed = torch.where(own < 0, own * self.penalties.repetition, own / self.penalties.repetition)
        if fresh and len(paths) > 1:  # a column beyond the common ones applies only to rows whose path has it
            number = {token: place for place, token in enumerate(fresh, start=len(common))}
            pairs = [
                (row, number[token]) for row, path in enumerate(paths) for token in path if token in number
            ]
            among = torch.zeros(own.shape, dtype=torch.bool)
            among[:, : len(common)] = True
            among[[row for row, _ in pairs], [column for _, column in pairs]] = True
            changed = torch.where(among.to(own.device), changed, own)
        return logits.index_copy(-1, columns, changed)

    def _without_repeats(
        self, logits: Tensor, paths: Sequence[Sequence[int]], vocabulary: Tensor | None
    ) -> Tensor:
        """The ban on repeated n-grams."""
        known = self._known(vocabulary)
        banned = [known.of(self._completing(path))[1] for path in paths]
        rows = [row for row, columns in enumerate(banned) for _ in columns]
        if not rows:
            return logits
        left = logits.index_put(
            (
                torch.tensor(rows, device=logits.device),
                torch.tensor([column for columns in banned for column in columns], device=logits.device),
            ),
            logits.new_tensor(-torch.inf),
        )
        empty = left.amax(-1, keepdim=True) == -torch.inf
        return torch.where(empty, logits, left)

    def _known(self, vocabulary: Tensor | None) -> _Columns:
        if id(vocabulary) not in self._columns:
            self._columns[id(vocabulary)] = _Columns(vocabulary)
        return self._columns[id(vocabulary)]

    def _completing(self, path: Sequence[int]) -> list[int]:
        """The tokens that would complete an n-gram which the text or the path already has."""
        size = self.penalties.ngram
        line = [*self._tail, *path]
        start = tuple(line[len(line) - size + 1 :])
        if len(line) < size - 1:
            return []
        inside = [
            line[end] for end in range(size - 1, len(line)) if tuple(line[end - size + 1 : end]) == start
        ]
        return [*self._grams.get(start, ()), *inside]


def paths_of(tree: TokenTree) -> list[list[int]]:
    """For each position of a pass (0 the root, i + 1 node i) the tokens from the first level down to it."""
    paths: list[list[int]] = [[]]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append([*paths[parent + 1], token])
    return paths
