"""What a GGUF file is: a model, or a companion of one.

A file's own metadata decide; on the hub only names are known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .header import PART, SUFFIX, GgufHeader

ORDER = ("q8_0", "q6_k", "q5_k_m", "q4_k_m")  # nearly exact ones first
NEXTN = re.compile(r"blk\.(\d+)\.nextn\.")
BLOCK = re.compile(r"blk\.(\d+)\.")

# architectures of llama.cpp's files that are no model by themselves
_COMPANIONS = {
    "clip": "a projector for pictures or sound (mmproj)",
    "mmproj": "a projector for pictures or sound (mmproj)",
    "imatrix": "an importance matrix (imatrix), which quantisers read",
    "controlvector": "a control vector",
    "eagle": "an EAGLE head",
    "eagle3": "an EAGLE-3 head",
    "dflash": "a DFlash head",
    "dspark": "a DSpark head",
}
_TYPES = {
    "adapter": "a LoRA adapter",
    "imatrix": _COMPANIONS["imatrix"],
    "mmproj": _COMPANIONS["clip"],
}
# words in the name of a file on the hub: never a model, and perhaps one (where every file has such a word, it is the
# model's own name)
_NEVER = re.compile(r"mmproj|mm[-_.]proj|^imatrix", re.IGNORECASE)
_PERHAPS = re.compile(
    r"(^|[-_.])(draft|drafter|eagle|eagle[-_.]?[123]|d[-_]?flash|d[-_]?spark|p[-_]?eagle|medusa|speculator|assistant|q?lora|adapter"
    r"|imat|imatrix|vocab|vocab[-_.]only|projector|clip|vae|vocoder|control[-_.]?vector|cvec)(?=[-_.])|^mtp(?=[-_.])",
    re.IGNORECASE,
)


def companion(header: GgufHeader) -> str | None:
    """What a file is if it is no model, in words; None for a model."""
    facts, kind = header.facts, header.architecture
    if found := _TYPES.get(str(facts.get("general.type", "")).lower()):
        return found
    if kind in _COMPANIONS:
        return _COMPANIONS[kind]
    if kind.endswith("-assistant"):
        return "a draft that reads its target's memory (an assistant)"
    if any(key.startswith("adapter.") for key in facts):
        return _TYPES["adapter"]
    if any(key.startswith("imatrix.") for key in facts):
        return _TYPES["imatrix"]
    if not header.tensors and facts.get("tokenizer.ggml.tokens"):
        return "a vocabulary without weights"
    modules = {at[1] for name in header.names if (at := NEXTN.match(name))}
    if modules and modules == {at[1] for name in header.names if (at := BLOCK.match(name))}:
        return "multi-token-prediction modules (MTP) without their model"
    return None


def best(files: Sequence[str]) -> str | None:
    """The file to take of a repository with several: a whole one before the first part of a split one, nearly exact
    quantisations first, and never a companion of the model as its name says."""
    names = [
        file
        for file in files
        if file.lower().endswith(SUFFIX) and "/" not in file and not _NEVER.search(file)
    ]
    names = [file for file in names if not _PERHAPS.search(file)] or names
    whole = [file for file in names if PART.fullmatch(file) is None]
    firsts = [file for file in names if (part := PART.fullmatch(file)) and int(part["number"]) == 1]
    for group in (whole, firsts):
        for kind in ORDER:
            for file in group:
                if kind in file.lower():
                    return file
        if group:
            return group[0]
    return None
