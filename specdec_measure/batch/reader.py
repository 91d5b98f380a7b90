"""Several texts on one Llama-shaped model, read in one pass; each has its own length in the KV cache.

Rejected guesses leave the texts of a batch at different places. In a pass their tokens are rows of equal length,
filled up where one text has fewer; positions and masks are each text's own. What was filled up is written after the
text's end, where the next pass overwrites it. Proposals are chains, whose accepted tokens are in place already: to keep
them is to move a text's length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.runtime.architectures.llama import LlamaForward
from specdec_core.runtime.reader import Listener
from specdec_core.tree import TokenTree


class BatchReader:
    """One model with the KV caches of several texts.

    Args:
        lean: our forward of the model.
        vocabulary: number of its logits.
        texts: how many there are.
        capacity: the most tokens of one text ever in its cache, guesses included.

    Attributes:
        lengths: rows in each text's cache.
    """

    def __init__(self, lean: LlamaForward, vocabulary: int, texts: int, capacity: int) -> None:
        lean.prepare(capacity)
        weight = lean.embedding.weight
        self.lean, self.vocabulary, self.device = lean, vocabulary, weight.device
        # zeros, as in `kv.Store`: what a mask hides still has to be a number
        self.blocks = weight.new_zeros(len(lean.layers), 2, texts, lean.shared_heads, capacity, lean.width)
        self.lengths = [0] * texts
        self._blocked = torch.finfo(weight.dtype).min
        self._places = torch.arange(capacity, device=self.device)

    @torch.inference_mode()
    def prefill(self, text: int, tokens: Sequence[int]) -> None:
        """Read and keep tokens of one text."""
        for start in range(0, len(tokens), PREFILL_CHUNK):
            chunk = torch.tensor([tokens[start : start + PREFILL_CHUNK]], device=self.device)
            self._states(chunk, slice(text, text + 1))
            self.lengths[text] += chunk.shape[1]

    @torch.inference_mode()
    def read(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Read some tokens after each text, which keeps none of them yet; float32 logits (texts, n, V), n the most
        tokens of a text; a shorter one's last rows mean nothing."""
        states = self._states(self._filled(tokens), slice(None))
        logits: Tensor = self.lean.output(states)
        return logits.float().view(len(tokens), -1, self.vocabulary)

    @torch.inference_mode()
    def step(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Read and keep some tokens of each text; float32 logits (texts, V) after the last of each. Those of a text
        without tokens mean nothing."""
        states = self._states(self._filled(tokens), slice(None)).view(
            len(tokens), -1, self.lean.embedding.embedding_dim
        )
        last = torch.tensor([max(0, len(own) - 1) for own in tokens], device=self.device)
        logits: Tensor = self.lean.output(states[torch.arange(len(tokens), device=self.device), last])
        for text, own in enumerate(tokens):
            self.lengths[text] += len(own)
        return logits.float()

    def only(self, texts: Sequence[int]) -> None:
        """Go on with these texts, ascending."""
        if len(texts) < len(self.lengths):
            self.blocks = self.blocks[:, :, texts]
            self.lengths = [self.lengths[text] for text in texts]

    def _filled(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        count = max(map(len, tokens))
        return torch.tensor([[*own, *[0] * (count - len(own))] for own in tokens], device=self.device)

    def _states(self, tokens: Tensor, texts: slice) -> Tensor:
        """Read tokens int64 (texts, n) after the given texts; states (texts × n, d)."""
        lengths, (rows, count) = self.lengths[texts], tokens.shape
        total, heads = max(lengths) + count, self.lean.heads
        positions = torch.tensor(lengths, device=self.device)[:, None] + self._places[:count]
        mask = self.blocks.new_zeros(rows, 1, count, total)
        mask.masked_fill_(self._places[:total] > positions[:, None, :, None], self._blocked)
        own = torch.arange(rows, device=self.device)[:, None]

        def attention(turned: Tensor, block: Tensor) -> Tensor:
            """`block` is (2, texts, heads, rows, width)."""
            turned = turned.view(rows, count, -1, self.lean.width)
            block = block[:, texts]
            block[:, own, :, positions] = turned[:, :, heads:].unflatten(2, (2, -1))
            keys, values = block[..., :total, :]
            return self.lean.attend(turned[:, :, :heads].transpose(1, 2), keys, values, mask).flatten(0, 1)

        return self.lean.states(tokens.flatten(), positions.flatten(), self.blocks, attention)


class Slot:
    """One text of a batch as the `Reader` of a lane. The lane keeps and rewinds; passes are made by the batch, except
    the prompt's. A draft's pass hands its logits over in `logits`, for the lane's next `step`."""

    def __init__(self, batch: Batched, number: int) -> None:
        self.batch, self.number = batch, number
        self.vocabulary, self.device = batch.vocabulary, batch.lean.embedding.weight.device
        self.logits: Tensor | None = None

    @property
    def length(self) -> int:
        """Rows in this text's cache."""
        return self.batch.reader.lengths[self.number]

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read and keep tokens."""
        self.batch.reader.prefill(self.number, tokens)

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        """Is made by the batch."""
        raise AssertionError("the batch reads all its texts together")

    def step(self, tokens: Tensor) -> Tensor:
        """The logits of the pass that the batch has made."""
        logits, self.logits = self.logits, None
        assert logits is not None, "the batch makes a draft's passes"
        return logits

    def keep(self, positions: Sequence[int]) -> None:
        """Keep the first positions of the last pass; a chain's are in place."""
        self.batch.reader.lengths[self.number] += len(positions)

    def rewind(self, length: int) -> None:
        """Drop all but the first `length` kept tokens."""
        self.batch.reader.lengths[self.number] = length

    def synchronise(self) -> None:
        """Nothing runs on the side."""

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        """Is not offered."""
        raise AssertionError("a batch shows no states")


class Batched:
    """A model's part in a batch: it hands out slots, and reserves their cache with the first pass."""

    def __init__(self, lean: LlamaForward, vocabulary: int) -> None:
        self.lean, self.vocabulary = lean, vocabulary
        self.slots: list[Slot] = []
        self.capacity = 0
        self._reader: BatchReader | None = None

    def slot(self, capacity: int) -> Slot:
        """A further text, of up to `capacity` rows."""
        self.capacity = max(self.capacity, capacity)
        self.slots.append(Slot(self, len(self.slots)))
        return self.slots[-1]

    @property
    def reader(self) -> BatchReader:
        """The texts' caches."""
        if self._reader is None:
            # a short text may be filled up beyond its own guesses
            self._reader = BatchReader(self.lean, self.vocabulary, len(self.slots), self.capacity + 2)
        return self._reader

    def only(self, texts: Sequence[int]) -> None:
        """Go on with these texts, ascending; their slots are numbered anew."""
        self.reader.only(texts)
        self.slots = [self.slots[text] for text in texts]
        for number, slot in enumerate(self.slots):
            slot.number = number
