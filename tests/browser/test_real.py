"""The chat model as the server's default: it takes over by itself, answers a message, and shows what it reads.

The server is set up as for a school: below a path of its host name, with a PostgreSQL and a cookie secret of its own;
these tests also find what such a server cannot do.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Page

from ..app import postgres
from .conftest import RUN, STILL, Come, Server, Sight, expect, serving, until

LOAD_S = 300
WRITE_S = 120
BELOW = "/school/specdec"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a database of its own; where PostgreSQL is not installed, these tests are skipped, and fail in CI."""
    if postgres.programs() is None and not os.environ.get("CI"):
        pytest.skip("No PostgreSQL was found (Debian: apt-get install postgresql).")
    with postgres.server() as server, postgres.database(server, "lab") as url:
        yield url


@pytest.fixture(scope="module")
def comes_with(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with which the chat model comes; it is not there yet."""
    return tmp_path_factory.mktemp("comes") / "now"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, database: str, comes_with: Path) -> Iterator[Server]:
    """A server whose default is the chat model, which set-up brings."""
    settings = {
        "COMES_WITH": str(comes_with),
        "SPECDEC_DEFAULT_MODELS": "smollm2-135m-instruct",
        "SPECDEC_PATH": BELOW,
        "SPECDEC_DATABASE": database,
        "SPECDEC_COOKIE_SECRET": secrets.token_hex(16),
    }
    with serving(tmp_path_factory.mktemp("real") / "log.txt", "tests.browser.late", **settings) as found:
        yield found


def opened(real: Server, come: Come, complaints: Sight, address: str = "/") -> Page:
    page = come()
    page.set_default_timeout(LOAD_S * 1000)  # two cores may be loading weights meanwhile
    complaints.watch(page)
    page.goto(real.url + BELOW + address)
    page.get_by_role("button", name=RUN).wait_for()
    return page


def test_words_that_are_being_typed_survive_the_models_becoming_ready(
    real: Server, comes_with: Path, complaints: Sight, come: Come
) -> None:
    """Catches: a page that is drawn anew when the default becomes ready and loses what nobody has sent yet; a Run
    that is elsewhere when it is pressed."""
    page = opened(real, come, complaints)
    box = page.get_by_label("Prompt", exact=True)
    box.fill("Name a colour that")  # not sent: the box still has the focus
    loading = page.get_by_text("The models are loading")
    expect(loading).to_be_visible()
    parts = [box, page.get_by_role("button", name=RUN), page.locator(".race").first]

    def places() -> list[float]:
        return [(part.bounding_box() or {})["y"] for part in parts]

    places()  # the player is there
    page.locator(STILL).wait_for(state="attached")
    before = places()
    comes_with.touch()
    until(lambda: real.health()["default"] == "ready", LOAD_S, lambda: real.log()[-2000:])
    expect(loading).to_be_hidden(timeout=30_000)
    expect(box).to_have_value("Name a colour that")
    until(lambda: places() == before, 10, lambda: f"{places()} instead of {before}")


def test_a_message_is_answered_and_the_page_shows_what_is_read(
    real: Server, comes_with: Path, database: str, complaints: Sight, come: Come
) -> None:
    """Catches: a default run that goes to the tiny models, or bare, without the chat template; below a path, a
    stream, a trace or a download that is looked for at the root."""
    comes_with.touch()
    until(lambda: real.health()["default"] == "ready", LOAD_S, lambda: real.log()[-2000:])
    page = opened(real, come, complaints, "/?preset=chat-code/palindrome&tokens=24")
    before, done = stored(database), real.health()["runs"]["done"]
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("What the model reads").click()
    read = page.locator(".st-key-templated code")
    expect(read).to_contain_text("<|im_start|>user")
    expect(read).to_contain_text("checks whether a word is a palindrome")
    page.keyboard.press("Escape")  # it would lie over Run
    page.get_by_role("button", name=RUN).click()
    until(lambda: real.health()["runs"]["done"] > done and real.busy() == 0, WRITE_S)
    expect(page.locator(".leads .committed")).to_contain_text("def", timeout=30_000)
    assert (page.locator(".lane .prompt").first.text_content() or "").endswith("\n\n")
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace (JSON)").first.click()
    assert json.loads(Path(download.value.path()).read_bytes())["format"] == "specdec-trace"
    until(lambda: stored(database) == before + 1, WRITE_S)  # it is stored beside the page


def stored(database: str) -> int:
    """How many runs the library has."""
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT count(*) FROM runs").fetchone()
    return int(found[0]) if found else 0
