"""The static site inside other pages: the course in a learning platform, as a SCORM 1.2 package, and embedded."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, FrameLocator, Page

from app.course.files import reading
from app.site.build import write
from tests.browser.conftest import ROOT, Sight, expect, until

MOST_KEPT = 4096  # characters of cmi.suspend_data
IMS, ADL = "{http://www.imsproject.org/xsd/imscp_rootv1p1p2}", "{http://www.adlnet.org/xsd/adlcp_rootv1p2}"
PLATFORM = """<!doctype html><title>A platform</title><link rel="icon" href="data:,"><script>
const kept = JSON.parse(sessionStorage.kept ?? "{}"), calls = [];
const call = (name) => (...given) => { calls.push([name, ...given]); return "true"; };
window.API = { LMSInitialize: call("initialize"), LMSCommit: call("commit"), LMSFinish: call("finish"),
  LMSGetValue: (name) => kept[name] ?? "",
  LMSSetValue: (name, value) => { kept[name] = value; sessionStorage.kept = JSON.stringify(kept); return "true"; } };
</script><iframe src="package/scorm.html" width="1000" height="800"></iframe>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(folder)
    (folder / "platform.html").write_text(PLATFORM, encoding="utf-8")
    with zipfile.ZipFile(folder / "specdec-course-scorm.zip") as packed:
        packed.extractall(folder / "package")
    return folder


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port(site: Path) -> Iterator[int]:
    """A static host; 127.0.0.1 and localhost are two sites to a browser."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser, complaints: Sight) -> Iterator[Page]:
    shown = browser.new_page()
    complaints.watch(shown)
    yield shown
    shown.close()


def lock(frame: FrameLocator, value: str) -> None:
    frame.locator(f"input[value={value}]").check()
    frame.get_by_role("button", name="Lock my answer").click()


def values(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.evaluate("({...kept})")
    return {name.removeprefix("cmi."): value for name, value in found.items()}


def test_the_manifest_names_every_file_of_the_package(site: Path) -> None:
    """Catches: a page that is missing or not named, an identifier twice or of nothing, a link out of the package."""
    inside = {path.relative_to(site / "package").as_posix() for path in (site / "package").rglob("*.*")}
    root = ElementTree.parse(site / "package" / "imsmanifest.xml").getroot()
    assert [part.tag for part in root] == [IMS + name for name in ("metadata", "organizations", "resources")]
    assert [part.text for part in root[0]] == ["ADL SCORM", "1.2"]
    named = [file.attrib["href"] for file in root.iter(f"{IMS}file")]
    assert len(named) == len(set(named)) and {*named, "imsmanifest.xml"} == inside
    ids = [part.attrib["identifier"] for part in root.iter() if "identifier" in part.attrib]
    assert len(ids) == len(set(ids)) and root[1].attrib["default"] == root[1][0].attrib["identifier"]
    (item,), (resource,) = root.iter(f"{IMS}item"), root.iter(f"{IMS}resource")
    assert item.attrib["identifierref"] == resource.attrib["identifier"]
    assert resource.attrib[f"{ADL}scormtype"] == "sco" and resource.attrib["href"] in named
    for place in named:
        text = (site / "package" / place).read_text(encoding="utf-8")
        for link in re.findall(r'<a[^>]* href="([^"#]+)', text.split('<script type="application/json"')[0]):
            if not link.startswith("https:"):
                assert (site / "package" / place).parent.joinpath(link).is_file(), (place, link)


def test_a_platform_is_told_and_gives_back_what_was_locked(page: Page, site: Path, port: int) -> None:
    """Catches: a score or a status that is not reported, one student's answers shown to the next, no end."""
    page.goto(f"http://localhost:{port}/platform.html")
    inner = page.frame_locator("iframe").frame_locator("iframe")
    expect(inner.get_by_role("status")).to_contain_text("Kept by your course platform.")
    assert page.evaluate("calls.map(([name]) => name)") == ["initialize", "commit"]
    expect(inner.get_by_role("button", name="Clear")).to_have_count(0)
    inner.get_by_role("link", name="0 · The race").click()
    lock(inner, "both")
    lock(inner, "depends")
    until(lambda: values(page)["core.score.raw"] == "4", 10)  # one of 25
    assert values(page)["core.lesson_status"] == "incomplete"
    assert json.loads(values(page)["suspend_data"])["race"]["predict"]["given"] == "both"
    assert page.evaluate("calls.at(-1)[0]") == "commit"
    page.reload()  # the same student again
    inner.get_by_role("link", name="0 · The race").click()
    expect(inner.locator("input:checked")).to_have_count(2)
    page.evaluate("sessionStorage.clear()")
    page.reload()  # another student at the same machine
    expect(inner.locator(".list li").first).to_contain_text("Prediction: not yet")
    page.evaluate("document.querySelector('iframe').src = 'about:blank'")
    until(lambda: page.evaluate("calls.at(-1)") == ["finish", ""], 10)


def test_all_checks_complete_the_course_and_fit_into_what_a_platform_keeps(page: Page, port: int) -> None:
    """Catches: a course that is never complete, a score of the wrong share, answers too long to be kept."""
    kept = {}
    for at, (_, key, _, _) in enumerate(reading.titles("en")):
        lesson, _ = reading.read("en", key)
        assert lesson is not None
        every = list(lesson.sections["predict"].items)
        guess = {"several": every, "number": 99.123, "choice": max(every, key=len, default="")}
        check = max(lesson.sections["check"].items, key=len)
        kept[key] = {
            "predict": {"given": guess[lesson.front.predict.kind], "right": False, "at": "2026-01-01"},
            "check": {"given": check, "right": at % 5 > 0, "at": "2026-01-01"},
        }
    text = json.dumps(kept, separators=(",", ":"))
    assert len(text) <= MOST_KEPT
    page.goto(f"http://localhost:{port}/course.html")
    page.evaluate("text => { sessionStorage.kept = JSON.stringify({'cmi.suspend_data': text}) }", text)
    page.goto(f"http://localhost:{port}/platform.html")
    until(lambda: values(page).get("core.lesson_status") == "completed", 10)
    assert values(page)["core.score.raw"] == "80"


def test_without_a_platform_the_package_is_the_course(page: Page, port: int) -> None:
    """Catches: a package that waits for an API, or fails without one."""
    page.goto(f"http://localhost:{port}/package/scorm.html")
    inner = page.frame_locator("iframe")
    inner.get_by_role("link", name="0 · The race").click()
    lock(inner, "code")
    inner.get_by_role("link", name="Course").click()
    expect(inner.get_by_role("status")).to_contain_text("1 of 25 locked, 1 right")
    expect(inner.get_by_role("status")).to_contain_text("Kept in this browser only.")


def test_the_documented_frames_work_in_another_sites_page(page: Page, site: Path, port: int) -> None:
    """Catches: a line of the documentation that shows nothing in a slide, a lesson that needs the device's storage."""
    lines = re.findall(
        r"<iframe src=.*?</iframe>", (ROOT / "docs" / "app.md").read_text(encoding="utf-8"), re.DOTALL
    )
    lesson, live = (line.replace("https://your.host", f"http://127.0.0.1:{port}") for line in lines)
    sandboxed = lesson.replace("<iframe", '<iframe sandbox="allow-scripts"')
    (site / "slide.html").write_text(
        f'<title>A slide</title><link rel="icon" href="data:,">{lesson}{sandboxed}{live}', encoding="utf-8"
    )
    page.goto(f"http://localhost:{port}/slide.html")
    for at in (0, 1):
        frame = page.frame_locator("iframe").nth(at)
        lock(frame, "code")
        expect(frame.locator(".verdict").first).to_have_text("✓ Right, and locked.")
    frame.get_by_role("link", name="Course", exact=True).click()
    expect(frame.get_by_role("status")).to_contain_text("Not kept")
    running = page.frame_locator("iframe").nth(2)
    expect(running.locator("#status")).to_have_text(re.compile("^Done"), timeout=60_000)
    expect(running.get_by_label("Your words")).to_have_value("The moon")
