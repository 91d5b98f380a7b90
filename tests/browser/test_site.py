"""The static site opened from disk, and in it what the player does without times and coins."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Browser

from app.export.page import make
from app.site.build import write
from specdec_measure.adapters import foreign
from tests.browser.conftest import Sight, expect
from tests.player.samples import spec_trace

OWN = (
    *("index.html", "live.html", "races.html", "course.html", "lessons/draft-verify.html"),
    *("de/live.html", "de/course.html", "de/lessons/draft-verify.html", "de/claims.html", "claims.html"),
)


def test_the_site_works_from_disk(browser: Browser, tmp_path: Path, complaints: Sight) -> None:
    """Catches: a page that needs a server, asks for anything, has a broken link, or is wider than a phone."""
    places = write(tmp_path)
    assert {*OWN, "races/welcome.html"} <= set(places)
    for place in places:
        if place.endswith(".zip"):
            continue
        text = (tmp_path / place).read_text(encoding="utf-8").split('<script type="application/json"')[0]
        for link in re.findall(r'href="([^"]+)"', text):
            if not link.startswith(("https:", "data:", "#")):
                assert (tmp_path / place).parent.joinpath(link.partition("#")[0]).is_file(), (place, link)
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    complaints.watch(page)
    for place in OWN:
        page.goto((tmp_path / place).as_uri())
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
    assert (
        page.locator("h2").count() == page.locator("details").count() > 5
    )  # the claims, each with its verdict
    page.goto((tmp_path / "index.html").as_uri())
    page.get_by_role("link", name="Play this run, round by round").click()
    expect(page.locator("#player .leads .tok").first).to_be_visible()
    page.get_by_role("link", name="Races", exact=True).click()
    expect(page.locator(".list a")).to_have_count(sum(place.startswith("races/") for place in places))
    assert all(url.startswith((tmp_path.as_uri(), "blob:")) for url in asked)
    page.close()


def test_what_an_engine_did_not_tell_is_drawn_as_unknown(
    browser: Browser, tmp_path: Path, complaints: Sight
) -> None:
    """Catches: an untimed record that shows a speed, or shows every round at once because no clock ever moves; an
    unknown coin that is drawn."""
    content = json.loads(spec_trace().to_json())
    for row in content["rounds"]:
        for name in [name for name in row if name.endswith("_s")]:
            del row[name]
        del row["nodes"]["coin"]
    del content["stats"]
    (trace,) = foreign.read(json.dumps(content).encode())
    (tmp_path / "run.html").write_text(make([trace], cursor={"round": 1}), encoding="utf-8")
    page = browser.new_page()
    complaints.watch(page)
    page.goto((tmp_path / "run.html").as_uri())
    expect(page.locator(".phases")).to_have_text("its times are not in this record")
    expect(page.locator(".timeline")).to_be_hidden()
    assert page.locator(".lane .number b").all_inner_texts()[1:] == ["—", "3", "—"]
    expect(page.locator(".committed .tok")).to_have_count(len(trace.rounds[0].committed.token))
    page.locator(".prop.rejected").first.click()
    expect(page.locator(".coin.unknown")).to_contain_text("Not in this record.")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".committed .tok")).to_have_count(
        sum(len(row.committed.token) for row in trace.rounds[:2])
    )
    page.close()
