"""Exported pages opened from disk, a notebook's frame, and the lab with parts hidden or as a presentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from app.export import linker, page
from app.ui.presenter import LARGE_REM
from specdec_core.record.trace import Trace
from tests.player.samples import plain_trace, spec_trace

from .conftest import RUN, expect

Open = Callable[..., Page]
HOSTILE = (
    "</script><script>window.hacked = 1</script><!-- <img src=x onerror='window.hacked = 1'> \u2028 &amp; "
)


class Sight:
    """What a page asked for, and what it complained about."""

    def __init__(self, shown: Page) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        shown.on("request", lambda request: self.requests.append(request.url))
        shown.on("pageerror", lambda error: self.complaints.append(str(error)))
        shown.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open a page from disk; it may ask for nothing but itself, and the console stays silent."""
    seen: list[tuple[Page, Sight, str]] = []

    def open_one(text: str, fragment: str = "", **options: Any) -> Page:
        file = tmp_path / f"run{len(seen)}.html"
        file.write_text(text, encoding="utf-8", newline="\n")
        shown = browser.new_page(
            **{"viewport": {"width": 1024, "height": 768}, "reduced_motion": "reduce", **options}
        )
        shown.set_default_timeout(15_000)
        seen.append((shown, Sight(shown), file.as_uri()))
        shown.goto(file.as_uri() + fragment)
        return shown

    yield open_one
    for shown, sight, address in seen:
        shown.close()
        assert {url.partition("#")[0] for url in sight.requests} == {address}
        assert sight.complaints == []


@pytest.fixture
def traces() -> list[Trace]:
    return [plain_trace(), spec_trace()]


def committed(shown: Page) -> list[str]:
    """The committed text of each lane, as a reader of the page would copy it."""
    return shown.locator(".lane").evaluate_all(
        "lanes => lanes.map(lane => [...lane.querySelectorAll('.pane .tok')].map(token => token.textContent).join(''))"
    )


def test_linked_modules_export_what_the_browser_s_own_loader_gives(browser: Browser, tmp_path: Path) -> None:
    """Every module of the player, by both ways: a linker that drops, renames or misplaces something differs here."""
    names = sorted(str(path.relative_to(page.PLAYER)) for path in page.PLAYER.rglob("*.js"))
    every = "".join(f'import * as m{at} from "./{name}";\n' for at, name in enumerate(names))
    modules = ", ".join(f'"{name}": m{at}' for at, name in enumerate(names))
    text_of = "(m) => Object.fromEntries(Object.entries(m).map(([name, given]) => [name, `${typeof given} ${given}`]))"
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((page.PLAYER / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "every.js").write_text(
        f"{every}export const modules = {{ {modules} }};\n"
        f"export function describe() {{ const textOf = {text_of};\n"
        "  window.texts = Object.fromEntries(Object.entries(modules).map(([name, m]) => [name, textOf(m)])); }\n",
        encoding="utf-8",
    )
    linked = linker.link(tmp_path, "every.js", "describe")

    def serve(route: Route) -> None:
        asked = route.request.url.removeprefix("http://player.test/")
        body = (tmp_path / asked).read_text(encoding="utf-8") if asked.endswith(".js") else "<!doctype html>"
        route.fulfill(body=body, content_type="text/javascript" if asked.endswith(".js") else "text/html")

    shown = browser.new_page()
    shown.route("**/*", serve)
    shown.goto("http://player.test/")
    native = shown.evaluate("import('/every.js').then(({ describe }) => (describe(), window.texts))")
    shown.evaluate("delete window.texts")
    shown.add_script_tag(content=linked)
    bundled = shown.evaluate("window.texts")
    shown.close()
    assert native.keys() == set(names)
    for name in names:
        # A function's text may differ where it names the module's own address, and nowhere else.
        assert bundled[name].keys() == native[name].keys(), name
        for exported, text in native[name].items():
            assert bundled[name][exported] == text.replace("import.meta.url", linker.NOWHERE), (
                f"{name}: {exported}"
            )


def test_a_page_from_disk_plays_with_the_keys_and_writes_the_trace_s_own_text(
    opened: Open, traces: list[Trace]
) -> None:
    shown = opened(page.make(traces))
    player = shown.locator(".player")
    expect(shown.locator(".provenance:not(.slowed)")).to_contain_text("recorded · a test, 2026-01-01")
    assert committed(shown) == [trace.text for trace in traces]
    player.focus()
    shown.keyboard.press("Home")
    assert committed(shown) == ["", ""]
    for _ in range(3):
        shown.keyboard.press("ArrowDown")
    expect(shown.locator(".transcript")).to_contain_text("Round 3")
    tokens = sum(len(row.committed.token) for row in traces[1].rounds[:3])
    assert committed(shown)[1] == "".join(traces[1].output.texts[:tokens])
    shown.keyboard.press("End")
    assert committed(shown) == [trace.text for trace in traces]


def test_the_place_is_in_the_address_and_comes_back_from_it(opened: Open, traces: list[Trace]) -> None:
    text = page.make(traces)
    first = opened(text)
    first.locator(".player").focus()
    first.keyboard.press("Home")
    first.keyboard.press("ArrowDown")
    first.keyboard.press("ArrowRight")
    first.wait_for_url(re.compile(r"#.*round=2"), wait_until="commit")
    assert "null" not in first.url
    transcript = first.locator(".transcript").inner_text()
    second = opened(text, first.url[first.url.index("#") :])
    expect(second.locator(".transcript")).to_have_text(transcript)
    second.evaluate("location.hash = '#round=1'")
    expect(second.locator(".transcript")).to_contain_text("Round 1")
    second.locator(".player").focus()
    for at in (2, 3):
        second.keyboard.press("ArrowDown")
        second.wait_for_url(re.compile(rf"#round={at}"), wait_until="commit")
    second.evaluate("location.hash = '#round=2'")  # a place that was left behind
    expect(second.locator(".transcript")).to_contain_text("Round 2")
    third = opened(text, "#round=9e9&node=<b>&view=%3Cimg%3E&x=1")
    assert committed(third) == [trace.text for trace in traces]


def test_hostile_texts_are_shown_as_text(opened: Open, traces: list[Trace]) -> None:
    for trace in traces:
        trace.header.prompt = HOSTILE
        trace.header.machine = HOSTILE
    shown = opened(page.make(traces, [HOSTILE, "b"], title=HOSTILE))
    expect(shown.locator(".lane .prompt").first).to_contain_text("<script>window.hacked = 1</script>")
    expect(shown.locator("h1")).to_contain_text("<img src=x onerror='window.hacked = 1'>")
    assert committed(shown) == [trace.text for trace in traces]  # with <script> and <img> among the tokens
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("img, .player script").count() == 0


def test_a_packed_record_plays_and_a_damaged_one_gets_a_sentence(
    opened: Open, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PACK_BYTES", 0)
    text = page.make(traces)
    shown = opened(text)
    shown.locator(".lane").first.wait_for()
    assert committed(shown) == [trace.text for trace in traces]
    broken = opened(re.sub(r'(data-packed="deflate">").{200}', r"\1", text))
    expect(broken.get_by_role("status")).to_have_text(
        "The record in this page is damaged. Ask for the file again."
    )


def test_a_browser_that_cannot_unpack_is_reported(
    opened: Open, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one change to the page, its missing part, stands in a script whose hash is allowed beside the page's own."""
    monkeypatch.setattr(page, "PACK_BYTES", 0)
    link = page.link
    monkeypatch.setattr(page, "link", lambda *given: "delete window.DecompressionStream;\n" + link(*given))
    page._linked.cache_clear()
    text = page.make(traces)
    page._linked.cache_clear()
    shown = opened(text)
    expect(shown.get_by_role("status")).to_contain_text("cannot unpack the record")


def test_a_saved_record_is_the_trace(opened: Open, traces: list[Trace]) -> None:
    shown = opened(page.make(traces))
    with shown.expect_download() as download:
        shown.get_by_role("button", name="Save “Draft model").click()
    assert Trace.from_json(Path(download.value.path()).read_bytes()) == traces[1]


def test_a_notebook_s_frame_plays_and_sees_nothing_of_the_notebook(
    browser: Browser, traces: list[Trace]
) -> None:
    shown = browser.new_page()
    sight = Sight(shown)
    shown.set_content(f"<script>secret = 1</script>{traces[1].show(traces[0])._repr_html_()}")
    frame = shown.frame_locator("iframe")
    frame.locator(".player").focus()
    shown.keyboard.press("Home")
    shown.keyboard.press("ArrowDown")
    expect(frame.locator(".transcript")).to_contain_text("Round 1")
    inner = shown.frames[1]
    assert (
        inner.evaluate("() => { try { return parent.secret } catch (error) { return error.name } }")
        == "SecurityError"
    )
    shown.wait_for_timeout(600)  # the place is reported after a moment; there is no address to keep it in
    assert [url for url in sight.requests if not url.startswith("about:")] == []
    assert sight.complaints == []
    shown.close()


def test_separate_runs_are_called_so_and_another_machine_s_has_no_speedup(opened: Open) -> None:
    """Catches: a measured speedup over a baseline of another run, without a word about it."""
    apart = [plain_trace(), spec_trace()]
    shown = opened(page.make(apart))
    expect(shown.locator(".speedup-value")).to_contain_text("×")
    apart[0].header.created = "2026-01-02T00:00:00Z"
    shown = opened(page.make(apart))
    expect(shown.locator(".speedup-value")).to_contain_text("×")
    expect(shown.locator(".provenance:not(.slowed)").first).to_contain_text(
        "two separate runs on the same machine"
    )
    apart[0].header.machine = "another"
    shown = opened(page.make(apart))
    shown.locator(".lane").first.wait_for()
    expect(shown.locator(".speedup-value")).to_be_hidden()
    expect(shown.locator("header").first).to_contain_text(
        "differ in machine, so their times are not compared"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_system_and_prints_in_black_on_white(
    opened: Open, traces: list[Trace], scheme: str
) -> None:
    shown = opened(page.make(traces), color_scheme=scheme)
    expect(shown.locator(".player")).to_have_attribute("data-theme", scheme)
    shown.emulate_media(media="print")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(shown.locator("#saving")).to_be_hidden()
    expect(shown.locator(".controls")).to_be_hidden()
    shown.emulate_media(media="screen")
    shown.set_viewport_size({"width": 390, "height": 844})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


# --- the lab ----------------------------------------------------------------------------------------------------------


def test_a_run_of_the_lab_goes_home_as_one_page_that_plays(open_page: Open) -> None:
    shown = open_page("/?tokens=16&seed=7")
    shown.get_by_role("button", name=RUN).click()
    expect(shown.get_by_text("Target passes saved")).to_be_visible(timeout=60_000)
    expect(shown.locator(".lane")).to_have_count(2)
    assert "seed=7" in shown.url
    shown.get_by_role("button", name="Download", exact=True).click()
    with shown.expect_download() as download:
        shown.get_by_role("button", name="Player (HTML)").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and '"seed":7' in text
    assert download.value.suggested_filename.endswith(".html")


def test_a_presentation_is_the_player_alone_in_large_type_and_escape_leads_back(open_page: Open) -> None:
    shown = open_page("/?seed=7")
    shown.goto(f"{shown.url}&present=1")
    shown.locator(".player .lane").last.wait_for()
    for gone in ("stHeader", "stSidebar", "stToolbar"):
        assert shown.get_by_test_id(gone).locator("visible=true").count() == 0
    for gone in (shown.get_by_role("heading", name="Specdec Lab"), shown.get_by_role("button", name=RUN)):
        expect(gone).to_be_hidden()
    shown.set_viewport_size({"width": 1024, "height": 768})
    assert shown.evaluate("getComputedStyle(document.documentElement).fontSize") == f"{LARGE_REM}px"
    small = shown.locator(".player").evaluate(
        """player => [...player.querySelectorAll('*')]
             .filter((part) => part.checkVisibility() && part.getClientRects().length)
             .filter((part) => [...part.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
             .filter((part) => parseFloat(getComputedStyle(part).fontSize) < 20)
             .map((part) => `${part.className} ${part.textContent.slice(0, 30)}`)"""
    )
    assert small == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1024
    # Nothing above it that its frame would run through, nothing below the window, and how it is led without buttons.
    expect(shown.locator(".st-key-look-for")).to_be_hidden()
    main = "document.querySelector('[data-testid=stMain]')"
    assert shown.evaluate(f"{main}.scrollHeight - {main}.clientHeight") <= 0
    expect(shown.locator(".player .buttons")).to_be_hidden()
    expect(shown.locator(".player .by-keys")).to_have_text("Space: play · ← →: step")
    expect(shown.locator(".player .by-keys")).to_be_visible()
    shown.keyboard.press("Home")  # with no click before
    shown.keyboard.press("ArrowDown")
    expect(shown.locator(".transcript")).to_contain_text("Round 1")
    expect(shown.locator(".lane").locator("visible=true")).to_have_count(1)
    for view in ("mask", "odds", "tree"):
        shown.keyboard.press("v")
        shown.wait_for_url(re.compile(f"view={view}"), wait_until="commit")
        shown.wait_for_timeout(700)  # the page's answer to what it received before must not move the player
        expect(shown.locator(".panel").locator("visible=true")).to_have_count(1)
        expect(shown.locator(".panel-tab[aria-pressed=true]")).to_have_text(
            {"tree": "Round", "mask": "Mask and KV cache", "odds": "Odds"}[view]
        )
    shown.set_viewport_size({"width": 1440, "height": 900})
    ends = [
        shown.locator(f".player {part}").evaluate("one => one.getBoundingClientRect().bottom")
        for part in (".panels", ".strip")
    ]
    assert abs(ends[0] - ends[1]) <= 8  # the tree has the room that its words leave
    shown.keyboard.press("Escape")
    expect(shown.get_by_role("button", name=RUN)).to_be_visible()
    shown.wait_for_url(lambda url: "present" not in url and "seed=7" in url, wait_until="commit")


def test_the_builder_gives_a_link_with_the_settings(open_page: Open) -> None:
    shown = open_page("/?tokens=9&proposer=prompt-lookup&hide=settings")
    shown.get_by_role("button", name="Teacher's link").click()
    shown.get_by_text("As a presentation").click()
    code = shown.locator("[data-testid=stCode] code")
    expect(code).to_contain_text("present=1")
    link = code.inner_text()
    assert "tokens=9" in link and "proposer=prompt-lookup" in link and "hide" not in link
    shown.goto(link.replace("&present=1", ""))
    shown.locator(".st-key-more button").first.click()
    expect(shown.get_by_role("combobox", name="Proposer")).to_have_value("Prompt lookup")
