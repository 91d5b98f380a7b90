"""The live page's engine in node, and how its records are compared with the decoder's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import specdec_core as sd
from app.live.files import vocabulary

HERE = Path(__file__).parent
NODE = next(
    filter(None, (shutil.which("node", path=str(Path(sys.executable).parent)), shutil.which("node"))), None
)
CLOSE = 1e-4  # of probabilities, entropies and thresholds
OWN = (
    "id",
    "created",
    "packages",
    "device",
    "machine",
    "race",
)  # of a header, what each program has for itself


def node(task: str, **job: Any) -> Any:
    """What run.mjs answers to a task."""
    assert NODE is not None
    given = json.dumps(
        {"task": task, "vocabulary": vocabulary(), "usual": sd.Settings().model_dump(mode="json"), **job}
    )
    command = [NODE, "--no-warnings", str(HERE / "run.mjs")]
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def lane(settings: sd.Settings) -> dict[str, Any]:
    """Settings as the engine takes them."""
    names = ("proposer", "rule", "draft_length", "max_new_tokens", "temperature", "seed")
    return {name: getattr(settings, name) for name in names}


def differences(core: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where two records differ, times and what names a program aside."""
    name = path.rpartition(".")[2]
    if name.endswith("_s") or name == "tokens_per_second" or path in {f".header.{own}" for own in OWN}:
        return
    if isinstance(core, dict) and isinstance(found, dict):
        if core.keys() != found.keys():
            yield f"{path}: {sorted(core.keys() ^ found.keys())}"
        for key in core.keys() & found.keys():
            yield from differences(core[key], found[key], f"{path}.{key}")
    elif isinstance(core, list) and isinstance(found, list):
        if len(core) != len(found):
            yield f"{path}: {len(core)} and {len(found)} entries"
        # among candidates of one probability, the order is nobody's
        if name == "id" and sorted(core) == sorted(found):
            return
        for at, pair in enumerate(zip(core, found, strict=False)):
            yield from differences(*pair, f"{path}[{at}]")
    elif (
        isinstance(core, float | int)
        and isinstance(found, float | int)
        and float in (type(core), type(found))
    ):
        if abs(core - found) > CLOSE:
            yield f"{path}: {core} and {found}"
    elif core != found:
        yield f"{path}: {core!r} and {found!r}"


def tie(core: dict[str, Any], found: dict[str, Any]) -> float | None:
    """Where the texts of two greedy records part, by how much the decoder preferred its token; None if they do not."""
    pairs = zip(core["output"]["ids"], found["output"]["ids"], strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return None
    places = [position for row in core["rounds"] for position in row["positions"]]
    first, second = places[at]["model_p"]["prob"][:2]
    return float(first - second)


def rounds(trace: dict[str, Any]) -> list[Any]:
    """What was guessed, how it was judged, and what came of it."""
    columns = ("token", "parent", "verdict")
    return [
        [*(row["nodes"][name] for name in columns), row["committed"], row["draft_passes"]]
        for row in trace["rounds"]
    ]
