"""Which files hold a model's weights: `model.safetensors`, else those that `model.safetensors.index.json` names.

A folder or a repository may have others beside them: the maker's own layout (`consolidated.safetensors`), adapters,
heads, another precision. They are not read, not counted and not downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_core.foundations.errors import ModelError

from .load_errors import no_weights, short

if TYPE_CHECKING:
    from torch import Tensor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SAFETENSORS = ".safetensors"


def of_folder(folder: Path) -> list[Path]:
    """The weight files of a folder.

    Raises:
        ModelError: if there are none, or one that the index names is missing.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    index = folder / INDEX
    if not index.is_file():
        raise ModelError(no_weights(folder.name, [path.name for path in folder.glob("*") if path.is_file()]))
    files = [folder / name for name in listed(index, folder.name)]
    for file in files:
        if not file.is_file():
            raise ModelError(
                f"'{folder.name}' lacks the weights file '{file.name}', which its {INDEX} names. Fetch it again."
            )
    return files


def listed(index: Path, name: str) -> list[str]:
    """The names of the files that an index lists; `name` is the model's, for a refusal.

    Raises:
        ModelError: if it is not such an index.
    """
    try:
        places = json.loads(index.read_bytes())["weight_map"]
        files = sorted({str(file) for file in places.values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"The {INDEX} of '{name}' lists no weights ('weight_map'). Fetch it again."
        ) from error
    if not files or any(Path(file).name != file for file in files):
        raise ModelError(f"The {INDEX} of '{name}' names no files beside it. Fetch it again.")
    return files


def needed(names: Collection[str], of_index: Collection[str] | None) -> list[str]:
    """Of the files of a repository those to download: without weights that loading does not read. `of_index` are those
    that its index lists, if it has one."""
    weights = {SINGLE} if SINGLE in names else set(of_index) if of_index is not None else None
    return [name for name in names if not name.endswith(SAFETENSORS) or weights is None or name in weights]


def find(source: str, key: str) -> Tensor | None:
    """A tensor of a model's files, by its name or the end of it: transformers may put a model's prefix before names.
    None where no file here has it."""
    from huggingface_hub import try_to_load_from_cache
    from safetensors import safe_open

    if Path(source).is_dir():
        files = of_folder(Path(source))
    else:
        index = try_to_load_from_cache(source, INDEX)
        names = listed(Path(index), short(source)) if isinstance(index, str) else [SINGLE]
        found = (try_to_load_from_cache(source, name) for name in names)
        files = [Path(file) for file in found if isinstance(file, str)]
    for file in files:
        with safe_open(str(file), framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                if key == name or key.endswith(f".{name}"):
                    tensor: Tensor = opened.get_tensor(name)
                    return tensor
    return None
