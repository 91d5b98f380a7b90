"""A room with real browsers: a host, a projector and two students through a lesson; what axe finds on their pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from .axe import AXE
from .conftest import Come, Server, Sight, expect

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OUTLINE = """() => {
    const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
    return [outlineStyle, parseFloat(outlineWidth) > 0];
}"""
MOST_TABS = 60  # more than a page has stops
SMALL: dict[str, Any] = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture
def visit(server: Server, complaints: Sight, come: Come) -> Callable[..., Page]:
    """A page in a browser of its own."""

    def open_one(address: str, **options: Any) -> Page:
        page = come(**options)
        complaints.watch(page)
        page.goto(server.url + address)
        return page

    return open_one


LOOKS: list[tuple[dict[str, Any], str]] = [
    ({"width": width, "height": height}, scheme)
    for width, height in ((390, 844), (1440, 900))
    for scheme in ("dark", "light")
]
looked: Counter[str] = Counter()


def no_findings(*pages: Page) -> None:
    """No page has anything that axe finds, or needs to be scrolled sideways.

    Each kind of page has another size and colour scheme at each state, so that all get all four during a lesson.
    """
    for page in pages:
        kind = page.url.partition("/r")[2].partition("?")[0][7:]
        size, scheme = LOOKS[looked[kind] % len(LOOKS)]
        looked[kind] += 1
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.evaluate(AXE)
        found = page.evaluate(
            "async (values) => (await axe.run(document, {runOnly: {type: 'tag', values}})).violations"
            ".map(({id, nodes}) => `${id}: ${nodes.map(({html}) => html).join(' | ')}`)",
            TAGS,
        )
        assert found == [], (page.url, size, scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page.url, size, scheme)


def tab(page: Page, wanted: str) -> None:
    """Move the focus by Tab alone until it is on what is wanted, and see that it shows."""
    page.locator(wanted).first.wait_for()
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.querySelector(wanted) === document.activeElement", wanted):
            break
    style, wide = page.evaluate(OUTLINE)
    assert page.evaluate("(wanted) => document.activeElement.matches(wanted)", wanted), (page.url, wanted)
    assert style != "none" and wide, (page.url, wanted)


def enter(page: Page, wanted: str) -> None:
    tab(page, wanted)
    page.keyboard.press("Enter")


def press(host: Page, *names: str) -> None:
    """The host's buttons, one after the other, without a mouse."""
    for name in names:
        enter(host, f"#do-{name}")


def said(page: Page, text: str) -> None:
    expect(page.locator("main")).to_contain_text(text)


def test_a_lesson_in_a_room(visit: Callable[..., Page], complaints: Sight) -> None:
    """Catches: a state that a page does not follow, an answer that a reload loses, a page that axe refuses."""
    host = visit("/r/start")
    said(host, "Start the server with HOST=0.0.0.0 make run")  # before it is too late
    no_findings(host)
    enter(host, "form button.main")
    host.locator("#state").wait_for()
    assert "#" not in host.url  # the secret is not left where it can be projected
    code = host.url.split("/r/")[1][:6]
    screen = visit(f"/r/{code}/screen", color_scheme="dark")
    anna = visit(f"/r/{code}", **SMALL, color_scheme="dark")
    ben = visit("/r?lang=de", **SMALL)
    said(screen, "HOST=0.0.0.0 make run")
    expect(screen.locator("img")).to_have_count(0)  # a code that nobody else could open
    said(ben, "Dem Raum beitreten")
    no_findings(ben)
    ben.get_by_label("Code").fill(f"{code[:3].lower()} {code[3:]}")
    ben.keyboard.press("Enter")
    ben.wait_for_url(f"**/{code}?lang=de")
    said(ben, f"Raum {code} beitreten")
    for page, waiting in ((anna, "Waiting for the first question"), (ben, "Warten auf die erste Frage")):
        enter(page, "main button")
        said(page, waiting)
    expect(screen.locator("#here")).to_have_text("2 here")
    said(screen, "Only this computer can open the room")
    enter(host, "#phone summary")
    expect(host.locator("#phone img")).to_have_js_property("complete", value=True)
    host.keyboard.press("Enter")
    no_findings(host, screen, anna)

    press(host, "open")
    anna.locator("#picture .prompt, #picture .drawn >> nth=1").first.wait_for()
    expect(screen.locator("#count")).to_have_text("0 of 2 answered")
    no_findings(host, screen, anna, ben)
    enter(host, "#cards summary")
    tab(host, "#cards-0")
    host.keyboard.type("7")
    anna.keyboard.press("1")
    anna.keyboard.press("Enter")
    said(anna, "Locked in")
    ben.context.set_offline(True)
    ben.locator(".option").nth(1).click()
    ben.locator("#lock").click()
    expect(ben.locator(".away .reconnect")).to_be_visible()
    ben.context.set_offline(False)
    said(ben, "Festgelegt")
    complaints[:] = [each for each in complaints if "ERR_INTERNET_DISCONNECTED" not in each]
    expect(screen.locator("#count")).to_have_text("2 of 2 answered")
    expect(screen.locator(".bars")).to_have_count(0)
    expect(host.locator("#count")).to_have_text("2 of 2 answered")
    expect(host.locator("#cards-0")).to_have_value("7")  # votes arrive while the host types
    expect(host.locator("#cards-0")).to_be_focused()
    anna.reload()
    said(anna, "You said:")
    said(anna, "Locked in")
    enter(anna, "#lost")
    expect(anna.locator(".lost .small")).to_be_visible()  # also for those who see: it has arrived
    expect(host.locator("#part-strip")).to_contain_text("“I’m lost”: 1")

    press(host, "close", "discuss")
    said(anna, "Convince your neighbour")
    no_findings(host, screen, anna)
    press(host, "again")
    anna.locator("#answer").wait_for()
    said(ben, "noch einmal ab")
    expect(ben.locator("#picture > *")).not_to_have_count(0)  # it was there in the discussion, and stays
    anna.keyboard.press("b")
    anna.keyboard.press("Enter")
    said(anna, "First you said:")
    press(host, "close", "reveal")
    said(anna, "Right answer:")
    expect(screen.locator(".bars thead")).to_contain_text("After the discussion")
    no_findings(host, screen, anna)

    ben.context.set_offline(True)
    press(host, "watch")
    said(ben, "Ihre Lehrperson steuert")  # Chromium keeps an open stream; nothing new can be fetched
    expect(ben.locator("#picture > *")).to_have_count(0)
    ben.context.set_offline(False)
    complaints[:] = [each for each in complaints if "ERR_INTERNET_DISCONNECTED" not in each]
    for page in (screen, anna, ben, host):
        page.locator("#picture .control").first.wait_for()
    named = host.locator("#picture .control button").all_inner_texts()
    enter(host, "#picture .control button:nth-of-type(2)")
    for page in (screen, anna):  # they say what is chosen, with nothing to press
        expect(page.locator("#picture .control b")).to_have_text(named[1])
        expect(page.locator("#picture :is(button, select, input)")).to_have_count(0)
    expect(ben.locator("#picture .control b")).not_to_have_text(named[1])  # in the other language
    no_findings(host, screen, anna)
    press(host, "play")
    anna.locator("#picture .control button").first.click()
    expect(anna.locator("#picture .control button").first).to_have_attribute("aria-pressed", "true")
    expect(screen.locator("#picture .control b")).to_have_text(named[1])
    expect(screen.locator("#challenge")).to_have_count(0)  # before anybody has run a tree
    anna.locator("#own summary").click()
    anna.locator("#own-go").click()
    expect(anna.locator("#own-run")).to_contain_text("tokens per target pass")
    expect(screen.locator("#challenge li")).to_have_count(1)
    expect(host.locator("#ran")).to_contain_text("1")
    no_findings(host, screen, anna)

    press(host, "check")
    expect(screen.locator("#count")).to_have_text("0 of 2 answered")
    no_findings(host, screen, anna)
    anna.keyboard.press("1")
    anna.keyboard.press("Enter")
    said(anna, "Locked in")
    press(host, "close", "reveal")
    no_findings(host, screen, anna)

    enter(host, "#starter summary")
    tab(host, "#prompt")
    host.keyboard.type("Once upon a time")  # over the suggested prompt, which Tab has selected
    host.keyboard.press("Enter")
    for page in (host, screen, anna):
        expect(page.locator("#run")).to_contain_text("Once upon a time")
    expect(host.locator("#run")).to_be_in_viewport()  # though the press was far below
    press(host, "ask", "longer")  # looking takes longer than the vote's twenty seconds
    anna.locator("#vote").wait_for()
    for page in (host, screen, anna):
        expect(page.locator(".clock")).to_have_text(re.compile(r"[345]\d s left"))
    press(host, "wait")  # leaves the vote, so once is not enough
    expect(host.locator("#do-wait")).to_have_text("Abandon the vote: Show the joining code")
    no_findings(host, screen, anna)
    anna.keyboard.press("1")
    said(anna, "Locked in")
    expect(host.locator("#counted")).to_contain_text("accepted 1")
    expect(anna.locator("#verdict")).to_have_count(0)
    press(host, "verdict")
    expect(anna.locator("#verdict")).to_contain_text("The target")
    expect(host.locator("#count")).to_have_text("2 here")  # not how many have answered what nobody asks
    said(anna, "You said: Accepted")
    no_findings(host, screen, anna)
    press(host, "on")
    expect(screen.locator("#run .piece").nth(8)).to_be_visible()

    other = host.context.new_page()
    other.goto(host.url.partition("/r/")[0] + "/r/start")
    other.get_by_role("link", name=f"Back to your room {code}").click()
    other.locator("#state").wait_for()
    other.close()
    press(host, "end")
    expect(host.locator("#do-end")).to_have_text("End it now, for everybody")
    expect(anna.locator("#run")).to_be_visible()
    press(host, "end")
    said(anna, "The room has ended")
    no_findings(host, screen, anna)
    press(host, "delete", "delete")
    said(ben, "Dieser Raum wurde gelöscht")
    host.reload()
    said(host, "The room and everything in it are deleted")
    complaints[:] = [each for each in complaints if "403" not in each]


def test_what_the_host_steps_through_is_what_all_see(visit: Callable[..., Page]) -> None:
    """Catches: a player that only the host steps; a follower's press or key that moves it; views on a phone that
    scroll within themselves."""
    host = visit("/r/start", **SMALL)
    made = host.evaluate(
        "async (body) => (await fetch('/r/start', {method: 'POST', body: JSON.stringify(body)})).json()",
        {"lessons": ["trees"], "language": "en"},
    )
    host.goto(host.url.replace("start", f"{made['code']}/host#host={made['host']}"))
    screen = visit(f"/r/{made['code']}/screen", viewport={"width": 1280, "height": 720})
    small, wide = visit(f"/r/{made['code']}?lang=de", **SMALL), visit(f"/r/{made['code']}")
    for page in (small, wide):
        enter(page, "main button")
    pages = (host, screen, small, wide)

    press(host, "open", "close", "reveal", "watch")
    for page in pages:
        expect(page.locator("#picture .where")).to_contain_text("3")
    host.locator("#picture .control.next").click()
    for page in pages:
        expect(page.locator("#picture .where")).to_contain_text("4")
    for page in (small, wide):
        expect(page.locator("#picture .control.next")).to_be_hidden()
        assert page.locator("#picture .panels").evaluate("(box) => box.scrollHeight <= box.clientHeight")
        page.locator("#picture .lane").first.click()
        page.keyboard.press("ArrowRight")
    host.evaluate("document.activeElement.blur()")
    host.keyboard.press("ArrowRight")  # a key that the page lends the player
    for page in (host, screen, wide):
        expect(page.locator("#picture .where")).to_contain_text("Round 5")

    wide.reload()
    expect(wide.locator("#picture .where")).to_contain_text("Round 5")
    press(host, "play")
    wide.locator("#picture .control.previous").click()
    expect(wide.locator("#picture .where")).to_contain_text("Round 4")
    expect(screen.locator("#picture .where")).to_contain_text("Round 5")


FITS = "() => document.documentElement.scrollHeight <= innerHeight"


def test_a_question_stays_in_sight_until_it_is_revealed(visit: Callable[..., Page]) -> None:
    """Catches: choices below a projector's edge; a phone that in the discussion has the text about a picture without
    the picture, or without the choices and their letters; bars in a picture that the room's own sheet splits; an answer
    that is locked in beside “you can still answer”."""
    host = visit("/r/start", **SMALL)
    made = host.evaluate(
        "async (body) => (await fetch('/r/start', {method: 'POST', body: JSON.stringify(body)})).json()",
        {"lessons": ["coin"], "language": "en"},
    )
    host.goto(host.url.replace("start", f"{made['code']}/host#host={made['host']}"))
    screen, phone = visit(f"/r/{made['code']}/screen"), visit(f"/r/{made['code']}", **SMALL)
    enter(phone, "main button")

    def all_in_sight() -> None:
        for width, height in ((1024, 768), (1280, 720), (1440, 900)):
            screen.set_viewport_size({"width": width, "height": height})
            screen.wait_for_function(FITS)

    def asked() -> None:
        for page in (screen, phone):
            page.locator("#picture .plot").first.wait_for()
            expect(page.locator(".letters li")).to_have_count(3)
        all_in_sight()

    press(host, "open")
    phone.locator("#option-0").check()
    phone.locator("#lock").click()
    asked()
    for moves in (("close",), ("discuss",), ("again", "close")):
        press(host, *moves)
        asked()
    expect(host.locator("#do-discuss")).to_have_count(0)
    press(host, "reveal")
    said(phone, "Right answer:")
    all_in_sight()
    enter(host, "#open-coin")
    said(phone, "Locked in")
    expect(phone.locator("#status")).to_have_text("Locked in. It cannot be changed now.")
    press(host, "close", "reveal", "watch")
    for page in (screen, phone):
        mark = page.locator("#picture .falls i").first
        mark.wait_for()
        tall, whole = (each.bounding_box() for each in (mark, page.locator("#picture .falls").first))
        assert tall and whole and tall["height"] < whole["height"] / 2
    all_in_sight()
    press(host, "check")
    letters = [page.locator(where) for page, where in ((screen, ".letters li"), (phone, ".option"))]
    letters[0].first.wait_for()
    letters[1].first.wait_for()
    assert letters[0].all_inner_texts() == letters[1].all_inner_texts()
    assert [each[0] for each in letters[1].all_inner_texts()] == list("ABCD")[: letters[1].count()]


LEGIBLE = """(least) => {
    const sizes = [], picture = document.querySelector("#picture") ?? new Text();
    const walker = document.createTreeWalker(picture, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const { data, parentElement: part } = walker.currentNode;
        if (!data.trim() || !part.getClientRects().length) continue;
        const { a, b } = part.getScreenCTM?.() ?? { a: part.currentCSSZoom, b: 0 };
        sizes.push(parseFloat(getComputedStyle(part).fontSize) * Math.hypot(a, b));
    }
    return sizes.length > 0 && Math.min(...sizes) >= least;
}"""


def test_a_picture_is_legible_from_the_back_of_a_room(visit: Callable[..., Page]) -> None:
    """Catches: a picture in print beside a text in large type; two charts, or a drawing and a chart, one below another
    that shrink until nobody can read them."""
    host = visit("/r/start", viewport={"width": 1280, "height": 900})
    made = host.evaluate(
        "async (body) => (await fetch('/r/start', {method: 'POST', body: JSON.stringify(body)})).json()",
        {"lessons": ["race", "length", "rules"], "language": "en"},
    )
    host.goto(host.url.replace("start", f"{made['code']}/host#host={made['host']}"))
    screen = visit(f"/r/{made['code']}/screen", viewport={"width": 1024, "height": 768})
    phone = visit(f"/r/{made['code']}", **SMALL)
    enter(phone, "main button")
    press(host, "open")
    hook, prose = (screen.locator(each).first for each in (".hook", ".prose"))
    sizes = [each.evaluate("(part) => parseFloat(getComputedStyle(part).fontSize)") for each in (hook, prose)]
    assert sizes[0] == sizes[1]
    press(host, "close", "reveal", "watch")
    screen.wait_for_function(LEGIBLE, arg=12.5)
    screen.wait_for_function(FITS)
    enter(host, "#open-length")
    held: list[Route] = []
    screen.route("**/plotly.js", lambda asked: held.append(asked))
    press(host, "close", "reveal", "change")
    screen.locator("#picture .chart .coming").first.wait_for()  # its place, before what draws it has come
    places = [
        box["height"] for chart in screen.locator("#picture .chart").all() if (box := chart.bounding_box())
    ]
    held[0].continue_()
    screen.locator("#picture .xtick").nth(8).wait_for()
    expect(screen.locator("#picture .coming")).to_have_count(0)
    assert len(places) == 2 and min(places) > 150
    screen.wait_for_function(LEGIBLE, arg=14)
    screen.wait_for_function(FITS)
    tops = [screen.locator("#picture .chart").nth(at).bounding_box() for at in (0, 1)]
    assert tops[0] and tops[1] and tops[0]["x"] + tops[0]["width"] < tops[1]["x"]
    enter(host, "#open-rules")
    press(host, "close", "reveal", "watch")
    screen.locator("#picture .xtick").first.wait_for()
    screen.wait_for_function(LEGIBLE, arg=12.5)
    screen.wait_for_function(FITS)
    drawn, chart = (screen.locator(f"#picture {each}").first.bounding_box() for each in (".drawn", ".chart"))
    assert drawn and chart and drawn["x"] + drawn["width"] < chart["x"]
