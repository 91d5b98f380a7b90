"""Medusa heads for a target that has none, trained on what it answers to some of the person's own prompts.

The trainer is the lab's own `training` in a process of its own, which loads the target again; its run is kept in the
fit's folder, so a fit that was stopped goes on with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.paths import root
from specdec_core.models.bundle import HubModel, Models
from specdec_core.models.heads import load_heads
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_measure.sweep.cases import Case

from .bench import FitStopped

if TYPE_CHECKING:
    from .tuning import Answers, Tuning

NAME, TEXT, RUNS, LOG = "medusa", "answers.txt", "training", "training.log"
MIN_TRAINING_S = 60.0
STARTING_S = 15.0  # of a process that imports torch and loads the target
WRITING = 0.4  # of the time
CONTEXT = 64  # tokens of a row
POLL_S = 0.2


def why_not(models: Models) -> str | None:
    """Why no heads are trained for these models, as a sentence; None where they can be."""
    if "medusa" in models.heads:
        return "Medusa heads were loaded."
    if not isinstance(models.target, HubModel) or not isinstance(models.codec, HubCodec):
        return "Heads are trained for causal language models of transformers only."
    if not (root() / "training").is_dir() or find_spec("tqdm") is None:
        return "Training heads needs more packages: pip install 'specdec-lab[train]'."
    return None


def train(work: Tuning, cases: Sequence[Case], target: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Write, train and save heads below `folder`; what to report, with "why_not" where there are none after all.

    Raises:
        Stopped: what was trained so far is kept for the next session.
    """
    began = time.monotonic()
    answers = list(work.written(cases, began + WRITING * seconds))
    text = _text(work.models, answers)
    (folder / TEXT).write_text(text, encoding="utf-8")
    left = seconds - (time.monotonic() - began) - STARTING_S
    target = str(Path(target).resolve()) if Path(target).exists() else target  # it runs in another folder
    command = [
        "medusa", "--model", target, "--text", TEXT, "--soft", "--context", str(CONTEXT), "--runs", RUNS,
        "--minutes", f"{max(1.0, left) / 60:.3f}", "--out", NAME, "--device", work.models.device,
    ]  # fmt: skip
    with (folder / LOG).open("w", encoding="utf-8") as log:
        process = _start(command, folder, log)
        ended = _watch(process, work, began + seconds)
    if process.returncode != 0 or not (folder / NAME / "config.json").is_file():
        said = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return {
            "why_not": f"Training heads failed: {said[-1][:300] if said else 'without a word'} (see {LOG})."
        }
    tokens = sum(int(one.judged.sum()) for one in answers)
    return {"seconds": round(ended - began, 1), "tokens": tokens, "prompts": len(cases)}


def load(models: Models, folder: Path) -> dict[str, Any]:
    """All heads of the models, the trained ones among them."""
    return {**models.heads, **load_heads(models.causal_target, {"medusa": str(folder)})}


def _text(models: Models, answers: Sequence[Answers]) -> str:
    """Prompts and answers as text that encodes to what the target read and wrote."""
    assert isinstance(models.codec, HubCodec)
    texts = []
    for one in answers:
        start = one.ids.shape[1] - one.judged.shape[1]
        for ids, judged in zip(one.ids.tolist(), one.judged.sum(1).tolist(), strict=True):
            texts.append(str(models.codec.tokenizer.decode(ids[: start + judged])))
    return "\n\n".join(texts)


def _start(command: Sequence[str], folder: Path, log: Any) -> subprocess.Popen[bytes]:
    """`python -m training`, from the lab's own folder; in a session of its own, as Ctrl+C is passed on by us."""
    path = [str(root()), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "training", *command],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, stdout=log, stderr=log,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _watch(process: subprocess.Popen[bytes], work: Tuning, until: float) -> float:
    """Wait for the end, and when it came; at `until`, or where the person stops, the trainer writes what it has."""
    asked = stopped = False
    while process.poll() is None:
        work.say(f"Medusa heads, {max(0.0, until - time.monotonic()):.0f} seconds left")
        stopped = stopped or work.cancelled()
        if not asked and (stopped or time.monotonic() > until):
            process.terminate()  # not SIGINT, which is ignored in what a shell started with "&"
            asked = True
        time.sleep(POLL_S)
    if stopped:
        raise FitStopped
    return time.monotonic()
