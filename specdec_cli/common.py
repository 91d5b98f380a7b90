"""What all commands share: loading models, reading a prompt, writing a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from specdec_core.engine.choice import remark, unused_length
from specdec_core.foundations.errors import ModelError, PromptError, SpecdecError
from specdec_core.models.tokens.chat import Chat
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from . import render as cli_render
from .render import err

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models


def load(model: str | None, draft: str | None, **more: Any) -> Models:
    check_paths(model, draft, *more.values())
    from transformers.utils.logging import disable_progress_bar

    from specdec_core.models.loading import load_models

    disable_progress_bar()
    with err.status("loading models …") as status:
        return load_models(model, draft, say=lambda said: status.update(f"loading models: {said}"), **more)


def check_paths(*names: object) -> None:
    """Refuse a path to nothing, whole as it was typed; other names are looked up where models are loaded.

    Raises:
        ModelError: one sentence.
    """
    for name in names:
        if (
            isinstance(name, str)
            and (name.startswith(".") or Path(name).is_absolute())
            and not Path(name).exists()
        ):
            raise ModelError(f"There is no file or folder '{name}'. Check the path, or give a hub id.")


def read_prompt(prompt: str) -> str:
    if prompt != "-":
        return prompt
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise PromptError("Standard input is not UTF-8 text. Send the prompt as text.") from None


def print_start(models: Models, asked: str | Chat, json: str | None) -> None:
    """Say what an empty text begins from, unless only the trace may be printed."""
    if json != "-" and asked == "" and models.decoder_start is None:
        note = "the prompt is empty, so the text begins from the model's start token alone."
        err.print(Text.assemble(("note: ", "bold yellow"), note))


def ask_person(text: str) -> str:
    """The next words, typed at the terminal; empty once the input has ended."""
    err.print("\nWhat comes next? ", style="bold", end="")
    try:
        return input()
    except EOFError:
        return ""


def print_numbers(traces: dict[str, Trace]) -> None:
    """The table, and the note on lossy rules."""
    baseline = traces["none"].stats if len(traces) > 1 else None
    err.print(cli_render.numbers(traces, baseline))
    if note := cli_render.loss(traces.values()):
        err.print(note)
    for note in cli_render.loops(traces):
        err.print(note)


def print_remarks(lanes: list[Settings], json: str | None) -> None:
    """Warn about settings without effect, unless only the trace may be printed."""
    if json != "-":
        said_of = [about(lane) for lane in lanes for about in (remark, unused_length)]
        for said in dict.fromkeys(filter(None, said_of)):
            err.print(Text.assemble(("note: ", "bold yellow"), said))


def print_generation(models: Models, settings: Settings, json: str | None) -> None:
    """Say what the model's generation config requests and what is applied, unless only the trace may be printed."""
    if json != "-":
        for said in models.generation.remarks(settings):
            err.print(Text.assemble(("note: ", "bold yellow"), said))


def check_progress(progress: str) -> None:
    """
    Raises:
        SpecdecError: one sentence, if there is no such way to show progress.
    """
    if progress not in ("bar", "json"):
        raise SpecdecError(f"There is no progress '{progress}'; expected bar or json.")


def check_writable(json: str | None, what: str = "trace") -> None:
    """Refuse a file that cannot be written, before anything is computed; its content is kept until the end.

    Args:
        what: what would be written, for the sentence.

    Raises:
        SpecdecError: one sentence.
    """
    if json in (None, "-"):
        return
    path = Path(str(json))
    there = path.exists()
    try:
        path.open("a", encoding="utf-8").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise unwritable(json, error, what) from None


def unwritable(json: str | None, error: OSError, what: str = "trace") -> SpecdecError:
    reason = error.strerror or "unknown error"
    return SpecdecError(f"The {what} could not be written to '{json}': {reason}. Choose another file.")


def write(text: str, json: str, what: str = "trace") -> None:
    try:
        if json == "-":
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            return
        size = Path(json).write_bytes(text.encode())
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(json, error, what) from None
    err.print(Text(f"wrote {json} ({size:,} bytes)"))
