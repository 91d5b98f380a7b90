"""A sweep: the order of its cells, its numbers, its store, and what its rows add up to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_measure import sweep
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.run import SweepProgress
from specdec_measure.sweep.totals import failures, looping, to_csv, to_json
from specdec_measure.testing import scripted

CASES = [Case("tales", "one", "abc"), Case("tales", "two", "cab"), Case("code", "one", "bbb")]
LANES = [
    sd.Settings(max_new_tokens=20, draft_length=3),
    sd.Settings(max_new_tokens=20, proposer="prompt-lookup"),
]


def next_probs(tokens: tuple[int, ...]) -> list[float]:
    last = tokens[-1] if tokens else 0
    return [0.65 if token == (last + 1) % 8 else 0.05 for token in range(8)]


def guess(tokens: tuple[int, ...]) -> list[float]:
    last = tokens[-1] if tokens else 0
    right = (last + (2 if last % 8 == 3 else 1)) % 8
    return [0.65 if token == right else 0.05 for token in range(8)]


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return scripted(next_probs, guess)


def key(row: MeasuredCase) -> tuple[str, str, int, int]:
    return row.family, row.name, row.lane, row.repeat


def untimed(row: MeasuredCase) -> MeasuredCase:
    """What of a row does not depend on the clock."""
    return replace(row, seconds=0.0, draft_s=0.0, verify_s=0.0, other_s=0.0, prefill_s=0.0)


def test_lanes_take_turns_and_each_turn_begins_with_another(models: sd.Models) -> None:
    """Catches: all of one lane first, or a lane that always comes first and so always meets a cold cache."""
    reported: list[SweepProgress] = []
    rows = list(sweep.sweep(models, CASES, LANES, repeats=3, on_progress=reported.append))
    turn = [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (0, 1), (2, 2), (0, 2), (1, 2)]
    assert [key(row) for row in rows] == [
        (case.family, case.name, lane, repeat) for case in CASES for lane, repeat in turn
    ]
    assert [(ahead.done, ahead.total) for ahead in reported] == [(done, 27) for done in range(27)]
    assert [(ahead.case.name, ahead.label, ahead.repeat) for ahead in reported] == [
        (row.name, row.label, row.repeat) for row in rows
    ]


def test_plain_decoding_is_put_in_front_and_asks_for_the_same_text(models: sd.Models) -> None:
    lanes = [lane.but(temperature=0.7, seed=5, top_p=0.9) for lane in LANES]
    found, labels = sweep.complete(lanes)
    assert found[0] == sd.Settings(
        proposer="none", max_new_tokens=20, temperature=0.7, seed=5, top_p=0.9, record="off"
    )
    assert [lane.proposer for lane in found] == ["none", "draft-model", "prompt-lookup"]
    assert labels == ["Plain decoding", "Draft model, γ = 3", "Prompt lookup, γ = 4"]
    given = [found[0].but(draft_length=9), *lanes]
    assert sweep.complete(given)[0][0].draft_length == 9, "a plain lane that is there stays"
    assert sweep.complete([LANES[0], LANES[0]])[1][1:] == ["Draft model, γ = 3", "Draft model, γ = 3 (2)"]


def test_the_numbers_are_those_of_a_decode(models: sd.Models) -> None:
    """Oracle: `sd.decode` of the same prompt and settings."""
    lanes = [sd.Settings(proposer="none", max_new_tokens=20), *LANES]
    for row in sweep.sweep(models, CASES, LANES, repeats=1):
        case = next(case for case in CASES if (case.family, case.name) == (row.family, row.name))
        trace, plain = (sd.decode(models, case.prompt, lane) for lane in (lanes[row.lane], lanes[0]))
        for name in (
            "tokens", "target_passes", "draft_passes", "proposed", "accepted", "rejected", "acceptance_rate",
            "tokens_per_pass",
        ):  # fmt: skip
            assert getattr(row, name) == getattr(trace.stats, name), name
        assert row.seconds == pytest.approx(row.draft_s + row.verify_s + row.other_s)
        assert row.seconds > 0 and row.end == trace.end and row.error is None
        assert row.same_text == (trace.token_ids == plain.token_ids)


def test_another_text_than_plain_decoding_s_is_seen(models: sd.Models) -> None:
    """Catches: a comparison of a lane with itself. Twelve drawn tokens of two lanes agree by chance in no case here."""
    lanes = [lane.but(temperature=1.0) for lane in LANES]
    rows = list(sweep.sweep(models, CASES, lanes, repeats=1))
    assert all(row.same_text for row in rows if row.lane == 0)
    assert not any(row.same_text for row in rows if row.lane == 1)


@pytest.mark.parametrize("killed", [1, 3, 4, 8, 17])
def test_a_sweep_that_was_killed_goes_on_and_ends_with_the_same_rows(
    models: sd.Models, tmp_path: Path, killed: int
) -> None:
    """After any number of rows, with a torn last line too. Catches: a cell that is lost, doubled or measured twice in
    two runs of the program."""
    whole = [untimed(row) for row in sweep.sweep(models, CASES, LANES, repeats=2)]
    path = tmp_path / "sweep.jsonl"
    rows = sweep.sweep(models, CASES, LANES, repeats=2, store=path)
    before = [next(rows) for _ in range(killed)]
    rows.close()  # type: ignore[attr-defined]
    with path.open("a") as file:
        file.write('{"family": "tales", "na')
    reported: list[SweepProgress] = []
    after = list(sweep.sweep(models, CASES, LANES, repeats=2, store=path, on_progress=reported.append))
    kept = killed // 3 * 3  # whole turns; a turn that was cut short has no baseline of its own run
    assert after[:kept] == before[:kept]
    assert [ahead.done for ahead in reported] == list(range(kept, len(whole)))
    assert sorted(map(key, after)) == sorted(map(key, whole))
    assert {key(row): untimed(row) for row in after} == {key(row): row for row in whole}
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines[1:]] == [
        {name: getattr(row, name) for name in MeasuredCase.__slots__} for row in after
    ]
    again = list(
        sweep.sweep(
            models, CASES, LANES, repeats=2, store=path, on_progress=lambda _: pytest.fail("measured")
        )
    )
    assert again == after


def test_known_rows_are_not_measured_again(models: sd.Models) -> None:
    rows = sweep.sweep(models, CASES, LANES, repeats=1)
    first = [next(rows) for _ in range(4)]
    reported: list[SweepProgress] = []
    after = list(sweep.sweep(models, CASES, LANES, repeats=1, known=first, on_progress=reported.append))
    assert after[:3] == first[:3] and len(after) == 9 and reported[0].done == 3


def test_a_store_of_another_sweep_is_refused_and_left_alone(models: sd.Models, tmp_path: Path) -> None:
    """Catches: figures of two machines, models or settings in one file."""
    path = tmp_path / "sweep.jsonl"
    list(sweep.sweep(models, CASES[:1], LANES, repeats=1, store=path))
    content = path.read_bytes()

    def refused(
        sentence: str, cases: list[Case] = CASES, lanes: Any = LANES, other: sd.Models = models
    ) -> None:
        with pytest.raises(sd.SpecdecError, match=sentence) as caught:
            sweep.sweep(other, cases, lanes, repeats=1, store=path)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == content

    refused("a sweep with other lanes", lanes=[LANES[0].but(draft_length=5), LANES[1]])
    refused("a sweep with other lanes", lanes=[lane.but(seed=1) for lane in LANES])
    refused("another prompt under the name 'one'", cases=[Case("tales", "one", "abd")])
    refused("a sweep with other hardware", other=replace(models, machine="another"))
    refused("a sweep with other models", other=replace(models, draft=models.target))
    content = b"my notes, not to be lost"
    path.write_bytes(content)
    refused("is not a sweep's file, and was not changed")
    content = b'{"format": "specdec-sweep", "version": 2}\n'
    path.write_bytes(content)
    refused("of another version")
    path = tmp_path
    with pytest.raises(sd.SpecdecError, match="cannot be used for the sweep"):
        sweep.sweep(models, CASES, LANES, store=path)


def test_a_damaged_line_is_named(models: sd.Models, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    list(sweep.sweep(models, CASES[:1], LANES, repeats=1, store=path))
    lines = path.read_text().splitlines()
    for bad in ("{}", '{"a": NaN}', lines[2].replace('"tokens": 20', '"tokens": "many"')):
        path.write_text("\n".join([*lines[:2], bad, *lines[3:], ""]))
        with pytest.raises(sd.SpecdecError, match=r"Line 3 of '.*' is damaged"):
            sweep.sweep(models, CASES, LANES, repeats=1, store=path)


def test_cancelling_ends_within_a_round_and_keeps_whole_rows(models: sd.Models, tmp_path: Path) -> None:
    """Catches: a cell that was cut short and is kept as if it had been decoded to its end."""
    asked = 0
    path = tmp_path / "sweep.jsonl"

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 200

    rows = list(sweep.sweep(models, CASES, LANES, repeats=20, cancelled=cancelled, store=path))
    assert 0 < len(rows) < 180 and asked < 210
    assert all(row.tokens == 20 for row in rows)
    assert len(path.read_text().splitlines()) == len(rows) + 1


def test_a_cell_that_fails_is_a_row_with_its_sentence_and_the_sweep_goes_on(
    models: sd.Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = Case("tales", "nothing", "!!!")  # no letter the scripted tokenizer knows
    rows = list(sweep.sweep(models, [empty, *CASES], LANES, repeats=1, store=tmp_path / "s.jsonl"))
    assert len(rows) == 12
    assert all("The prompt is empty" in (row.error or "") for row in rows[:3])
    assert all(row.error is None for row in rows[3:])
    assert list(sweep.sweep(models, [empty, *CASES], LANES, repeats=1, store=tmp_path / "s.jsonl")) == rows
    monkeypatch.setattr(sd.PROPOSERS["prompt-lookup"], "propose", lambda *_: 1 / 0)
    rows = list(sweep.sweep(models, CASES[:1], LANES[:1], repeats=1))
    assert [row.error for row in rows] == [None, None]
    errors = [row.error or "" for row in sweep.sweep(models, CASES[:1], LANES, repeats=1)]
    assert (
        errors[:2] == ["", ""] and "An error in the program ended this cell (ZeroDivisionError)" in errors[2]
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lanes": []}, "at least one lane"),
        ({"cases": []}, "at least one prompt"),
        ({"cases": [CASES[0], CASES[0]]}, "called 'one'"),
        ({"repeats": 0}, "1 to 20 times"),
        ({"labels": ["a"]}, "2 lanes but 1 labels"),
        ({"lanes": [LANES[0], LANES[1].but(seed=3)]}, "'seed' is 0 in one and 3 in another"),
        ({"lanes": [sd.Settings(proposer="you")]}, "there is nobody here"),
        ({"lanes": [sd.Settings(proposer="medusa")]}, "reads the target's hidden states"),
        ({"lanes": [sd.Settings(proposer="prompt-lookup", options={"no": 1})]}, "no"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_measured(
    models: sd.Models, changes: dict[str, Any], sentence: str
) -> None:
    given: dict[str, Any] = {"cases": CASES, "lanes": LANES} | changes
    with pytest.raises(sd.SpecdecError, match=sentence):
        sweep.sweep(models, given.pop("cases"), given.pop("lanes"), **given)


def test_wilson_against_its_definition() -> None:
    """Oracle: the bounds are the shares p at which |share − p| = z · sqrt(p (1 − p) / n), found by bisection."""
    for successes, trials in [(0, 7), (7, 7), (1, 3), (40, 160), (999, 1000), (5, 10)]:
        for z in (sweep_z := [norm.ppf(0.975), 1.0]):
            low, high = sweep.wilson(successes, trials, z)
            share = successes / trials

            def edge(p: float, share: float = share, trials: int = trials, z: float = z) -> float:
                return (share - p) ** 2 - z * z * p * (1 - p) / trials

            assert low == pytest.approx(
                0.0 if share == 0 else brentq(edge, 1e-12, min(share, 1 - 1e-9)), abs=1e-9
            )
            assert high == pytest.approx(
                1.0 if share == 1 else brentq(edge, max(share, 1e-9), 1 - 1e-12), abs=1e-9
            )
        assert sweep.wilson(successes, trials) == pytest.approx(
            sweep.wilson(successes, trials, sweep_z[0]), abs=1e-6
        )
    assert sweep.wilson(0, 0) == (0.0, 1.0)


def rows_by_hand() -> Iterator[MeasuredCase]:
    """Plain decoding takes 1 s for 100 tokens in every turn but the last, where it takes 2 s."""
    for name, times in {"p": (0.5, 0.8, 1.0), "q": (2.0, 2.5, 4.0), "r": (0.25, 0.5, 1.0)}.items():
        for repeat, seconds in enumerate(times):
            base = {"family": "f", "name": name, "repeat": repeat, "tokens": 100, "same_text": True}
            slow = 2.0 if repeat == 2 else 1.0
            yield MeasuredCase(
                **base, lane=0, label="plain", target_passes=100, seconds=slow, tokens_per_pass=1.0
            )
            yield MeasuredCase(
                **base, lane=1, label="draft", target_passes=50, seconds=seconds, tokens_per_pass=2.0,
                proposed=200, accepted=50, rejected=25, acceptance_rate=2 / 3,
            )  # fmt: skip


def test_a_summary_of_rows_made_by_hand() -> None:
    """Every figure worked out on paper. Catches: means for medians, a baseline of another turn, repeats that are taken
    for independent trials and shrink the interval."""
    table = sweep.summary(rows_by_hand())
    assert list(table["lane"]) == [0, 1]
    plain, draft = table.to_dict("records")
    by_prompt = {"p": (2.0, 1.25, 2.0), "q": (0.5, 0.4, 0.5), "r": (4.0, 2.0, 2.0)}
    medians = [median(values) for values in by_prompt.values()]
    assert medians == [2.0, 0.5, 2.0]
    assert draft["speedup"] == 2.0
    assert (draft["speedup_min"], draft["speedup_q1"], draft["speedup_q3"], draft["speedup_max"]) == (
        0.5,
        1.25,
        2.0,
        2.0,
    )
    assert draft["slower"] == pytest.approx(1 / 3)
    assert draft["tokens_per_pass"] == 2.0
    assert (draft["accepted"], draft["judged"]) == (150, 225)
    assert draft["alpha"] == pytest.approx(2 / 3)
    assert (draft["alpha_low"], draft["alpha_high"]) == pytest.approx(sweep.wilson(150, 225))
    assert draft["tokens_per_second"] == median([100 / 0.8, 100 / 2.5, 100 / 0.5])
    assert draft["repeats_apart"] == pytest.approx(median([0.75 / 2.0, 0.1 / 0.5, 2.0 / 2.0]))
    assert (draft["prompts"], draft["compared"], draft["failed"], draft["same_text"]) == (3, 3, 0, 1.0)
    assert plain["speedup"] == 1.0 and plain["slower"] == 0.0 and plain["alpha"] != plain["alpha"]


def test_a_summary_says_nothing_where_there_is_nothing_to_say() -> None:
    """Trees have no one acceptance rate, a few tokens no speed, a failed cell no numbers."""
    tree = [replace(row, acceptance_rate=None) for row in rows_by_hand()]
    assert sweep.summary(tree)["alpha"].isna().all()
    short = [replace(row, tokens=15) for row in rows_by_hand()]
    assert sweep.summary(short)["speedup"].isna().all() and (sweep.summary(short)["compared"] == 0).all()
    failed = [
        replace(row, error="No.", tokens=0, seconds=0.0) if row.lane == 1 else row for row in rows_by_hand()
    ]
    line = sweep.summary(failed).to_dict("records")[1]
    assert (line["failed"], line["prompts"]) == (9, 0) and line["speedup"] != line["speedup"]
    lost = [replace(row, error="No.") if row.lane == 0 else row for row in rows_by_hand()]
    assert sweep.summary(lost)["speedup"].isna().all(), "no speedup without a baseline"
    assert sweep.summary([]).empty and "speedup" in sweep.summary([])


def test_loops_are_counted_and_their_share_is_of_tokens() -> None:
    """On paper. Catches: repeats of a prompt counted as texts of their own, a share over prompts, rows of older
    files taken for texts without loops, plain decoding's own texts in the sentence."""
    shares = {"p": 0.5, "q": 0.1, "r": 0.2}
    rows = [
        replace(row, repeated=shares[row.name], tokens=50 if row.name == "p" else 100)
        for row in rows_by_hand()
    ]
    table = sweep.summary(rows)
    line = table.to_dict("records")[1]
    assert line["looping"] == 2 and line["repeated"] == pytest.approx((25 + 10 + 20) / 250)
    assert looping(table.to_dict("records")).startswith(
        "2 of 3 texts of the guessing lanes are loops (at least 20% of the tokens"
    )
    old = sweep.summary(rows_by_hand())
    assert old["looping"].isna().all() and looping(old.to_dict("records")) == ""
    none = sweep.summary([replace(row, repeated=0.0) for row in rows]).to_dict("records")
    assert none[1]["looping"] == 0 and looping(none) == ""


def test_a_cell_knows_what_repeats(models: sd.Models) -> None:
    """Against the trace. Catches: a share that is never filled in, or is lost on its way to the files."""
    case = Case("own", "one", "a")
    rows = list(sweep.sweep(models, [case], [lane.but(max_new_tokens=40) for lane in LANES], repeats=1))
    plain = sd.decode(models, case.prompt, sd.Settings(proposer="none", max_new_tokens=40))
    # it counts to 8, again and again
    assert [row.repeated for row in rows] == [32 / 40] * 3 == [plain.loops().share] * 3
    assert ",repeated," in to_csv(rows).splitlines()[0]


def test_what_failed_is_reported_once_for_each_prompt_and_reason() -> None:
    """Catches: the same sentence for every lane and repeat, which hides the others."""
    rows = [replace(row, error="Too long.") if row.name == "p" else row for row in rows_by_hand()]
    rows[8] = replace(rows[8], error="No memory.")
    assert failures(rows) == ["f: p, in 2 lanes: Too long.", f"f: q, {rows[8].label}: No memory."]
    assert failures(rows_by_hand()) == []


def test_what_is_taken_home(models: sd.Models) -> None:
    """Catches: NaN in JSON, and a family's name that a spreadsheet would run."""
    rows = [replace(row, family="=cmd()", name="-x") for row in rows_by_hand()]
    assert "'=cmd(),'-x," in to_csv(rows)
    lanes, labels = sweep.complete(LANES)
    stored = json.loads(to_json(sweep.about(models, lanes, labels), rows), parse_constant=pytest.fail)
    assert stored["machine"] == "scripted" and len(stored["rows"]) == 18 and len(stored["summary"]) == 2
    assert stored["rows"][0]["family"] == "=cmd()" and stored["summary"][0]["alpha"] is None


@pytest.fixture
def run(models: sd.Models, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("specdec_cli.sweep.load", lambda *_, **__: models)
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(cli.app, ["sweep", "-n", "20", *arguments])


def test_the_command_measures_keeps_and_goes_on(run: Any, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text('{"prompt": "abc", "family": "tales"}\n{"prompt": "bca", "family": "tales"}\n')
    out, csv, file = (tmp_path / name for name in ("sweep.jsonl", "cells.csv", "all.json"))
    lanes = (
        "--lane",
        "draft-model,draft_length=2,rule=typical,r.epsilon=0.2",
        "--lane",
        "prompt-lookup,max_ngram=2",
    )
    arguments = (*lanes, "--prompts", str(own), "--repeats", "2", "--out", str(out))
    result = run(*arguments, "--csv", str(csv), "--json", str(file))
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "tales (2)" in words and "lossy: the texts of" in words
    assert "recommendation: " in words and "Two prompts are too few to tell; at least six are needed" in words
    assert "The ratios are geometric means over the prompts." in words
    assert "not eligible (lossy, or drafting is not counted): Draft model" in words
    assert words.count("95% interval") == 1, "the lossy lane is not compared"
    held = out.read_text()
    header = json.loads(held.splitlines()[0])
    assert [lane["draft_length"] for lane in header["lanes"]] == [4, 2, 4]
    assert header["lanes"][1]["rule_options"] == {"epsilon": 0.2}
    assert header["lanes"][2]["options"] == {"max_ngram": 2}
    assert len(json.loads(file.read_text())["rows"]) == 12 == len(csv.read_text().splitlines()) - 1
    assert run(*arguments).exit_code == 0 and out.read_text() == held
    result = run("--lane", "blind", "--prompts", str(own), "--out", str(out))
    assert result.exit_code == 2 and "other lanes" in " ".join(result.output.split())


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdec_cli import sweep as cli_sweep

    def interrupted(*given: Any, **more: Any) -> Iterator[MeasuredCase]:
        rows = sweep.sweep(*given, **more)
        for _ in range(4):
            yield next(rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_sweep, "cells", interrupted)
    own = tmp_path / "own.jsonl"
    own.write_text('{"prompt": "abc"}\n{"prompt": "bca"}\n')
    result = run(
        "--lane", "draft-model", "--prompts", str(own), "--repeats", "2", "--out", str(tmp_path / "s")
    )
    assert result.exit_code == 130
    assert "stopped after 4 of 8 cells" in " ".join(result.output.split())
    assert len((tmp_path / "s").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--lane", "magic"), "There is no proposer 'magic'"),
        (("--lane", "draft-model,colour=1"), "has no 'colour'. Choose one of: draft, draft_length"),
        (("--lane", "draft-model,draft_length=x"), "draft_length"),
        (("--families", "prose"), "no family of prompts 'prose'"),
        (("--prompts", "/nowhere/x.jsonl"), "could not be read"),
        (("-o", "colour=1"), "No proposer of this sweep has an option 'colour'"),
        (("--json", "/nowhere/x.json"), "could not be written"),
    ],
)
def test_the_command_refuses_in_one_sentence(run: Any, arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and sentence in " ".join(result.output.split()), result.output
