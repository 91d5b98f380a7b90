"""Which target do heads learn from, and on which rows? The prepared data of the bundled models, or one's own text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from specdec_core.models import catalogue
from specdec_core.models.files.hub import check_present, load_model, load_tokenizer
from specdec_core.models.files.sources import locate
from training.batches import Batches
from training.data.mix import FOCUS
from training.data.tokenizer import load_tokenizer as own_tokenizer
from training.heads.frozen import Frozen
from training.loop import Plan, Source
from training.own_text import OwnText, read_texts
from training.pretrain import pick_device
from training.results.evaluate import heldout_rows

HELD_OUT_ROWS = 4  # of each source of the prepared data


def source_of(model: str) -> str:
    """The folder or hub id behind a name of the command line; models shipped in a package are converted first."""
    return locate(model)


def open_target(model: str, device: str) -> Frozen:
    """The target in float32, its weights frozen; a clear error if it cannot be loaded safely."""
    source, entry = source_of(model), catalogue.find(model)
    check_present(source)
    loaded = load_model(source, torch.device(device), torch.float32).requires_grad_(False)
    name = Path(source).name if Path(source).is_dir() else source
    # without AVX-512 a CPU converts each bfloat16 product to float32 first
    narrow = device != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512"
    return Frozen(loaded, entry.target if entry is not None else name, narrow)


def tokens_of(model: str, text: str) -> Tensor:
    """A text in the tokens of a target: int64 (n,)."""
    return torch.tensor(load_tokenizer(source_of(model)).encode(text))


def check_tokens(data: Path, model: str) -> None:
    """Raises ValueError if the prepared data is not in the target's tokens; heads would learn nothing from it."""
    tokens = load_tokenizer(source_of(model)).get_vocab()
    if not (data / "tokenizer.json").is_file() or own_tokenizer(data).get_vocab() != tokens:
        raise ValueError(
            f"The data in {data} is not in the tokens of this target. Prepare it with the target's tokenizer: "
            "python -m training prepare --tokenizer assets/models/specdec-target"
        )


def rows_for(model: str, texts: list[Path] | None, data: Path, plan: Plan) -> tuple[Source, Tensor]:
    """Training rows and held-out rows int64 (n, context + 1): of `texts`, else of the prepared data."""
    if texts:
        ids = tokens_of(model, read_texts(texts))
        own = OwnText(ids, plan.context, plan.batch, plan.seed)
        return own, own.heldout
    if model != catalogue.BUNDLED:
        raise ValueError(
            "The prepared data is in the bundled models' tokens: give --text for another target."
        )
    check_tokens(data, model)
    batches = Batches(data, plan.context, plan.batch, plan.seed, FOCUS if plan.focus else None)
    rows = heldout_rows(data, plan.context + 1, HELD_OUT_ROWS)
    return batches, torch.cat(list(rows.values()))


def opened(
    model: str, device: str, texts: list[Path] | None, runs: Path, plan: Plan, most: int
) -> tuple[Frozen, Source, Tensor]:
    """The target, the rows to learn from, and at most so many to measure on, of all sources alike."""
    target = open_target(model, pick_device(device))
    batches, heldout = rows_for(model, texts, runs / "data", plan)
    return target, batches, heldout[:: -(-len(heldout) // most)]


def fitting(model: str, texts: list[Path] | None, runs: Path, plan: Plan) -> Tensor:
    """Other rows, to which the matrices of a new head are fitted."""
    rows, _ = rows_for(model, texts, runs / "data", replace(plan, seed=plan.seed + 1))
    return torch.cat([rows.next() for _ in range(8)])
