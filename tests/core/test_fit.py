"""`specdec fit`: prompts, the search, its state, the test on prompts held back, and what it writes."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_core.engine.choice import check
from specdec_measure.fitting import prompts as own
from specdec_measure.fitting.bench import Bench, Clock, FitStopped
from specdec_measure.fitting.candidates import _SPACE, UNTRIED, Candidate, candidates, plain, variants
from specdec_measure.fitting.report import _written
from specdec_measure.fitting.search import FINALISTS, order, race, ranked, search
from specdec_measure.fitting.state import FitCell, FitState, Stage
from specdec_measure.fitting.verdict import judge
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase

from .tiny import pair

LINES = [f"prompt {word}" for word in "one two three four five six seven eight".split()]
SETTINGS = sd.Settings(max_new_tokens=16)


def cases(count: int) -> list[Case]:
    return [Case("own", f"line {number}", f"text {number}") for number in range(count)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.txt", "\n\n".join(LINES) + "\r\n"),
        ("mine.jsonl", "\n".join(json.dumps({"prompt": line}) for line in LINES)),
        ("mine.csv", "id,prompt\n" + "\n".join(f'{at},"{line}"' for at, line in enumerate(LINES))),
    ],
)
def test_prompts_are_read_from_each_format_and_once_each(tmp_path: Path, name: str, content: str) -> None:
    """Catches: an empty line or a second copy that becomes a prompt, which would be searched and tested on."""
    file = tmp_path / name
    file.write_text(content, encoding="utf-8-sig")
    assert [case.prompt for case in own.read(file)] == LINES
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, line in enumerate([*LINES, LINES[0]]):
        (folder / f"{number}.{'md' if number % 2 else 'txt'}").write_text(line + "\n")
    (folder / "other.py").write_text("left out")
    assert sorted(case.prompt for case in own.read(folder)) == sorted(LINES)
    assert [case.prompt for case in own.read(LINES)] == LINES


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("mine.pdf", b"%PDF", r"'.*mine\.pdf' is not a file of prompts\. Give a text file"),
        ("mine.txt", b"one\ntwo\none\ntwo", r"needs at least 4 different prompts, .* has 2\."),
        ("mine.txt", b"caf\xe9\n" * 9, r"not UTF-8 text\. Save them as UTF-8\."),
        ("mine.txt", b"x" * 20_001 + b"\n", r"'line 1' has 20,001 characters; at most 20,000"),
        ("mine.csv", b"text\na\nb\n", r"has no column 'prompt'\."),
        ("mine.jsonl", b"nothing", r"Line 1 of the prompts is not JSON\."),
        ("gone.txt", None, r"could not be read from '.*gone\.txt': No such file"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(sd.PromptError, match=sentence):
        own.read(tmp_path / name)


def test_no_prompt_is_in_two_parts_of_the_split() -> None:
    """Catches: a choice that is tested on what it was made by, or a draft compared on what it was trained on."""
    everyone = cases(13)
    for training in (False, True):
        split = own.split(everyone, 7, training)
        parts = [*split.training, *split.tuning, *split.held_back]
        assert sorted(parts, key=everyone.index) == everyone and len(split.held_back) == 7
        assert len(split.training) == (3 if training else 0)
        assert split == own.split(everyone, 7, training)
    assert own.split(everyone, 8, False) != own.split(everyone, 7, False)


class Ticking(Clock):
    """A clock on which only cells take time, a second each."""

    @property
    def spent(self) -> float:
        return self.before


class Scripted(Bench):
    """A bench whose candidates have the speeds of a table, with noise from prompt to prompt."""

    table: dict[str, float]
    noise: random.Random

    def _cell(self, stage: Stage, case: Case, repeat: int, lane: Candidate, tokens: int) -> FitCell:
        if self.cancelled():
            raise FitStopped
        self.clock.before += 1.0
        speed = self.table.get(lane.label, 1.0) * self.noise.lognormvariate(0.0, 0.08)
        row = MeasuredCase(case.family, case.name, 0 if lane is self.plain else 1, lane.label, repeat)
        row.tokens, row.seconds, row.tokens_per_pass, row.text_sha = 32, 32 / speed, 3.0, "same"
        return FitCell(stage, lane.label, row)


def scripted(
    folder: Path, seed: int, budget: float, cancelled: Callable[[], bool] = lambda: False
) -> Scripted:
    """Each family of candidates has a speed, and each of its members most of it."""
    found, _ = candidates(pair("llama"), SETTINGS)
    draw = random.Random(seed)
    families = {one.family: draw.uniform(0.6, 2.0) for one in found}
    bench = Scripted(
        {}, plain(SETTINGS), FitState.open(folder, {}), Ticking(budget), cancelled, lambda ahead: None
    )
    bench.table = {one.label: families[one.family] * draw.uniform(0.85, 1.0) for one in found}
    bench.noise = random.Random(seed + 1)
    return bench


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_one_near_the_best_with_a_fraction_of_the_runs(tmp_path: Path, seed: int) -> None:
    """Against the known best of a table. Catches: a half that is dropped at the wrong end, scores over different
    prompts, and a search that measures everything everywhere."""
    bench = scripted(tmp_path, seed, budget=160.0)
    found, _ = candidates(pair("llama"), SETTINGS)
    finalists = search(bench, found, cases(6), 160.0, False)
    best = max(bench.table.values())
    assert bench.table[finalists[0].label] >= 0.93 * best
    assert max(bench.table[one.label] for one in finalists) >= 0.95 * best
    assert len(finalists) == FINALISTS and bench.clock.spent <= 160.0
    assert len(bench.state.cells) < 6 * len(found)


def test_a_search_that_was_stopped_goes_on_and_measures_nothing_twice(tmp_path: Path) -> None:
    """Catches: a fit that begins again, or that drops other candidates the second time."""
    found, _ = candidates(pair("llama"), SETTINGS)
    whole = scripted(tmp_path / "whole", 3, 160.0)
    finalists = search(whole, found, cases(6), 160.0, False)

    first = scripted(tmp_path / "cut", 3, 160.0)
    first.cancelled = lambda: first.clock.spent >= 70.0
    with pytest.raises(FitStopped):
        search(first, found, cases(6), 160.0, False)
    kept = dict(first.state.cells)
    assert len(kept) == 70
    second = scripted(tmp_path / "cut", 3, 160.0)
    second.clock.before, second.noise = second.state.spent, first.noise
    assert second.state.cells == kept and second.clock.before == 70.0
    again = search(second, found, cases(6), 160.0, False)
    assert kept.items() <= second.state.cells.items() and second.clock.spent <= 160.0
    best = max(whole.table.values())
    assert min(whole.table[one.label] for one in (again[0], finalists[0])) >= 0.93 * best

    spent = second.clock.spent
    assert search(second, found, cases(6), 160.0, False) == again and second.clock.spent == spent
    second.state.plan(5.0)  # more time: decided anew, and nothing that is known is measured again
    longer = FitState.open(tmp_path / "cut", {})
    assert not longer.decided and longer.cells == second.state.cells


def test_a_state_survives_a_torn_line_and_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    """Catches: a killed fit that cannot go on; figures of two fits in one file."""
    state = FitState.open(tmp_path, {"machine": "this"})
    cell = FitCell("search", "some", MeasuredCase("own", "line 1", 1, "some", 0, tokens=3, seconds=1.5), 0.25)
    state.add(cell, 2.0)
    state.decide("families", ["some", "other"], 3.0)
    with state.path.open("a") as file:
        file.write('{"cell": {"stage"')
    again = FitState.open(tmp_path, {"machine": "this"})
    assert again.cells == {cell.key: cell} and again.decided == {"families": ["some", "other"]}
    assert again.spent == 3.0 and len(state.path.read_bytes().splitlines()) == 3
    with pytest.raises(sd.SpecdecError, match="holds a fit with other hardware"):
        FitState.open(tmp_path, {"machine": "another"})
    with state.path.open("a") as file:
        file.write('{"cell": {"stage": "search"}}\n')
    with pytest.raises(sd.SpecdecError, match=r"^Line 4 of '.*' is damaged\."):
        FitState.open(tmp_path, {"machine": "this"})


def filled(folder: Path, speedups: Sequence[float], tuning: float = 1.5) -> tuple[FitState, Candidate]:
    """One finalist with these speedups on held-back prompts, twice each, and one on a prompt of the search."""
    state = FitState.open(folder, {})
    one, usual = candidates(pair("llama"), SETTINGS)[0][0], plain(SETTINGS)
    cells: list[tuple[Stage, str, int, float]] = [("search", "tuned", 0, tuning)]
    cells += [
        ("held back", f"held {at}", turn, ratio) for at, ratio in enumerate(speedups) for turn in (0, 1)
    ]
    for stage, name, turn, ratio in cells:
        for label, lane, speed in ((usual.label, 0, 10.0), (one.label, 1, 10.0 * ratio)):
            row = MeasuredCase(
                "own", name, lane, label, turn, tokens=20, seconds=20 / speed, tokens_per_pass=ratio
            )
            state.add(FitCell(stage, label, row), 0.0)
    return state, one


def test_the_reported_figure_is_that_of_the_prompts_held_back(tmp_path: Path) -> None:
    """Catches: the search's own figure, which flatters, in the sentence or the interval."""
    speedups = [1.2, 1.3, 1.25, 1.2, 1.3, 1.25, 1.2]
    state, one = filled(tmp_path, speedups, tuning=9.0)
    found = judge(state, [one], plain(SETTINGS), 0)
    assert found.choice is one and found.pair is not None and found.pair.cases == 7
    assert found.pair.ratio == pytest.approx(1.2420, abs=1e-3) and found.pair.low > 1.2
    assert "1.24× plain decoding on 7 held-back prompts, measured (95% interval" in found.sentence
    assert "9.0" not in found.sentence and found.tested[0].tuning == pytest.approx(9.0)


def test_scores_of_one_candidate_do_not_outrank_those_of_all(tmp_path: Path) -> None:
    """Where the time ended in the middle of a turn. Catches: a winner that is the only one with a score."""
    bench = scripted(tmp_path, 5, budget=0.0)
    field = candidates(pair("llama"), SETTINGS)[0][:3]
    for speed, one in zip((1.0, 1.2, 1.9), field, strict=True):
        bench.table[one.label] = speed
    bench.noise = random.Random()
    bench.noise.lognormvariate = lambda mu, sigma: 1.0  # type: ignore[method-assign]
    assert bench.turn("scouting", cases(1)[0], 0, field, 100.0)
    assert not bench.turn("search", cases(1)[0], 0, field, bench.clock.spent + 2.0)
    assert [one.label for one in ranked(bench, field)] == [one.label for one in reversed(field)]


def test_each_turn_begins_with_another_lane(tmp_path: Path) -> None:
    """Catches: plain decoding measured first on every prompt, as the report denies."""
    bench = scripted(tmp_path, 5, budget=100.0)
    field = candidates(pair("llama"), SETTINGS)[0][:2]
    race(bench, "held back", field, order(cases(4)), 12.0, 12.0)
    lanes = [cell.candidate for cell in bench.state.cells.values()]
    assert lanes[::3] == [bench.plain.label, field[0].label, field[1].label, bench.plain.label]


@pytest.mark.parametrize(
    ("most", "said"), [(20, "All wrote up to 20"), (96, "up to 48 tokens, all others up to 96")]
)
def test_the_report_says_how_much_was_written(most: int, said: str) -> None:
    """Catches: scouts of “up to 48 tokens” in a fit of texts of 20."""
    assert said in _written(most)


def test_plain_decoding_stays_where_nothing_was_faster_on_other_prompts(tmp_path: Path) -> None:
    """Catches: a candidate that won the search by luck and is recommended although it loses."""
    state, one = filled(tmp_path, [0.9, 0.8, 0.95, 0.9, 0.8, 0.9])
    found = judge(state, [one], plain(SETTINGS), 0)
    assert found.choice.settings.proposer == "none" and found.sentence.startswith(
        "Plain decoding stays: the best candidate was"
    )
    single, only = filled(tmp_path / "single", [1.3])
    penalised = judge(single, [only], plain(SETTINGS.but(repetition_penalty=1.05)), 0).sentence
    assert "repetition penalty of 1.05" in penalised
    assert "penalty" not in judge(single, [only], plain(SETTINGS.but(repetition_penalty=1.0)), 0).sentence
    assert "(too few for an interval)" in judge(single, [only], plain(SETTINGS), 0).sentence
    few, other = filled(tmp_path / "few", [1.3, 1.2])
    said = judge(few, [other], plain(SETTINGS), 0).sentence
    assert said.endswith(". Two prompts are too few to call this faster; at least six are needed.")
    assert "One prompt is too few" in judge(single, [only], plain(SETTINGS), 0).sentence
    unclear, third = filled(tmp_path / "unclear", [1.3, 1.2, 1.3, 1.2, 1.2, 0.9, 0.9])
    assert judge(unclear, [third], plain(SETTINGS), 0).sentence.endswith(
        "not clearly faster than plain decoding: it was faster on 5 of 7 prompts, and two equal lanes would be this "
        "one-sided in 45 of 100 tries."
    )


def test_rules_that_change_the_text_are_tried_only_when_asked_for() -> None:
    """Catches: a lossy configuration that is handed to somebody who did not ask for one."""
    found, refused = candidates(pair("llama"), SETTINGS.but(temperature=0.8))
    every = [*found, *(new for one in found for new in variants(one, lossy=False))]
    assert all(sd.RULES[one.settings.rule].lossless for one in every)
    assert {one.settings.rule for one in every} >= {"speculative-sampling", "block"}
    assert any(not sd.RULES[new.settings.rule].lossless for one in found for new in variants(one, lossy=True))
    assert {one.proposer for one in refused} >= {"eagle", "medusa"}
    assert not {"oracle", "you", "blind"} & {one.settings.proposer for one in found}


def test_every_proposer_is_tried_or_left_out_on_purpose() -> None:
    """Catches: a new proposer that no fit ever tries; options that no proposer has, dropped in silence."""
    new = sorted(sd.PROPOSERS.keys() - _SPACE.keys() - set(UNTRIED))
    assert not new, f"fitting/candidates.py: say in _SPACE what a fit tries of {new}, or name them in UNTRIED"
    assert _SPACE.keys() | set(UNTRIED) == sd.PROPOSERS.keys() and not _SPACE.keys() & set(UNTRIED)
    for name, space in _SPACE.items():
        for changes in space:
            check(plain(SETTINGS).settings.but(**{**changes, "proposer": name}))


def test_a_whole_fit_writes_a_configuration_that_decodes(tmp_path: Path) -> None:
    """On real models. Catches: settings that do not load, a held-back prompt in the search, a fit that overruns,
    a report that asks something of a network."""
    models = sd.load_models(device="cpu", dtype="float32")
    said: list[str] = []
    found = sd.fit(
        models, LINES, tmp_path, settings=SETTINGS, minutes=0.1, load={"target": "bundled"},
        on_progress=lambda ahead: said.append(ahead.phase),
    )  # fmt: skip
    state = found.folder / "state.jsonl"
    cells = [line["cell"] for line in map(json.loads, state.read_text().splitlines()[1:]) if "cell" in line]
    names = {
        stage: {
            cell["measured"]["name"] for cell in cells if (cell["stage"] == "held back") == (stage == "held")
        }
        for stage in ("held", "search")
    }
    assert names["held"] and names["search"] and not names["held"] & names["search"]
    assert json.loads(state.read_text().splitlines()[-1])["spent"] < 1.5 * 6.0
    config = json.loads((tmp_path / "config.json").read_text())
    chosen = sd.Settings(**config["settings"])
    assert chosen == found.settings and config["whole"] and config["load"] == {"target": "bundled"}
    assert (
        config["held_back"]["prompts"] == len(names["held"])
        if config["held_back"]
        else chosen.proposer == "none"
    )
    again = sd.decode(models, LINES[0], chosen)
    assert again.text == sd.decode(models, LINES[0], chosen.but(proposer="none", options={})).text
    report = (tmp_path / "report.html").read_text()
    assert "<script" not in report and "http:" not in report.replace("http://www.w3.org", "")
    assert "default-src 'none'" in report and "llama.cpp" in report and "What was tried" in report
    raced = json.loads((tmp_path / "trace.json").read_text())
    assert len(raced) in (1, 2) and (tmp_path / "table.csv").read_text().startswith("candidate,")
    assert {"scouting", "held back", "report"} <= set(said)


def test_texts_reach_the_report_only_as_text(tmp_path: Path) -> None:
    """Catches: a model's name, a prompt's name or a sentence about one that is read as markup."""
    models = pair("llama")
    named = [f"{'<b>' * at}abc" for at in range(1, 7)]
    found = sd.fit(
        models, named, tmp_path, settings=SETTINGS, minutes=0.05, chat=False,
        load={"target": "<img src=x>"}, cancelled=lambda: True,
    )  # fmt: skip
    assert not found.whole and found.settings.proposer == "none"
    report = (tmp_path / "report.html").read_text()
    assert "<img" not in report and "&lt;img src=x&gt;" in report and "<b>abc" not in report


def test_many_requests_are_priced_by_this_machine_s_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With passes of known times. Catches: plain decoding priced as if it were alone, and a tree that costs nothing
    among many requests."""
    from specdec_core.runtime.timing.width_curve import WidthCurve
    from specdec_measure.fitting import throughput
    from specdec_measure.machines import recording

    def curve(models: sd.Models, widths: Sequence[int], **more: object) -> WidthCurve:
        small = models.target.info.name == "tiny draft"
        times = tuple((0.1 if small else 1.0) * max(8, width) for width in widths)
        return WidthCurve(tuple(widths), times, None, 8, "cpu", "float32", "m", "t", "", "d")

    monkeypatch.setattr(recording, "width_curve", curve)
    models, prompt = pair("llama"), [5, 9, 3, 22, 7]
    settings = SETTINGS.but(draft_length=3, record="tokens")
    guessed, alone = (
        sd.decode(models, prompt, settings.but(proposer=name)) for name in ("draft-model", "none")
    )
    lane = Candidate(settings)
    few, many = throughput.Price(models, 1), throughput.Price(models, 64)
    usual = plain(SETTINGS)
    assert few(alone, usual) == pytest.approx(8.0 * 16) and many(alone, usual) == pytest.approx(64.0 * 16)
    rounds = guessed.rounds
    assert few(guessed, lane) == pytest.approx(sum(8.0 + 0.8 * one.draft_passes for one in rounds))
    assert many(guessed, lane) == pytest.approx(
        sum(64.0 * one.width + 6.4 * one.draft_passes for one in rounds)
    )
    with pytest.raises(sd.SettingsError, match="1 to 256 requests"):
        throughput.Price(models, 0)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command on a tiny pair of models; its words are one line."""
    from specdec_cli import fit as cli_fit

    monkeypatch.setattr(cli_fit, "load", lambda *names, **more: pair("llama"))
    monkeypatch.setenv("COLUMNS", "1000")
    return lambda *arguments: CliRunner().invoke(cli.app, ["fit", *map(str, arguments)])


def test_the_command_stops_at_ctrl_c_with_what_is_known(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a first Ctrl+C that throws the measurements away, an exit code of success, a handler that stays."""
    from specdec_measure.fitting import bench

    def press(*arguments: Any) -> bool:
        if arguments[4].label != "Plain decoding":
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    real = bench.time_cell
    monkeypatch.setattr(bench, "time_cell", press)
    file, out = tmp_path / "mine.txt", tmp_path / "out"
    file.write_text("\n".join("abc" * count for count in range(1, 7)))
    before = signal.getsignal(signal.SIGINT)
    found = command("--prompts", file, "--out", out, "--minutes", "1", "-n", "8", "--no-train")
    assert found.exit_code == 130 and signal.getsignal(signal.SIGINT) is before, found.output
    assert "Stopped early. " in found.output and "the same command continues from there" in found.output
    assert (out / "report.html").is_file() and not (out / "trace.json").exists()
    cells = [line for line in (out / "state.jsonl").read_text().splitlines() if '"cell"' in line]
    assert len(cells) == 1 and "Plain decoding" in cells[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--prompts", "mine.pdf"), "'mine.pdf' is not a file of prompts. Give a text file"),
        (("--prompts", "gone.txt"), "The prompts could not be read from 'gone.txt': No such file"),
        (
            ("--prompts", "mine.txt", "--rule", "block"),
            "A fit looks for the best rule itself: leave --rule out.",
        ),
        (("--prompts", "mine.txt", "--minutes", "0"), "A fit takes 0.05 to 1,440 minutes, got 0."),
        (("--prompts", "mine.txt", "--wish", "speed"), "A fit's wish is latency or throughput, got 'speed'."),
        (("--prompts", "mine.txt", "-n", "300"), "prompts can be read by these models, and a fit needs 4."),
    ],
)
def test_the_command_refuses_in_one_sentence(
    command: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("\n".join(LINES))
    found = command(*arguments, "--out", "out")
    assert found.exit_code == 2 and sentence in found.output and "Traceback" not in found.output, found.output
    assert not Path("out").exists()
