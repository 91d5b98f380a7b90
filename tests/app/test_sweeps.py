"""Sweeps as jobs: cell by cell in the line of all runs, cancelled and gone on with, and what the page shows of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.compare import sweeps
from app.compare.sweep import Order, Sweep
from app.compare.sweeps import Sweeps
from app.decoding.device_queue import DeviceQueue
from app.decoding.jobs import Busy
from app.decoding.loaded import Loaded
from app.decoding.runs import Runs
from app.text import plain
from specdec_core.foundations.errors import ModelError, SpecdecError
from specdec_core.settings import Settings
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase

from .conftest import scripted_models
from .tables import tables

WAIT = 60.0
PLAIN = Settings(proposer="none", max_new_tokens=20)
LANES = (PLAIN, PLAIN.but(proposer="draft-model"))
LABELS = ("A · Plain decoding", "B · Draft model")


def order(prompts: int = 2, repeats: int = 2, **changes: Any) -> Order:
    cases = tuple(Case("tales", f"number {at}", "abc") for at in range(prompts))
    return Order(**{"cases": cases, "lanes": LANES, "labels": LABELS, "repeats": repeats, **changes})


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not fact():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


class Gate:
    """Models on which no draft is made while `shut` says so; it may be changed at any time."""

    def __init__(self, shut: Callable[[], bool] = lambda: True) -> None:
        self.shut = shut
        self.models: Any = scripted_models()
        next_probs = self.models.draft.next_probs

        def gated(tokens: tuple[int, ...]) -> Any:
            while self.shut():
                time.sleep(0.001)
            return next_probs(tokens)

        self.models.draft.next_probs = gated

    def open(self) -> None:
        self.shut = lambda: False


def make(models: Any = None, line: DeviceQueue | None = None, **limits: int) -> Sweeps:
    found, shared = Loaded(models or scripted_models()), line or DeviceQueue()
    return Sweeps(lambda choice, gone: found, lambda device: shared, **limits)


def key(row: MeasuredCase) -> tuple[str, int, int]:
    return row.name, row.lane, row.repeat


def test_a_sweep_measures_every_cell_and_knows_where_it_did() -> None:
    job = make().start(order(), "me")
    assert job.wait(WAIT)
    assert (job.state, job.error, len(job.rows)) == ("done", None, 8)
    assert sorted(map(key, job.rows)) == sorted(
        (f"number {prompt}", lane, repeat) for prompt in range(2) for lane in range(2) for repeat in range(2)
    )
    assert {row.label for row in job.rows} == set(LABELS)
    assert job.about["machine"] == "scripted" and job.left_s == 0.0


def test_the_device_is_free_between_two_cells() -> None:
    """Catches: a sweep that keeps every other visitor waiting until its last cell."""
    gate, line = Gate(), DeviceQueue()
    job = make(gate.models, line).start(order(), "me")
    gate.shut = lambda: len(job.rows) == 1  # in the middle of the second cell, until another stands in line
    until(lambda: len(job.rows) == 1)
    with line.turn(lambda: False, lambda place: gate.open()):
        until(lambda: job.state == "queued" and job.place == 1)
        assert len(job.rows) == 2, "nobody measures while another holds the device"
    assert job.wait(WAIT) and len(job.rows) == 8


def test_cancelling_keeps_the_rows_and_going_on_ends_with_all_of_them() -> None:
    gate = Gate()
    jobs = make(gate.models)
    job = jobs.start(order(), "me")
    gate.shut = lambda: len(job.rows) == 5  # two turns are done, the third is half done
    until(lambda: len(job.rows) == 5)
    job.cancel()
    gate.open()
    assert job.wait(WAIT)
    kept = list(job.rows)
    assert (job.state, len(kept), job.error) == ("stopped", 5, None)
    jobs.resume(job)
    assert job.wait(WAIT)
    assert (job.state, len(job.rows)) == ("done", 8)
    assert job.rows[:4] == kept[:4] and job.rows[4] is not kept[4], (
        "a turn that was cut short is measured again"
    )
    assert len(set(map(key, job.rows))) == 8
    jobs.resume(job)
    assert not job.active, "what is done is not done again"


def test_a_sweep_nobody_looks_at_stops_and_can_go_on() -> None:
    """Catches: a closed tab that keeps a shared device busy for an hour."""
    gate = Gate()
    jobs = make(gate.models)
    job = jobs.start(order(), "me")
    job.patience_s = 0.0
    gate.open()
    assert job.wait(WAIT)
    assert job.state == "stopped"
    job.patience_s = 60.0
    jobs.resume(job)
    assert job.wait(WAIT) and job.state == "done"


def test_a_new_sweep_ends_the_owner_s_earlier_one_and_nobody_else_s() -> None:
    gate = Gate()
    jobs = make(gate.models)
    mine, other = jobs.start(order(), "me"), jobs.start(order(), "you")
    again = jobs.start(order(), "me")
    gate.open()
    assert all(job.wait(WAIT) for job in (mine, other, again))
    assert [job.state for job in (mine, other, again)] == ["stopped", "done", "done"]
    assert jobs.get(other.id, "me") is other and jobs.get("nobody's", "me") is None


def test_too_much_is_refused_with_a_sentence() -> None:
    gate = Gate()
    jobs = make(gate.models, active=1)
    with pytest.raises(SpecdecError, match="at most 5,000 are measured"):
        jobs.start(order(prompts=2_000), "me")
    with pytest.raises(SpecdecError, match="at least one family"):
        jobs.start(order(prompts=0), "me")
    job = jobs.start(order(), "me")
    with pytest.raises(Busy, match=r"as it takes \(1\)"):
        jobs.start(order(), "you")
    job.cancel()
    gate.open()
    assert job.wait(WAIT)
    assert jobs.start(order(), "you").wait(WAIT)


def test_only_so_many_are_kept() -> None:
    jobs = make(keep=2)
    done = []
    for _ in range(4):
        done.append(jobs.start(order(prompts=1, repeats=1), "me"))
        assert done[-1].wait(WAIT)
    assert [jobs.get(job.id, "me") is job for job in done] == [False, True, True, True]


def test_errors_are_sentences() -> None:
    def refuse(choice: Any, gone: Any) -> Any:
        raise ModelError("There is no such model.")

    def crash(choice: Any, gone: Any) -> Any:
        raise RuntimeError("secret details")

    for load, sentence in (
        (refuse, "There is no such model."),
        (crash, "because of an error in the program"),
    ):
        job = Sweeps(load, lambda device: DeviceQueue()).start(order(), "me")
        assert job.wait(WAIT)
        assert job.state == "failed" and sentence in (job.error or "") and "secret" not in (job.error or "")
    medusa = make().start(order(lanes=(PLAIN, PLAIN.but(proposer="medusa"))), "me")
    assert medusa.wait(WAIT)
    assert medusa.state == "failed" and "medusa" in (medusa.error or "")


# --- the page ---------------------------------------------------------------------------------------------------------


def script() -> None:
    from app.compare import editor, sweep_view
    from app.decoding.models import ModelChoice
    from app.lanes import page_settings
    from app.ui import address
    from app.ui.state import state
    from specdec_core.settings import Settings

    if not state.opened:  # as the comparison's page does
        address.fill(editor.TABLE, page_settings.read(address.params(), editor.TABLE)[0])
        state.opened = "compare"
    plain = Settings(proposer="none", max_new_tokens=20)
    lanes = [plain, plain.but(proposer="draft-model"), plain.but(proposer="draft-model", rule="typical")]
    sweep_view.show(lanes, ["A · Plain decoding", "B · Draft *model*", "C · Typical"], ModelChoice())
    address.write(editor.TABLE)


@pytest.fixture
def jobs(fresh: Runs, prompts: Any) -> Iterator[Sweeps]:
    sweeps.sweeps.cache_clear()
    yield sweeps.sweeps()
    sweeps.sweeps().close()
    sweeps.sweeps.cache_clear()


@pytest.fixture
def page(jobs: Sweeps) -> AppTest:
    at = AppTest.from_function(script, default_timeout=30)
    at.run()
    assert not at.exception
    return at


def started(at: AppTest, jobs: Sweeps) -> Sweep:
    at.button(key="sweep_start").click().run()
    assert not at.exception
    value = at.query_params["sweep"]
    job = jobs.get(value[-1] if isinstance(value, list) else value, "")
    assert job is not None
    return job


def words(at: AppTest) -> str:
    return "\n".join(
        element.value for kind in (at.error, at.caption, at.markdown, at.info) for element in kind
    )


def test_the_page_sweeps_what_was_chosen_and_shows_the_matrix(page: AppTest, jobs: Sweeps) -> None:
    page.number_input(key="sweep_most").set_value(1).run()
    assert "2 prompts × 3 lanes × 3 repeats = 18 cells" in words(page)
    job = started(page, jobs)
    assert job.wait(WAIT)
    for row in job.rows:
        row.repeated = 0.9 if row.lane == 1 else 0.0
        row.seconds = row.tokens / (
            300.0 if row.lane == 1 else 120.0
        )  # a busy machine may hold one of them up
    page.run()
    assert not page.exception
    assert "All 18 cells measured." in words(page)
    assert [(case.family, case.name) for case in job.order.cases] == [("story", "The fox"), ("code", "Add")]
    (chart,) = page.get("plotly_chart")
    cells = json.loads(chart.proto.spec)["data"][0]["text"]
    assert len(cells) == 2 and all(len(row) == 2 and "×" in cell for row in cells for cell in row)
    assert "lossy, so their texts may differ: C · Typical" in words(page).replace("\\", "")
    assert "medians over prompts and their repeats" in words(page)
    assert json.loads(chart.proto.spec)["layout"]["yaxis"]["ticktext"] == ["Stories", "Code"]
    (lines,) = tables(page)
    line = lines[1]
    assert (line["Kind of text"], line["Lane"], line["Prompts"]) == ("Stories", "B · Draft *model*", "1")
    assert line["Speedup"].startswith("2.50×") and "None" not in str(lines)
    assert line["Same text as plain decoding"] == "100% of prompts"
    assert line["Loops"] == "1 text (90% of tokens repeat)" and lines[2]["Loops"].startswith("0 texts (")
    assert line["Acceptance rate α"].startswith(f"{job.rows[1].acceptance_rate:.0%} (")
    for measure, sign, how in (
        ("tokens_per_pass", ".", "medians over"),
        ("alpha", "%", "judged guesses together"),
    ):
        page.segmented_control(key="sweep_measure").set_value(measure).run()
        assert not page.exception
        assert how in words(page)
        (chart,) = page.get("plotly_chart")
        cells = json.loads(chart.proto.spec)["data"][0]["text"]
        assert all(sign in cell for row in cells for cell in row)
    assert {button.proto.label for button in page.get("download_button")} == {
        "Cells (CSV)", "Matrix (CSV)", "Everything (JSON)",
    }  # fmt: skip


def test_a_sweep_is_found_again_by_its_address_and_steered_by_its_owner_only(
    page: AppTest, jobs: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = started(page, jobs)
    assert job.wait(WAIT)
    job.state = "stopped"
    job.rows = job.rows[:4]
    other = AppTest.from_function(script, default_timeout=30)
    other.query_params["sweep"] = job.id
    other.run()
    assert not other.exception
    assert "Somebody else's sweep" in words(other)
    assert "sweep_resume" not in {button.key for button in other.button}
    page.run()
    page.button(key="sweep_resume").click().run()
    assert job.wait(WAIT)
    assert job.state == "done" and len(job.rows) == job.order.cells


def test_a_link_brings_the_form_s_choices_back(jobs: Sweeps) -> None:
    """The browser writes them; here the way back. Catches: a link to a sweep without what it was made of."""
    at = AppTest.from_function(script, default_timeout=30)
    at.query_params["sweep_most"] = "2"
    at.query_params["sweep_repeats"] = "5"
    at.run()
    assert not at.exception
    assert (at.number_input(key="sweep_most").value, at.number_input(key="sweep_repeats").value) == (2, 5)


def test_a_sweep_of_more_than_the_form_takes_is_refused(page: AppTest) -> None:
    """Catches: a box with bounds, which Streamlit sends only if it fits: the sweep would take the number before."""
    box = page.number_input(key="sweep_repeats")
    assert not (box.proto.has_min or box.proto.has_max)
    box.set_value(999_999).run()
    assert page.button(key="sweep_start").disabled
    said = "The number of repeats has to be a whole number from 1 to 10, not 999,999."
    assert page.error[0].value == plain(said)


def test_a_speedup_above_tokens_per_pass_is_marked_as_noise(page: AppTest, jobs: Sweeps) -> None:
    """Catches: 3.85× at 1.88 tokens per pass, shown as if guessing had brought it."""
    page.number_input(key="sweep_most").set_value(1).run()
    job = started(page, jobs)
    assert job.wait(WAIT)
    for row in job.rows:  # every lane as fast as its tokens per pass allow, and one of them faster
        row.seconds = 1.0 if row.lane == 0 else 1.0 / (row.tokens_per_pass or 1.0)
        if row.lane == 1 and row.family == "story":
            row.seconds /= 1.5
    page.run()
    (chart,) = page.get("plotly_chart")
    cells = json.loads(chart.proto.spec)["data"][0]["text"]
    assert [[cell.endswith(" ?") for cell in row] for row in cells] == [[True, False], [False, False]]
    assert "? marks a speedup above the tokens per pass" in words(page)


def test_an_unknown_sweep_is_reported(jobs: Sweeps) -> None:
    at = AppTest.from_function(script, default_timeout=30)
    at.query_params["sweep"] = "<img src=x onerror=alert(1)>"
    at.run()
    assert not at.exception
    assert "no longer kept" in words(at) and "<img" not in words(at)


def test_own_prompts_come_in_as_a_file_and_bad_ones_are_named(page: AppTest, jobs: Sweeps) -> None:
    page.pills(key="sweep_families").set_value([]).run()
    assert page.button(key="sweep_start").disabled
    hostile = '{"prompt": "abc", "family": "<b>bold</b>", "name": "*x*"}\n'
    page.file_uploader(key="sweep_file").set_value(("own.jsonl", hostile.encode(), "application/json")).run()
    assert "1 prompt × 3 lanes" in words(page)
    job = started(page, jobs)
    assert job.wait(WAIT)
    page.run()
    assert not page.exception
    (chart,) = page.get("plotly_chart")
    spec = json.loads(chart.proto.spec)
    assert spec["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;bold&lt;/b&gt;"]
    page.file_uploader(key="sweep_file").set_value(("own.jsonl", b"[1]\n", "application/json")).run()
    assert "Line 1 of the prompts has no text" in words(page).replace("\\", "")
    assert page.button(key="sweep_start").disabled
    taken = '{"prompt": "abc", "family": "story", "name": "The fox"}\n'
    page.pills(key="sweep_families").set_value(["story"]).run()
    page.file_uploader(key="sweep_file").set_value(("own.jsonl", taken.encode(), "application/json")).run()
    assert "and so has the lab" in words(page).replace("\\", "")


def test_a_lane_that_asks_a_person_is_left_out(jobs: Sweeps) -> None:
    def other() -> None:
        from app.compare import editor, sweep_view
        from app.decoding.models import ModelChoice
        from app.ui import address
        from specdec_core.settings import Settings

        address.fill(editor.TABLE, {})
        lanes = [Settings(proposer="none"), Settings(proposer="you")]
        sweep_view.show(lanes, ["A", "B"], ModelChoice())

    at = AppTest.from_function(other, default_timeout=30).run()
    assert not at.exception
    assert "left out" in words(at) and "× 1 lane ×" in words(at)
