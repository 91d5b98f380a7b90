"""Do plot, tables and command line say what they should?"""

from __future__ import annotations

import json
import math
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from specdec_measure import testing
from training import cli
from training.results import figures
from training.results.card import loop_words, measure, table, trained_before, write_card
from training.results.measure import grouped
from training.results.plot import loss_plot, read_heldout, read_losses, smooth

MODELS = Path(__file__).resolve().parents[2] / "assets" / "models"


def test_plot_is_valid_svg_with_every_curve() -> None:
    curve = [(step * 8192, 8 / (1 + step / 50)) for step in range(10, 2000, 10)]
    root = ET.fromstring(loss_plot({"target": curve, "draft": curve[:90]}))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2
    assert len(smooth(curve)) <= 300


def test_heldout_losses_of_runs_in_a_row_add_up(tmp_path: Path) -> None:
    """Catches: a second run drawn over the first, rows without held-out losses taken for such."""
    logs = [tmp_path / name for name in ("one", "two")]
    row = '{{"tokens": {0}, "loss": 1}}\n{{"tokens": {0}, "heldout": {{"code": {1}}}}}\n'
    logs[0].write_text(row.format(10, 3) + row.format(20, 2))
    logs[1].write_text(row.format(5, 1))
    assert read_heldout(logs) == {"code": [(10, 3), (20, 2), (25, 1)]}


def test_plot_without_a_log_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="train this model first"):
        read_losses(tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match="nothing to plot"):
        loss_plot({"target": []})


def test_loops_enter_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A target that counts to 4 again and again, and one that counts on. Catches: another definition than the app's, a
    copy of the prompt left out, a loop let in."""

    def again(context: tuple[int, ...]) -> list[float]:
        return [1.0 if token == (sum(context[-1:]) + 1) % 4 else 0.0 for token in range(200)]

    def on(context: tuple[int, ...]) -> list[float]:
        return [1.0 if token == (sum(context[-1:]) + 1) % 200 else 0.0 for token in range(200)]

    content = {"story": {"prompt": [{"name": "one", "text": "a"}]}}
    monkeypatch.setattr(figures, "load_prompts", lambda folder: content)
    [looped] = figures.read_prompts(testing.scripted(again), tmp_path)
    [other] = figures.read_prompts(testing.scripted(on), tmp_path)
    assert (looped.repeated, looped.enters) == (124 / 128, False)
    assert (other.repeated, other.enters) == (0.0, True)


def test_the_card_says_by_which_definition_its_loops_were_left_out() -> None:
    """Catches: today's definition printed above figures that were measured with another."""
    assert loop_words({}) == "repeats less than 20% of its 8-grams"
    assert loop_words({"loop": {"run": 16, "share": 0.2}}).startswith(
        "has less than 20% of its tokens in runs of 16"
    )


def test_the_card_outlives_the_training_logs(tmp_path: Path) -> None:
    """On a machine where nothing was trained: checkpoints and logs do not ship. Catches: an empty table of runs, the
    commands lost, plots overwritten with nothing, hours of measuring before the card cannot be written."""
    models = tmp_path / "models"
    shutil.copytree(MODELS, models, ignore=shutil.ignore_patterns("*.safetensors", "tokenizer.json"))
    shipped = json.loads((models / "measurements.json").read_text(encoding="utf-8"))
    plots = [models / name for name in ("training-loss.svg", "heldout-loss.svg")]
    drawn = [plot.read_bytes() for plot in plots]
    before = trained_before(models)
    assert before["commands"] == shipped["commands"] and len(before["commands"]) > 10
    assert before["runs"].keys() >= shipped["runs"].keys() | {"eagle3", "mtp"}
    assert {name: before["runs"][name] for name in shipped["runs"]} == shipped["runs"]
    write_card(models, shipped | before, {})
    assert [plot.read_bytes() for plot in plots] == drawn
    card = (models / "README.md").read_text(encoding="utf-8")
    assert "| target-3 | 1,702 | 13,942,784 |" in card and "| eagle3 | 19,290 | 39,505,920 |" in card
    with pytest.raises(ValueError, match=r"no prepared text in .*run `prepare`"):
        measure(models, tmp_path / "data", tmp_path, {}, [], "today")


def test_numbers_and_tables() -> None:
    found = grouped(
        {"x": (math.log(2) * 40, 12, 10), "y": (math.log(2) * 20, 6, 20)}, {"x": "code", "y": "code"}
    )
    assert found["code/x"]["bits_per_byte"] == pytest.approx(4.0)
    assert found["code"]["bits_per_byte"] == pytest.approx(2.0)
    assert found["code"]["loss"] == pytest.approx(math.log(2) * 60 / 18)
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["pretrain", "giant", "--minutes", "1"],
            "Unknown model 'giant': expected one of target, draft, draft-large.",
        ),
        (["export", "draft"], "train this model first"),
        (["prepare"], "run the `tokenizer` stage first"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["training", *arguments, "--runs", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    error = capsys.readouterr().err
    assert stopped.value.code == 1
    assert message in error
    assert "Traceback" not in error
