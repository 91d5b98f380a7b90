"""What `specdec fit` says: its refusals, its progress, its result and its report."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_cli import fit as cli_fit
from specdec_measure.analysis.advice import MIN_CASES
from specdec_measure.fitting import prompts as own
from specdec_measure.fitting.candidates import plain
from specdec_measure.fitting.state import FitCell, FitState
from specdec_measure.fitting.table import _why
from specdec_measure.fitting.verdict import judge
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase

from .test_fit import SETTINGS, filled
from .tiny import pair


def test_the_advice_for_a_damaged_file_works(tmp_path: Path) -> None:
    """Catches: “Take that line out” for the first line, without which the file is no fit's."""
    state = FitState.open(tmp_path, {"machine": "this"})
    state.add(
        FitCell("search", "some", MeasuredCase("own", "line 1", 1, "some", 0, tokens=3, seconds=1.5)), 2.0
    )
    whole = state.path.read_text()
    for damaged, way in (
        (1, "Delete the file to begin again, or choose"),
        (2, "Take that line out, or choose"),
    ):
        lines = whole.splitlines(keepends=True)
        lines[damaged - 1] = "{damaged\n"
        state.path.write_text("".join(lines))
        with pytest.raises(
            sd.SpecdecError, match=rf"^Line {damaged} of '.*' is damaged\. {way} another folder\.$"
        ):
            FitState.open(tmp_path, {"machine": "this"})
    del lines[1]
    state.path.write_text("".join(lines))
    assert not FitState.open(tmp_path, {"machine": "this"}).cells
    state.path.write_text(whole.partition("\n")[2])
    with pytest.raises(sd.SpecdecError, match="Choose another folder, or delete the file to begin again"):
        FitState.open(tmp_path, {"machine": "this"})
    state.path.unlink()
    assert not FitState.open(tmp_path, {"machine": "this"}).cells


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command in a folder with twelve prompts, on a tiny pair of models."""
    monkeypatch.setattr(cli_fit, "load", lambda *names, **more: pair("llama"))
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("\n".join("abc" * count for count in range(1, 13)))
    Path("few.txt").write_text("\n".join("abc" * count for count in range(1, 11)))
    return lambda *words: CliRunner().invoke(cli.app, ["fit", *words])


def flat(said: str) -> str:
    """What was printed, on one line: how long a terminal's lines are was found out when the first test began."""
    return " ".join(said.split())


RUN = ("--prompts", "mine.txt", "--out", "out", "--minutes", "0.1", "-n", "8", "--no-train", "--no-chat")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--minutes 0", "A fit takes 0.05 to 1,440 minutes, got 0."),
        ("--minutes -1", "A fit takes 0.05 to 1,440 minutes, got -1."),
        ("--wish foo", "A fit's wish is latency or throughput, got 'foo'."),
        (
            "--requests 4",
            "--requests counts for throughput only: add --wish throughput, or leave --requests out.",
        ),
        ("--wish throughput --requests 999", "A fit is for 1 to 256 requests at a time, got 999."),
    ],
)
def test_bad_values_are_refused_before_the_models_are_loaded(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, arguments: str, sentence: str
) -> None:
    """Catches: a wait for models that ends in a refusal, a number of requests that is ignored."""
    monkeypatch.setattr(cli_fit, "load", lambda *names, **more: pytest.fail("models were loaded"))
    found = command("--prompts", "mine.txt", "--out", "out", *arguments.split())
    assert found.exit_code == 2 and flat(found.stderr) == f"error: {sentence}" and not Path("out").exists()


def test_help_lists_what_can_be_used_and_how_many_prompts_it_takes(command: Callable[..., Result]) -> None:
    """Catches: options in the help that the command refuses, numbers in it that are no longer right."""
    listed = set(re.findall(r"--[a-z-]+", said := command("--help").output))
    assert not listed & set(cli_fit.SOUGHT.values()) and {"--wish", "--temperature", "--eagle"} <= listed
    assert (
        f"at least {own.MIN_PROMPTS}:" in said
        and f"fewer than {own.ENOUGH} a fit can call nothing faster" in said
    )
    for name in cli_fit.SOUGHT.values():
        assert "itself: leave" in flat(
            command(*RUN, *([name] if name == "--overlap" else [name, "9"])).stderr
        )


def test_few_prompts_are_said_to_be_few_at_the_start_and_in_the_report(
    command: Callable[..., Result],
) -> None:
    """Catches: minutes spent on a fit that can call nothing faster, a warning where it can."""
    everyone = [Case("own", str(at), str(at)) for at in range(own.ENOUGH)]
    assert len(own.split(everyone, 0, False).held_back) == MIN_CASES and not own.few(own.ENOUGH)
    assert len(own.split(everyone[1:], 0, False).held_back) < MIN_CASES
    said = "With 10 prompts the choice is tested on 5, and that is too few to call anything faster"
    found = command(*RUN, "--prompts", "few.txt", "--minutes", "0.05")
    assert flat(found.stderr).startswith(f"note: {said}") and said in Path("out/report.html").read_text()


def test_without_a_terminal_each_stage_is_a_line(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: minutes without a word, control characters in a file, a fit that goes on without saying so."""
    first = command(*RUN)
    lines = first.stderr.splitlines()
    assert first.exit_code == 0 and all(line.isprintable() and line.strip() for line in lines), lines
    stages = [line.partition(":")[0] for line in lines]
    assert stages[0] == "loading the models" and stages[1:4] == ["scouting", "search", "held back"]
    assert all(re.search(r"\(0\.\d min left\)$", line) for line in lines[1:5])
    monkeypatch.setattr(cli_fit, "EVERY_S", 0.0)
    again = command(*RUN, "--minutes", "0.2").stderr.splitlines()
    continued = r"continued: \d+ runs were measured before, in (0\.\d) minutes \((0\.\d) min left\)"
    said = re.fullmatch(continued, again[1])
    assert said and sum(map(float, said.groups())) == pytest.approx(0.2, abs=0.101)  # each is rounded
    assert len(again) > 2 * len(lines)


def test_the_table_and_the_report_explain_themselves(command: Callable[..., Result]) -> None:
    """Catches: texts of unknown length beside known ones, an order that looks wrong, words that the page on `fit` does
    not use."""
    assert command(*RUN).exit_code == 0
    rows = list(csv.DictReader(StringIO(Path("out/table.csv").read_text(encoding="utf-8"))))
    assert {row["tuning_tokens"] for row in rows if row["tuning_prompts"] != "0"} == {"8"}
    assert all(not row["tuning_tokens"] for row in rows if row["tuning_prompts"] == "0")
    page = (Path(sd.__file__).parents[1] / "docs/fit.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in rows[0])
    report = Path("out/report.html").read_text(encoding="utf-8")
    assert "one that was dropped early has few, and may show a higher figure" in report
    assert "after step" not in report and "80 %" not in report
    state, one = filled(Path("dropped"), [1.2])
    state.decide("step 2", [], 0.0)
    job: Any = SimpleNamespace(bench=SimpleNamespace(state=state), found=[one])
    fit: Any = SimpleNamespace(verdict=SimpleNamespace(choice=plain(SETTINGS)))
    assert _why(job, fit, one, None) == "in the worse half at halving 2" and "halving 2" in page
    state.decided = {"families": []}
    state.cells = {
        ("scouting", *key[1:]): replace(cell, stage="scouting") for key, cell in state.cells.items()
    }
    assert _why(job, fit, one, None) == "below 80% of the best scout's speed" and "its *scouts*" in page


def test_the_result_is_plain_english(tmp_path: Path) -> None:
    """Catches: two colons in a sentence, “1 of 1 texts loops”, an interval from a figure to the same figure."""
    state, one = filled(tmp_path / "lost", [0.22] * 7)
    said = judge(state, [one], plain(SETTINGS), 0).sentence
    assert said.startswith(
        "Plain decoding stays: the best candidate was Draft model, γ = 2, at 0.22× plain decoding on"
    )
    assert "(95% interval 0.22 at both ends)" in said and said.count(":") == 1
    state, one = filled(tmp_path / "loop", [1.5])
    for cell in state.cells.values():
        cell.measured.repeated = 0.9
    assert " The only text loops, which flatters" in judge(state, [one], plain(SETTINGS), 0).sentence
    state, one = filled(tmp_path / "loops", [1.5] * 2)
    for cell in state.cells.values():
        cell.measured.repeated = 0.9
    assert " 2 of 2 texts loop, which flatters" in judge(state, [one], plain(SETTINGS), 0).sentence
