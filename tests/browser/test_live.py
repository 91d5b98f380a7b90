"""The live page opened from disk: one file decodes a visitor's words as the decoder does, and asks nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

import specdec_core as sd
from app.live.page import make
from tests.browser.conftest import Sight, expect

MOST_BYTES = 25_000_000
WORDS = "One day, a little bird fell from its nest. A girl named Ruby saw the bird and"
DONE = re.compile("^Done")
KEPT = """() => { const traces = [], OwnWorker = Worker; window.traces = traces; window.kept = [];
  window.Worker = class extends OwnWorker { set onmessage(take) { super.onmessage = (event) => {
    const said = JSON.parse(event.data);
    if (said.type === "finished") { traces.push(said.record); kept.push(said.record); }
    take(event); }; } } }"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("live") / "live.html"
    made.write_text(make(), encoding="utf-8")
    return made


@pytest.fixture
def page(browser: Browser, complaints: Sight) -> Iterator[Page]:
    """A phone's page whose requests count as complaints; the records of its runs are kept in `traces`."""
    shown = browser.new_page(viewport={"width": 390, "height": 844})
    complaints.watch(shown)
    shown.on(
        "request",
        lambda one: None if one.url.startswith(("file:", "blob:", "data:")) else complaints.append(one.url),
    )
    shown.add_init_script(f"({KEPT})()")
    yield shown
    shown.close()


def opened(page: Page, file: Path, **chosen: Any) -> list[dict[str, Any]]:
    """The records of the run with which the page opens."""
    usual = {"prompt": WORDS, "tokens": 40}
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#{urlencode({**usual, **chosen})}")
    expect(page.locator("#status")).to_have_text(DONE)
    return records(page)


def records(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("traces.splice(0)")
    return found


def text(prompt: str, **given: Any) -> str:
    return sd.decode(sd.load_models(device="cpu"), prompt, sd.Settings(max_new_tokens=40, **given)).text


def test_one_file_decodes_what_a_link_says(page: Page, file: Path) -> None:
    """Catches: a file that is too large, asks for anything, complains, is wider than a phone, writes another text."""
    assert file.stat().st_size <= MOST_BYTES
    pieces = re.findall(r'data-of="\w+">([^<]+)<', file.read_text(encoding="utf-8"))
    assert len(pieces) > 300 and max(map(len, pieces)) <= 65_536
    for chosen, given in (
        ({}, {}),
        (
            {"temperature": 1, "seed": 5, "proposer": "branching"},
            {"temperature": 1.0, "seed": 5, "proposer": "branching"},
        ),
    ):
        traces = [sd.Trace.from_json(json.dumps(trace)) for trace in opened(page, file, **chosen)]
        assert [trace.header.settings["proposer"] for trace in traces] == [
            "none",
            given.get("proposer", "draft-model"),
        ]
        assert traces[-1].text == text(WORDS, **given)
        assert all(trace.audit() == [] for trace in traces)
        expect(page.locator("#figures")).to_have_text(
            re.compile(r"^Measured here: \d+\.\d\d× plain decoding .*Modelled: ")
        )
    expect(page.locator("#curve tbody tr")).to_have_count(7)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_own_words_by_keyboard_and_a_link_to_them(page: Page, file: Path) -> None:
    """Catches: a form that only a pointer can use, a link that opens another run, settings that are not run."""
    opened(page, file)
    page.get_by_label("Your words").fill("The moon is made of")
    page.get_by_label("Temperature").fill("0.8")
    page.get_by_label("Seed").fill("11")
    page.get_by_label("Who guesses").select_option("prompt-lookup")
    page.get_by_label("Seed").press("Enter")
    page.wait_for_url(re.compile("seed=11"))
    expect(page.locator("#status")).to_have_text(DONE)
    expect(page.locator(".lane").last).to_contain_text("The moon is made of")
    first = page.url
    wrote = records(page)[-1]["output"]["ids"]
    page.goto("about:blank")
    page.goto(first)
    expect(page.locator("#status")).to_have_text(DONE)
    assert records(page)[-1]["output"]["ids"] == wrote
    expect(page.get_by_label("Your words")).to_have_value("The moon is made of")


def test_a_run_can_be_stopped_and_another_begun(page: Page, file: Path) -> None:
    """Catches: a Stop that is read when all is over, a run that begins twice or never again."""
    opened(page, file)
    page.get_by_label("Who guesses").select_option("you")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("textbox", name="What comes next?").fill("took it home")
    page.keyboard.press("Enter")
    expect(page.locator(".guess, .prop").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text(re.compile("^Stopped"))
    (plain, own) = records(page)
    assert own["end"] == "cancelled" and own["rounds"][0]["note"]["typed"] == " took it home"
    page.get_by_label("Who guesses").select_option("none")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#status")).to_have_text(DONE)
    assert len(records(page)) == 1 and plain["header"]["race"]["lanes"] == 2


def test_a_click_on_a_candidate_goes_on_from_there(page: Page, file: Path) -> None:
    """Catches: a continuation that forgets the text before it, or is not what the model writes after the chosen token;
    a record that does not say what was chosen; a way back that is lost."""
    opened(page, file, plain="0")
    before = sd.Trace.from_json(json.dumps(page.evaluate("kept.at(-1)")))
    page.get_by_role("button", name="Odds", exact=True).click()
    page.locator(".player").press("End")
    page.locator(".bar-row .from-here").nth(1).click()
    expect(page.locator(".runs button")).to_have_count(2)
    expect(page.locator("#status")).to_have_text(DONE)
    after = sd.Trace.from_json(json.dumps(records(page)[-1]))
    branch = after.header.branch
    assert branch and branch.trace == before.header.id
    ids = [*before.header.prompt_ids, *before.token_ids[: branch.at], branch.token]
    assert after.header.prompt_ids == ids and branch.token != before.token_ids[branch.at]
    core = sd.decode(sd.load_models(device="cpu"), ids, sd.Settings(max_new_tokens=40))
    assert after.token_ids == core.token_ids and after.header.prompt == core.header.prompt
    row = page.locator(".runs button")
    expect(page.locator(".lane .forced").last).to_have_text(after.header.prompt_texts[-1])
    row.first.click()
    expect(page.locator(".lane .forced").last).to_be_hidden()
    expect(page.locator(".lane").last).to_contain_text(before.output.texts[0])
    row.last.press("Enter")
    expect(page.locator(".lane .forced").last).to_be_visible()
    expect(row).to_have_text(["First run", re.compile("^⤷ ")])


def test_what_cannot_be_run_is_said(page: Page, file: Path) -> None:
    """Catches: a refusal without a way out, a text beyond the model's window that ends the engine."""
    opened(page, file)
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Rule").select_option("exact-match")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#status")).to_contain_text("Set it to 0 or choose speculative sampling")
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Your words").fill("1 2 3 4 " * 400)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#status")).to_have_text(
        re.compile(r"^This text has [\d,]+ tokens, and the model reads at most 1024")
    )
    page.get_by_label("Your words").fill("")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#status")).to_have_text(DONE)


def test_the_page_is_in_german_as_well(page: Page, tmp_path: Path) -> None:
    """Catches: a page that mixes languages, numbers with the other's decimal sign, a script that its policy refuses."""
    file = tmp_path / "live.html"
    file.write_text(make(language="de"), encoding="utf-8")
    page.goto(f"{file.as_uri()}#{urlencode({'prompt': WORDS, 'tokens': 40})}")
    expect(page.locator("#status")).to_have_text(re.compile("^Fertig"))
    expect(page.locator("#figures")).to_have_text(
        re.compile(r"^Hier gemessen: \d+,\d\d× .*Modelliert: \d+,\d\d×")
    )
    page.get_by_role("button", name="Odds", exact=True).or_(page.locator(".panel-tab").nth(2)).first.click()
    page.locator(".player").press("End")
    page.get_by_role("button", name=re.compile("^Von hier aus mit")).nth(1).press("Enter")
    expect(page.locator(".runs button").first).to_have_text("Erster Lauf")
    expect(page.locator("#status")).to_have_text(re.compile("^Fertig"))
    page.get_by_label("Ihre Worte").fill("1 2 3 4 " * 400)
    page.get_by_role("button", name="Starten").click()
    expect(page.locator("#status")).to_have_text(re.compile("^Dieser Text hat .* höchstens 1024"))
    expect(page.locator(".player .notice")).to_have_text(re.compile("^Dieser Text hat"))
    expect(page.locator("#curve tbody tr")).to_have_count(7)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
