"""Which models go together: the family that ships with the repository, and pairs of the hub that share a tokenizer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Entry:
    """A target with its usual draft, and perhaps a larger one. All `parameters` are in millions."""

    name: str
    title: str
    target: str
    draft: str | None
    parameters: float
    draft_parameters: float
    note: str
    larger_draft: str | None = None

    @property
    def bundled(self) -> bool:
        """Whether its weights ship with the repository, so that no network is needed."""
        return self.name == BUNDLED

    @property
    def download_bytes(self) -> int:
        """About how much is downloaded: 2 bytes per parameter in 16 bits (4 for the older GPT-2, OPT and T5 files)."""
        width = 4 if self.target.startswith(("openai-community/", "facebook/", "google-t5/")) else 2
        return 0 if self.bundled else int((self.parameters + self.draft_parameters) * 1e6 * width)


_ENTRIES = (
    Entry(
        BUNDLED, "Specdec family (bundled)", "specdec-target", "specdec-draft", 7.9, 0.9, "Ships with the app; CPU.",
        larger_draft="specdec-draft-large",
    ),
    Entry(
        "gpt2", "GPT-2 and DistilGPT-2", "openai-community/gpt2", "distilbert/distilgpt2", 124, 82,
        "The classic pair; the draft has half the layers, so there is little to win.",
    ),
    Entry(
        "gpt2-large", "GPT-2 large and DistilGPT-2", "openai-community/gpt2-large", "distilbert/distilgpt2", 774, 82,
        "The same draft with a target nine times as large.",
    ),
    Entry(
        "qwen3-1.7b", "Qwen3 1.7B and 0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B", 2032, 752,
        "A current pair with a chat template.",
    ),
    Entry(
        "qwen2.5-1.5b", "Qwen2.5 1.5B and 0.5B Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct",
        1544, 494, "Instruction-tuned, good at code and copying.",
    ),
    Entry(
        "smollm2-1.7b", "SmolLM2 1.7B and 135M", "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct", 1711, 135, "A draft of a twelfth of the target.",
    ),
    Entry(
        "smollm2-360m", "SmolLM2 360M and 135M", "HuggingFaceTB/SmolLM2-360M-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct", 362, 135, "Small enough for a laptop.",
    ),
    Entry(
        "opt-1.3b", "OPT 1.3B and 125M", "facebook/opt-1.3b", "facebook/opt-125m", 1316, 125,
        "An older pair; its files on the hub may be pickles, which are refused.",
    ),
    Entry(
        "pythia-1.4b", "Pythia 1.4B and 70M", "EleutherAI/pythia-1.4b", "EleutherAI/pythia-70m", 1415, 70,
        "GPT-NeoX layout; the draft's output matrix is padded to another width.",
    ),
    Entry(
        "t5-base", "T5 base and small", "google-t5/t5-base", "google-t5/t5-small", 223, 60,
        "Encoder–decoder; begin with a task, as in 'translate English to German: …' or 'summarize: …'.",
    ),
)  # fmt: skip


def entries() -> list[Entry]:
    """The catalogue, the bundled family first."""
    return list(_ENTRIES)


def find(name: str) -> Entry | None:
    """The entry of that name or target id; short names such as 'gpt2' work too."""
    return next((entry for entry in _ENTRIES if name in (entry.name, entry.target)), None)


def bundled_folder() -> Path:
    """Where the bundled weights lie; `SPECDEC_BUNDLED` names another folder of the same layout."""
    given = os.environ.get("SPECDEC_BUNDLED")
    return Path(given) if given else Path(__file__).resolve().parent.parent / "assets" / "models"
