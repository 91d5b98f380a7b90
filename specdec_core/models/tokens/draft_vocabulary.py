"""A draft vocabulary: the few thousand of the target's tokens that a head or a draft may guess.

The product with the output matrix over the whole vocabulary is most of a small head's work, and nearly all of what a
target writes are its most frequent tokens. EAGLE-3 heads (Li et al. 2025) name them in a tensor `d2t`: guess k means
the target's token k + d2t[k]. Only guesses of rare tokens are lost (FR-Spec, Zhao et al. 2025): the target still
checks each guess over its whole vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specdec_core.foundations.errors import ModelError
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.sampling import widen
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from specdec_core.runtime.reader import Listener, Reader

KEY, OTHER = "d2t", "t2d"
FILE = "draft_vocabulary.safetensors"  # next to the weights of a draft model that has one


def read(name: str, tensors: Mapping[str, Tensor], vocabulary: int) -> Tensor | None:
    """The target's token ids of a file's `d2t`, or of its `t2d` alone, int64 (k,) ascending; None where it has neither.

    Raises:
        ModelError: with one sentence, if they are not ascending ids below `vocabulary`, or the two do not agree.
    """
    listed = _listed(name, tensors[OTHER]) if OTHER in tensors else None
    if KEY not in tensors:
        ids = listed
        if ids is None or len(ids) == vocabulary:
            return None
    else:
        offsets = tensors[KEY]
        if offsets.ndim != 1 or offsets.is_floating_point() or not 0 < len(offsets) <= vocabulary:
            raise ModelError(
                f"'{name}' has a damaged draft vocabulary: d2t should be 1 to {vocabulary:,} whole numbers, got "
                f"{str(offsets.dtype).removeprefix('torch.')} of shape {tuple(offsets.shape)}."
            )
        ids = offsets.long() + torch.arange(len(offsets))
        if listed is not None and not torch.equal(listed, ids):
            raise ModelError(
                f"'{name}' has a damaged draft vocabulary: '{KEY}' and '{OTHER}' name different tokens. Export it "
                "again."
            )
    if int(ids[0]) < 0 or int(ids[-1]) >= vocabulary or bool((ids.diff() <= 0).any()):
        raise ModelError(
            f"'{name}' does not fit this target: its draft vocabulary should name ascending token ids below "
            f"{vocabulary:,}. Load the heads that were trained for it."
        )
    return ids


def _listed(name: str, marked: Tensor) -> Tensor:
    """The ids that a `t2d` marks, int64 (k,)."""
    if marked.ndim != 1 or marked.dtype != torch.bool:
        raise ModelError(
            f"'{name}' has a damaged draft vocabulary: {OTHER} should mark tokens in a list of yes and no, got "
            f"{str(marked.dtype).removeprefix('torch.')} of shape {tuple(marked.shape)}."
        )
    if not bool(marked.any()):
        raise ModelError(f"'{name}' has a damaged draft vocabulary: {OTHER} marks no token.")
    return marked.nonzero().flatten()


def offsets(ids: Tensor) -> Tensor:
    """Token ids int64 (k,) as a published `d2t`."""
    return ids - torch.arange(len(ids), device=ids.device)


def output_for(output: nn.Module, ids: Tensor | None, bits: int = 16) -> nn.Module:
    """From states (…, d) to logits of the draft vocabulary (…, k): the target's output matrix, or these rows of it in
    so many bits.

    Raises:
        ModelError: if the rows cannot be read, since the matrix has been packed.
    """
    if ids is None:
        return output
    weight = output.weight
    assert isinstance(weight, Tensor)
    if weight.is_meta:
        raise ModelError(
            "The target's output matrix has been packed and its rows cannot be read any more: load the heads together "
            "with the target (load_models(target, eagle=…, medusa=…))."
        )
    rows = nn.Linear(weight.shape[1], len(ids), bias=False, device="meta")
    rows.weight = nn.Parameter(weight.detach()[ids.to(weight.device)], requires_grad=False)
    arrange(rows, replace=True, bits=bits)
    return rows


class Guessing(nn.Module):
    """Base of heads that share the target's output matrix: they may guess all of its tokens, or some.

    A head calls `restrict` once, on creation; the draft vocabulary is then part of its state dict.
    """

    def restrict(self, ids: Tensor | None) -> None:
        """Let it guess the target's tokens `ids`, int64 (k,); None is all of them."""
        self.register_buffer(KEY, None if ids is None else offsets(ids))
        # the last target's output, and the part of it in use
        self._outputs: list[tuple[nn.Module, nn.Module]] = []

    @property
    def vocabulary(self) -> Tensor | None:
        """The target's tokens it may guess, int64 (k,); None is all of them."""
        stored: Tensor | None = getattr(self, KEY)
        return None if stored is None else stored + torch.arange(len(stored), device=stored.device)

    def output(self, target: nn.Module, bits: int = 16) -> nn.Module:
        """From states (…, d) to logits (…, k) of the tokens it may guess; `target` is the target's output matrix.
        `bits`: of a weight in a copy of its rows, when first asked for."""
        if not self._outputs or self._outputs[0][0] is not target:
            self._outputs[:] = [(target, output_for(target, self.vocabulary, bits))]
        return self._outputs[0][1]

    def output_rows(self, target: nn.Module) -> int:
        """How many rows of the target's output matrix a pass reads; 0 where it has one of its own."""
        if self.output(target) in self.modules():
            return 0
        weight = target.weight
        assert isinstance(weight, Tensor)
        return len(weight) if self.vocabulary is None else len(self.vocabulary)


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """A tokenizer's fingerprint: a digest of all tokens with their ids."""
    return sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()[:32]


def write(folder: Path, ids: Tensor, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write the draft vocabulary of a draft model: token ids int64 (k,) of the target's `tokenizer`."""
    save_file({KEY: offsets(ids)}, folder / FILE, metadata={"tokenizer": fingerprint(tokenizer)})
    (folder / FILE).chmod(0o644)  # safetensors writes files only their owner can read


def of_draft(source: str, tokenizer: PreTrainedTokenizerBase) -> Tensor | None:
    """The draft vocabulary of a draft model's folder, int64 (k,); None where it uses the target's whole vocabulary.

    Raises:
        ModelError: with one sentence, if it is damaged or names the tokens of another tokenizer.
    """
    file, name = Path(source) / FILE, Path(source).name
    if not file.is_file():
        return None
    try:
        tensors = load_file(file)
        with safe_open(file, "pt") as opened:
            made_for = (opened.metadata() or {}).get("tokenizer")
    except (SafetensorError, OSError):
        raise ModelError(
            f"'{name}' has a damaged draft vocabulary: {FILE} is not a whole safetensors file."
        ) from None
    if made_for != fingerprint(tokenizer):
        raise ModelError(
            f"'{name}' drafts in a part of another tokenizer's vocabulary. Choose a draft made for this target."
        )
    ids = read(name, tensors, len(tokenizer))
    if ids is None:
        raise ModelError(f"'{name}' has a damaged draft vocabulary: {FILE} holds no '{KEY}'.")
    return ids


class NarrowReader:
    """A draft model over a draft vocabulary, as a `Reader` over the target's.

    Its k-th token is the target's `ids[k]`; one more row stands for all other tokens. Logits come
    back over the target's vocabulary, −∞ (q = 0) for what the draft cannot guess.

    Args:
        reader: of the draft, over its own k + 1 tokens.
        ids: int64 (k,), ascending.
        vocabulary: number of the target's logits.
    """

    def __init__(self, reader: Reader, ids: Tensor, vocabulary: int) -> None:
        self.reader, self.vocabulary, self.device = reader, vocabulary, reader.device
        self.ids = ids.to(reader.device)
        self.own = torch.full((vocabulary,), len(ids), dtype=torch.int64)
        self.own[ids] = torch.arange(len(ids))
        self.names: list[int] = self.own.tolist()
        self.own = self.own.to(reader.device)

    @property
    def length(self) -> int:
        return self.reader.length

    def prefill(self, tokens: Sequence[int]) -> None:
        self.reader.prefill([self.names[token] for token in tokens])

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        own = TokenTree([self.names[token] for token in tree.tokens], tree.parents)
        return self._widen(self.reader.read(self.names[root], own, known))

    def step(self, tokens: Tensor) -> Tensor:
        return self._widen(self.reader.step(self.own[tokens]))

    def narrow_step(self, tokens: Tensor) -> Tensor:
        """`step` over the tokens `ids` alone: float32 (k,)."""
        return self.reader.step(self.own[tokens])[..., : len(self.ids)]

    def keep(self, positions: Sequence[int]) -> None:
        self.reader.keep(positions)

    def rewind(self, length: int) -> None:
        self.reader.rewind(length)

    def synchronise(self) -> None:
        self.reader.synchronise()

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        self.reader.watch(listener, layers)

    def _widen(self, logits: Tensor) -> Tensor:
        return widen(logits[..., : len(self.ids)], self.ids, self.vocabulary)
