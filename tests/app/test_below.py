"""The app below a path of its host name: every address that it gives out is below it too."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from streamlit.testing.v1 import AppTest

from app import config as policy
from app import services
from app.decoding.runs import Runs
from app.export import served
from app.ui import address
from app.web import room

from . import course_page

HOST = "http://127.0.0.1:8713"
PATH = "/school/specdec"


@pytest.fixture
def client(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The app that is served, below `PATH`; not entered, so nothing is warmed up."""
    from app.web.server import app

    below = replace(services.operator(), path=PATH)
    monkeypatch.setattr(services, "operator", lambda: below)
    return TestClient(app, base_url=HOST, follow_redirects=False)


def test_pages_and_what_they_name_are_below_the_path(client: TestClient) -> None:
    """Catches: a page that opens below the path and asks the root of the host for its scripts."""
    for page in ("/", "/compare", "/course", "/library", "/r", "/r/start", "/r/ABCDEF/host"):
        answer = client.get(PATH + page)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
        named = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
        # other pages of Streamlit's answer by the same document: only files tell
        files = [urljoin(HOST + PATH + page, name) for name in named if re.search(r"\.(js|css|png)$", name)]
        assert files
        for file in files:
            found = client.get(file)
            assert (found.status_code, "text/html" in found.headers["content-type"]) == (200, False), file


@pytest.mark.parametrize(
    ("address", "status", "to"),
    [
        ("/", 307, f"{PATH}/"),
        (f"{PATH}?proposer=eagle", 307, f"{PATH}/?proposer=eagle"),
        (f"{PATH}/compare/", 301, f"{PATH}/compare"),
        (f"{PATH}/lab?gamma=3", 307, "./?gamma=3"),
        (f"{PATH}/{served.address()}", 200, None),
        (f"{PATH}/traces/welcome-plain.json", 200, None),
        (f"{PATH}/_stcore/host-config", 200, None),
        (f"{PATH}/healthz", 200, None),
        ("/healthz", 200, None),  # a container asks the process, not the site
        ("/metrics", 200, None),
        ("/compare", 404, None),
        (f"{PATH}x/compare", 404, None),
        ("/traces/welcome-plain.json", 404, None),
        (f"{PATH}/traces/%2e%2e/{PATH}/healthz", 400, None),
    ],
)
def test_addresses_below_the_path_and_beside_it(
    client: TestClient, address: str, status: int, to: str | None
) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer.headers.get("location")) == (status, to)
    if status == 404:
        assert answer.text == f"The app is at {PATH}/ on this server."


def test_a_web_socket_beside_the_path_is_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/_stcore/stream"):
        pass


def test_host_names_are_checked_below_the_path_too(client: TestClient) -> None:
    """Catches: a path that lets a rebound name in, and a health check that a container's own name cannot read."""
    evil = {"host": "evil.example"}
    assert client.get(f"{PATH}/lab", headers=evil).status_code == 400
    assert client.get(f"{PATH}/healthz", headers=evil).status_code == 200


def test_scripts_come_from_files_only_on_a_room_s_pages(client: TestClient) -> None:
    """Catches: a student's words that become a script by a blob's address or by Streamlit's inline ones."""

    def scripts(path: str) -> list[str]:
        policy = client.get(PATH + path).headers["content-security-policy"]
        return [
            rule
            for rule in policy.split("; ")
            if rule.startswith(("script-src", "worker-src", "default-src"))
        ]

    strict = ["default-src 'self'", "script-src 'self'", "worker-src 'self'"]
    for path in ("/r", "/r/start", "/r/ABCDEF", "/r/ABCDEF/host", "/r/ABCDEF/screen"):
        assert scripts(path) == strict
    assert "blob:" in scripts("/")[1] and "blob:" in scripts("/room")[1]


def test_a_room_s_code_to_scan_leads_below_the_path(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    coded = []
    make = room.segno.make
    monkeypatch.setattr(room.segno, "make", lambda text, **more: coded.append(text) or make(text, **more))
    code = room.codes.code()
    assert client.get(f"{PATH}/r/{code}/qr.svg").status_code == 200
    assert coded == [f"{HOST}{PATH}/r/{code}"]


def test_a_path_with_a_hub_s_user_name(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a path that is taken and then compared with its letters written otherwise, or given out unescaped."""
    from app.web.server import app

    given = "/user/ad%C3%A9@uni.example/a%20b"
    path = policy.read({"SPECDEC_PATH": given, "SPECDEC_LIBRARY": ""}).path
    below = replace(services.operator(), path=path)
    monkeypatch.setattr(services, "operator", lambda: below)
    client = TestClient(app, base_url=HOST, follow_redirects=False)
    for written in (given, given.replace("@", "%40")):
        assert client.get(f"{written}/").status_code == client.get(f"{written}/healthz").status_code == 200
        assert client.get(f"{written}/lab?gamma=3").headers["location"] == "./?gamma=3"
    assert client.get("/").headers["location"] == f"{given}/"
    assert client.get("/compare").text == f"The app is at {given}/ on this server."
    coded = []
    make = room.segno.make
    monkeypatch.setattr(room.segno, "make", lambda text, **more: coded.append(text) or make(text, **more))
    code = room.codes.code()
    assert client.get(f"{given}/r/{code}/qr.svg").status_code == 200
    assert coded == [f"{HOST}{given}/r/{code}"]


def links_of(at: AppTest) -> list[str]:
    """The addresses of a page's buttons that are links."""
    assert not at.exception
    return [element.proto.url for element in at.get("link_button")]


def test_buttons_lead_below_the_path() -> None:
    """The links as they are drawn. Catches: one that begins at the root of the host, where another program answers."""
    drawn = []
    for key, step in (("race", "lab"), ("trees", "lab"), ("sandbox", "change"), ("trees", "change")):
        shown = course_page.page(lesson=key, at=step, present="1")
        if (key, step) == ("trees", "change"):  # its picture leads on once a tree is built
            course_page.press(shown, "course-trees-change-start-chain")
        assert links_of(shown), (key, step)
        drawn += links_of(shown)
    for link in drawn:
        assert urljoin(f"{HOST}{PATH}/course", link).startswith(f"{HOST}{PATH}/"), link


@pytest.mark.parametrize(
    ("page", "given", "link"),
    [
        ("", {}, "./"),
        ("", {"proposer": "medusa", "o.nodes": 4}, "./?proposer=medusa&o.nodes=4"),
        ("compare", {"lane": ["a;b=1", "c"]}, "compare?lane=a%3Bb%3D1&lane=c"),
        ("/traces/x-0.json?download=1", {}, "traces/x-0.json?download=1"),
    ],
)
def test_a_link_to_a_page(page: str, given: dict[str, object], link: str) -> None:
    """Catches: a link whose list is one text, and the lab's address, which is empty, as the page that has the link."""
    assert address.href(page, **given) == link


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", ""), ("/", ""), ("specdec", "/specdec"), ("/specdec/", "/specdec"), ("a/b-c.d", "/a/b-c.d"),
        ("/r", None), ("a/r/b", None), ("a//b", None), ("..", None), ("a/../b", None), ("a b", None),
        ("/é", None), ("a?b", None), ("a#b", None), ("%2e", None), ("//evil.example\\", None),
        ("/user/ada@uni.example/proxy/8501", "/user/ada@uni.example/proxy/8501"),
        ("/user/ada%40uni.example", "/user/ada@uni.example"), ("/user/ada.l", "/user/ada.l"),
        ("/user/ad%C3%A9+b=c", "/user/adé+b=c"), ("/a%20b", "/a b"), ("a%2Fb", None), ("a%3Fb", None),
        ("%72", None), ("a/%2E%2E/b", None), ("a%00", None), ("a%FF", None), ("a%5Cb", None), ("a%2541", None),
    ],
)  # fmt: skip
def test_the_path_is_checked(given: str, path: str | None) -> None:
    """Catches: a setting with which every page would be empty."""
    if path is None:
        with pytest.raises(ValueError, match="SPECDEC_PATH has to be a path such as /specdec"):
            policy.read({"SPECDEC_PATH": given, "SPECDEC_LIBRARY": ""})
    else:
        assert policy.read({"SPECDEC_PATH": given, "SPECDEC_LIBRARY": ""}).path == path
