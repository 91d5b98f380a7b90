"""What a visitor, another site or a broken disk may try: nothing is read, run or kept that must not be."""

from __future__ import annotations

import csv
import io
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.testing.v1 import AppTest

from app import charts, services
from app import config as policy
from app.decoding.runs import Runs
from app.lanes import page_settings
from app.records import access as entries
from app.records import visitor
from app.records.database import LibraryError, Unavailable
from app.records.store import Library
from app.records.summary import Summary
from app.running import downloads
from app.text import plain
from app.web import routes
from app.web.headers import KnownHosts, OwnPages
from specdec_core.record.trace import Trace
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.totals import csv_of, summary

from .kept import ANNA, add, finish
from .test_compare import opened
from .test_page import page
from .test_runs import until

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"


# Other sites


async def greet(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"origin": "http://127.0.0.1:8713"}, True),
        ({}, True),  # no browser
        ({"origin": "http://127.0.0.1:8799"}, False),  # another program of this machine
        ({"origin": "http://localhost:8713"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://lab.example", "sec-fetch-site": "same-origin"}, True),  # a proxy renamed the host
        ({"origin": "http://127.0.0.1:8713", "sec-fetch-site": "cross-site"}, False),
        ({"host": "evil.example", "origin": "http://evil.example"}, False),  # DNS rebinding
    ],
)
def test_a_web_socket_opens_for_this_server_s_own_pages_only(headers: dict[str, str], taken: bool) -> None:
    """A browser sends the visitor's cookie along with any page's web socket. Catches: a page on another port that reads
    a visitor's runs."""
    headers = {"host": "127.0.0.1:8713", **headers}
    app = Starlette(
        routes=[WebSocketRoute("/_stcore/stream", greet)],
        middleware=[Middleware(KnownHosts, hosts=lambda: ("127.0.0.1",)), Middleware(OwnPages)],
    )
    with TestClient(app) as client:
        if taken:
            with client.websocket_connect("/_stcore/stream", headers=headers) as socket:
                assert socket.receive_text() == "hello"
        else:
            with (
                pytest.raises(WebSocketDisconnect),
                client.websocket_connect("/_stcore/stream", headers=headers),
            ):
                pass


def test_the_server_has_these_guards(fresh: Runs) -> None:
    """The app that is served, not one with its parts. Catches: a guard that is written and not put in place."""
    from app.web.server import app

    client = TestClient(app, base_url="http://127.0.0.1:8713")  # not entered: nothing is warmed up
    assert client.get("/healthz").status_code == 200
    assert client.get("/lab", headers={"host": "evil.example"}).status_code == 400
    # a container asks itself by another name than its visitors do
    for path in ("/healthz", "/metrics"):
        assert client.get(path, headers={"host": "evil.example"}).status_code == 200
    page = client.get("/healthz", headers={"accept": "text/html"})
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["set-cookie"].startswith(visitor.COOKIE)
    other = {"origin": "http://127.0.0.1:8799"}
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/_stcore/stream", headers=other),
    ):
        pass
    assert refused.value.code == 1008


def test_the_lab_is_found_by_its_name(fresh: Runs) -> None:
    with TestClient(Starlette(routes=routes.routes()), follow_redirects=False) as client:
        answer = client.get("/lab?gamma=3&prompt=a%20b")
    assert (answer.status_code, answer.headers["location"]) == (307, "./?gamma=3&prompt=a%20b")


# What was deleted, and disks that fail


def test_a_deleted_run_is_gone_from_the_server_s_memory_too(saving: Runs) -> None:
    """Catches: "Delete for good" that leaves the run at the lab's address, for anybody who has it."""
    saved = finish(saving)
    assert saved is not None
    with TestClient(Starlette(routes=routes.routes())) as client:
        client.cookies.set(visitor.COOKIE, ANNA)
        assert client.get(f"/traces/{saved.id}-0.json").status_code == 200
        at = AppTest.from_file(MAIN, default_timeout=30)
        at.switch_page("app_pages/library.py")
        at.query_params["run"] = saved.id
        at.run()
        assert not at.exception
        at.button(key="delete").click().run()
        assert not at.exception
        assert services.library().get(ANNA, saved.id) is None and saving.get(saved.id) is None
        for path in (f"/traces/{saved.id}-0.json", f"/traces/{saved.id}-1.json", f"/runs/{saved.id}/events"):
            assert client.get(path).status_code == 404


def broken(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement fail as on a full disk."""

    def fail(*_: object, **__: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    for engine in (library._database._engine, library._database._writer):
        monkeypatch.setattr(engine, "begin", fail)


def test_a_library_that_fails_says_so_in_one_sentence_on_every_page(
    saving: Runs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = services.library()
    broken(library, monkeypatch)
    with pytest.raises(Unavailable, match="database or disk is full"):
        library.runs_of(ANNA)
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.switch_page("app_pages/library.py")
    at.run()
    assert not at.exception
    assert any("The library cannot be read or written just now" in error.value for error in at.error)
    with TestClient(Starlette(routes=routes.routes())) as client:
        answer = client.get("/traces/some-run-0.json")
        assert answer.status_code == 503 and "disk is full" in answer.json()["error"]


def test_a_run_that_could_not_be_kept_is_said_to_be_so(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: "Every run you finish is kept here", while the disk is full."""

    def full(_: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(fresh, "_save", full)
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.run()
    at.button(key="go").click().run()
    (run,) = fresh._jobs.all()
    assert run.wait(20)
    until(lambda: run.unsaved)
    at.run()
    assert not at.exception
    assert any("could not keep this run" in warning.value for warning in at.warning)


def test_a_run_from_the_library_goes_home_as_one_page_and_a_deleted_one_says_so(
    saving: Runs,
) -> None:
    saved = finish(saving)
    assert saved is not None
    library = services.library()
    library.rename(ANNA, saved.id, "My run / <b> №1")
    named = library.get(ANNA, saved.id)
    assert named is not None
    entry = entries.of_saved(named)
    assert downloads.file_name(entry) == "specdec-My-run-b-1"
    labels = [lane.label for lane in entry.lanes]

    def page() -> str:
        def read(at: int) -> bytes:
            return entries.data(entry, at, ANNA, library)

        return downloads.page_of(labels, read, entry.title, True).decode()

    made = page()
    assert made.startswith("<!doctype html>") and made.count('type="application/json"') >= 3
    assert "separate runs" not in made.partition("<main>")[0]
    library.delete(ANNA, saved.id)
    assert "deleted" in page()
    assert "deleted" in entries.data(entry, 0, ANNA, library).decode()


def test_a_damaged_file_is_reported_and_not_a_crash(
    tmp_path: Path, kept: list[tuple[Summary, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "library.sqlite3"
    library = Library(path)
    add(library, kept)
    library.close()
    content = path.read_bytes()
    damaged = content[:4096] + b"\xff" * (len(content) - 4096)
    path.write_bytes(damaged)
    with pytest.raises(LibraryError, match=r"that file is damaged \(.*It was not changed"):
        Library(path)
    assert path.read_bytes() == damaged

    path.write_bytes(content)
    library = Library(path)
    path.write_bytes(damaged)  # while a server uses it
    with caplog.at_level(logging.CRITICAL), pytest.raises(Unavailable, match="What it keeps was not changed"):
        library.runs_of(ANNA)


@pytest.mark.parametrize("name", ["a?mode=ro&b.sqlite3", "other.sqlite3?x=1", "a#b%20c.sqlite3"])
def test_the_library_s_file_is_the_one_that_was_named(tmp_path: Path, name: str) -> None:
    """Catches: a name with a question mark, of which the database driver takes only the first half."""
    Library(tmp_path / name).close()
    assert {path.name for path in tmp_path.iterdir()} == {name}


# The operator's words


@pytest.mark.parametrize(
    ("named", "hosts"),
    [
        ("Lab.Example", ("lab.example",)),
        (" lab.example , [::1] ", ("lab.example", "[::1]")),
        ("10.0.0.7", ("10.0.0.7",)),
    ],
)
def test_host_names_are_read_whatever_their_case(named: str, hosts: tuple[str, ...]) -> None:
    assert policy.read({"SPECDEC_ALLOWED_HOSTS": named, "SPECDEC_LIBRARY": ""}).hosts == hosts


@pytest.mark.parametrize(
    ("environment", "answered", "refused"),
    [
        ({"HOST": "127.0.0.1"}, ["localhost", "127.0.0.1", "[::1]"], ["192.168.1.5", "evil.example"]),
        (
            {"HOST": "0.0.0.0"},
            ["192.168.1.5", "[fe80::1]", "localhost", "{own}", "{own}.local"],
            ["evil.example"],
        ),
        ({"SPECDEC_ALLOWED_HOSTS": "*", "HOST": "0.0.0.0"}, ["evil.example"], []),
        ({"SPECDEC_ALLOWED_HOSTS": "lab.example", "HOST": "0.0.0.0"}, ["Lab.Example"], ["192.168.1.5"]),
    ],
)
def test_the_names_a_server_answers_to(
    environment: dict[str, str], answered: list[str], refused: list[str]
) -> None:
    """Catches: a server in a classroom that a page of another site reaches by a name of its own (DNS rebinding)."""
    hosts = policy.read(environment).hosts
    own = socket.gethostname().split(".")[0]
    assert [name for name in answered if not policy.answers_to(name.format(own=own), hosts)] == []
    assert [name for name in refused if policy.answers_to(name, hosts)] == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SPECDEC_ALLOWED_HOSTS", "lab.example:8714"),
        ("SPECDEC_ALLOWED_HOSTS", "*, lab.example"),
        ("SPECDEC_ALLOWED_HOSTS", "http://lab.example"),
        ("SPECDEC_FRAME_ANCESTORS", "lms.example"),
        ("SPECDEC_FRAME_ANCESTORS", "https://lms.example/course"),
        ("SPECDEC_FRAME_ANCESTORS", "https://a.example; script-src *"),
        ("HOST", "256.1.1.1"),
        ("HOST", "a b"),
        ("SPECDEC_LIBRARY", "x" * 300),
        ("SPECDEC_CACHE", "/dev/null/x"),
        ("SPECDEC_CACHE", __file__),
        ("SPECDEC_CACHE", "/" + "x" * 300),
    ],
)
def test_what_would_lock_everybody_out_or_fail_later_is_one_sentence(variable: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{variable} has to"):
        policy.read({"SPECDEC_LIBRARY": "", variable: value})


def test_a_folder_for_converted_models_is_made_when_it_is_needed(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "a" / "b"):
        policy.read({"SPECDEC_LIBRARY": "", "SPECDEC_CACHE": str(folder)})


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SPECDEC_ALLOWED_HOST", "lab.example", "is not a setting; did you mean SPECDEC_ALLOWED_HOSTS[?]"),
        ("SPECDEC_XYZ", "1", "is not a setting[.]"),
        ("SPECDEC_LOG", "xml", "has to be json or empty, got 'xml'"),
        ("SPECDEC_LIBRARY_MB", "9", "has to be a whole number from 10 to 99999999"),
        ("SPECDEC_LIBRARY_MB", "many", "has to be a whole number from 10 to 99999999"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(variable: str, value: str, words: str) -> None:
    """Catches: a misspelled setting, which an operator believes to be in force."""
    with pytest.raises(ValueError, match=f"^{variable} {words}"):
        policy.read({"SPECDEC_LIBRARY": "", variable: value})


def test_the_settings_that_are_known_are_those_that_are_read() -> None:
    """Catches: a new setting that the server refuses, and one that nothing reads any more."""
    root = Path(__file__).resolve().parents[2]
    texts = [
        path.read_text("utf-8") for house in ("app", "specdec_*") for path in root.glob(f"{house}/**/*.py")
    ]
    read = {name for text in texts for name in re.findall(r"""["']SPECDEC_([A-Z_]+)["']""", text)}
    assert read == set(policy.SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], "HOST say where"),
        (["--prot", "3"], "unrecognized arguments: --prot 3"),
        ([], "error: Port {port} is in use; PORT names another."),
    ],
)
def test_a_server_that_cannot_start_says_why_before_it_touches_the_library(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    """Catches: `--help` that starts a server, and a library that is upgraded by a server that cannot listen."""
    library = tmp_path / "library.sqlite3"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env={**os.environ, "PORT": port, "SPECDEC_LIBRARY": str(library)},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert words.format(port=port) in done.stdout + done.stderr
    assert done.returncode == (0 if "--help" in arguments else 2)
    assert "Traceback" not in done.stderr and not library.exists()


def test_ctrl_c_ends_the_server_without_a_traceback() -> None:
    """A terminal sends the signal to all of the server's processes. Catches: the KeyboardInterrupt that uvicorn raises
    once it has ended, left to Python; one in a process that is still importing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-m", "app"],
        env={**os.environ, "PORT": port, "SPECDEC_LIBRARY": "", "SPECDEC_DEFAULT_MODELS": "tiny"},
        cwd=Path(__file__).resolve().parents[2],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored where tests run in the background
    )
    assert server.stderr is not None
    try:
        assert any("listens on" in line for line in server.stderr)
        os.killpg(server.pid, signal.SIGINT)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
    # 0 where uvicorn itself takes the exception that it raises
    assert server.returncode in (0, 130) and "Traceback" not in said


# Links, texts and files


@pytest.mark.parametrize("value", ["inf", "-inf", "1e400", "nan", "0", "21", "2.5", "x"])
def test_a_link_s_numbers_of_a_sweep_are_checked(value: str) -> None:
    for number in (page_settings.SWEEP_MOST, page_settings.SWEEP_REPEATS):
        found, (problem,) = page_settings.read({number.key: [value]}, page_settings.SWEEP)
        assert found == {}
        assert problem.startswith(f"{number.title} has to be a whole number from 1 to {number.high:g}")


@pytest.mark.parametrize("params", [{"sweep_most": "inf"}, {"sweep_repeats": "-inf"}, {"sweep_measure": ""}])
def test_such_links_open_the_comparison(fresh: Runs, prompts: Path, params: dict[str, str]) -> None:
    opened(**params)


def test_a_prompt_too_long_for_the_address_comes_back_with_its_run(saving: Runs, prompts: Path) -> None:
    long = "abc " * 700
    saved = finish(saving, long)
    assert saved is not None and len(long) > page_settings.MAX_PROMPT_IN_LINK
    at = page(run=saved.id)
    assert at.text_area(key="prompt").value == long


def test_no_table_holds_a_formula() -> None:
    row = MeasuredCase('=HYPERLINK("http://evil")', "+1+1", 0, "@SUM(1)", 0, tokens=20, seconds=1.0)
    for table in (summary([row]), summary([replace(row, family="\t=1", label="-1")])):
        (line,) = csv.DictReader(io.StringIO(csv_of(table)))
        texts = [value for name, value in line.items() if name in ("family", "label")]
        assert len(texts) == 2 and all(text.startswith("'") for text in texts)
    assert float(line["tokens_per_second"]) == 20.0


def test_signs_of_writing_direction_do_not_turn_round_what_follows() -> None:
    assert plain("a\u202e<img") == "a\ufffd\\<img"
    assert plain("שלום") == "שלום"


def test_quotes_stay_quotes_in_charts(race_traces: list[Trace]) -> None:
    """plotly reads &lt; and &amp;, and shows &quot; as it stands."""
    names = ["a", 'say "hi" & it\'s <b>']
    for draw in (charts.tokens_against_time, charts.round_timeline, charts.difference_strip):
        figure = str(draw(race_traces, names, "measured").figure.to_dict())
        assert "&quot;" not in figure and "&#x27;" not in figure
        assert "<b>" not in figure and "&lt;b&gt;" in figure


def test_a_record_without_rounds_cannot_claim_any_ratio(race_traces: list[Trace]) -> None:
    trace = race_traces[1]
    header = replace(trace.header, settings=trace.header.settings | {"record": "off"})
    bare = replace(trace, header=header, rounds=[])
    assert bare.audit() == []
    assert replace(bare, stats=replace(bare.stats, acceptance_rate=None)).audit() == []  # a tree, perhaps
    for lie in ({"tokens_per_pass": 1e308}, {"acceptance_rate": 0.999}, {"tokens_per_second": 1e9}):
        (found,) = replace(bare, stats=replace(bare.stats, **lie)).audit()  # type: ignore[arg-type]
        assert next(iter(lie)) in found
    assert len(replace(bare, stats=replace(bare.stats, target_passes=0)).audit()) == 1
