"""A model with hand-written distributions: for tests, and for lessons that need exact numbers.

models = scripted(lambda context: [0.5, 0.3, 0.2], draft=lambda context: [0.2, 0.3, 0.5])
trace = sd.decode(models, [0], sd.Settings(temperature=1.0, max_new_tokens=6))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from specdec_core.foundations.errors import ModelError
from specdec_core.models.bundle import Models
from specdec_core.record.schema import ModelInfo
from specdec_core.runtime.reader import Listener, Reader
from specdec_core.tree import TokenTree

NextProbs = Callable[[tuple[int, ...]], Sequence[float]]  # the tokens so far → the next token's probabilities


class ScriptedModel:
    """A `Model` that looks up its distributions.

    Args:
        next_probs: probabilities of the next token given all tokens before it; one entry per token of the vocabulary.
        vocabulary: their number.
        name: its name in traces.
    """

    def __init__(self, next_probs: NextProbs, vocabulary: int, name: str = "scripted") -> None:
        self.next_probs, self.vocabulary = next_probs, vocabulary
        self.info = ModelInfo(name, 0, "scripted")
        self.positions = 1_000_000
        self.kv_bytes = 0
        self.mask: int | None = None

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        """A fresh reader; like the real one it refuses to hold more than `capacity` tokens."""
        return ScriptedReader(self, capacity)


class ScriptedReader:
    """The `Reader` of a scripted model. Its cache is a list of tokens, of which the first `length` are kept."""

    def __init__(self, model: ScriptedModel, capacity: int) -> None:
        self.model, self.capacity = model, capacity
        self.vocabulary, self.device = model.vocabulary, torch.device("cpu")
        self.rows: list[int] = []
        self.length = 0
        self.passes = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self._write(self.length, tokens)
        self.length += len(tokens)

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        tokens = [root, *tree.tokens]
        if self.rows[self.length : self.length + known] != tokens[:known]:
            raise ValueError("these are not the positions that were read last")
        self._write(self.length + known, tokens[known:])
        self.passes += 1
        prefix = (*self.rows[: self.length], root)
        paths = [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(-1, len(tree))]
        return torch.stack([self._logits((*prefix, *path)) for path in paths[known:]])

    def step(self, tokens: Tensor) -> Tensor:
        self.prefill(tokens.tolist())
        self.passes += 1
        return self._logits(tuple(self.rows[: self.length]))

    def keep(self, positions: Sequence[int]) -> None:
        kept = [self.rows[self.length + position] for position in positions]
        self.rows[self.length : self.length + len(kept)] = kept
        self.length += len(kept)

    def rewind(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind a cache of {self.length} rows to {length}")
        self.length = length

    def _write(self, start: int, tokens: Sequence[int]) -> None:
        """Write a pass's rows; anything after them is garbage."""
        if start + len(tokens) > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} rows, {start + len(tokens)} are needed")
        self.rows[start:] = tokens

    def synchronise(self) -> None:
        return None

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        raise ModelError("A scripted model has no hidden states to watch.")

    def _logits(self, context: tuple[int, ...]) -> Tensor:
        return torch.tensor(self.model.next_probs(context), dtype=torch.float64).log().float()


class Letters:
    """A `Codec` whose tokens are the letters a, b, c …; ids beyond the alphabet show as ⟨id⟩."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text if 0 <= ord(letter) - ord("a") < self.vocabulary]

    def frame(self) -> tuple[list[int], list[int]]:
        return [], []

    def added(self) -> dict[str, tuple[int, bool]]:
        return {}

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.names(ids))

    def names(self, ids: Iterable[int]) -> list[str]:
        return [chr(ord("a") + token) if token < 26 else f"⟨{token}⟩" for token in ids]

    def split(self, text: str) -> list[int]:
        return self.encode(text)

    def spelled(self) -> dict[int, bytes]:
        return {token: name.encode() for token, name in enumerate(self.names(range(self.vocabulary)))}


class Syllables:
    """A `Codec` whose tokens are the given pieces of text; the longest piece that fits is taken."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def encode(self, text: str) -> list[int]:
        ids = []
        while text:
            fitting = [piece for piece in self.pieces if text.startswith(piece)]
            piece = max(fitting, key=len, default="")
            if piece:
                ids.append(self.pieces.index(piece))
            text = text[len(piece) or 1 :]
        return ids

    def split(self, text: str) -> list[int]:
        return self.encode(text)

    def frame(self) -> tuple[list[int], list[int]]:
        return [], []

    def added(self) -> dict[str, tuple[int, bool]]:
        return {}

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[token] for token in ids)

    def names(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[token] for token in ids]

    def spelled(self) -> dict[int, bytes]:
        return {token: piece.encode() for token, piece in enumerate(self.pieces)}


def scripted(
    target: NextProbs, draft: NextProbs | None = None, eos: Iterable[int] = (), bos: int | None = None
) -> Models:
    """Models from hand-written distributions over one small vocabulary."""
    vocabulary = len(target(()))
    return Models(
        codec=Letters(vocabulary),
        target=ScriptedModel(target, vocabulary, "scripted target"),
        draft=ScriptedModel(draft, vocabulary, "scripted draft") if draft else None,
        eos=frozenset(eos),
        bos=bos,
        machine="scripted",
    )
