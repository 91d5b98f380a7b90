"""What leans on Streamlit's inside does so in one place, and what it leans on is there; see also tests/browser."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from starlette.websockets import WebSocket, WebSocketState
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import get_script_run_ctx, script_runner
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest

from app.ui import quirks
from app.web.headers import content_security_policy

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(st.__file__).parent / "static"
OURS = [
    path
    for path in sorted((ROOT / "app").rglob("*"))
    if path.suffix in (".py", ".css", ".js") and path != ROOT / "app" / "ui" / "quirks.py"
]


def test_the_installed_streamlit_is_the_one_that_is_described() -> None:
    """With another one look at each work-around; the other tests help."""
    assert st.__version__ == quirks.VERSION


def test_nothing_else_leans_on_streamlit_s_inside() -> None:
    """Catches: a selector or an import of Streamlit's own parts outside of the one module that is looked over."""
    found = []
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        found += [f"{path}: {match[0]}" for match in re.finditer(r"data-testid|stApp\b|_stcore", text)]
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(text)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                found += [f"{path}: {name}" for name in names if name.startswith("streamlit.")]
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def front_end() -> str:
    """Streamlit's own code in the browser."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(STATIC.rglob("*.js")))


@pytest.mark.parametrize("name", quirks.SELECTORS)
def test_each_selector_is_of_a_part_that_there_is_and_is_used(name: str, front_end: str) -> None:
    """Catches: a part that Streamlit calls otherwise now, so that its style is lost without a word."""
    for attribute, value in re.findall(r'\[([a-z-]+)\^?="([^"]+)"', quirks.SELECTORS[name]):
        assert re.search(rf"""["'`]?{attribute}["'`]?\b""", front_end), attribute
        assert attribute != "data-testid" or re.search(rf"""["'`]{value}["'`]""", front_end), value
    used = [path for path in OURS if f":--{name}" in path.read_text(encoding="utf-8")]
    inside = (ROOT / "app" / "ui" / "quirks.py").read_text(encoding="utf-8")
    assert used or f":--{name}" in inside or f'SELECTORS["{name}"]' in inside, "it can go"


def test_style_sheets_name_selectors_that_there_are() -> None:
    named = {name for path in OURS for name in re.findall(r":--([a-z-]+)", path.read_text(encoding="utf-8"))}
    assert named <= quirks.SELECTORS.keys()
    assert (
        quirks.css(":--main > :--page h1 {}")
        == f"{quirks.SELECTORS['main']} > {quirks.SELECTORS['page']} h1 {{}}"
    )
    with pytest.raises(KeyError):
        quirks.css(":--nothing {}")


def test_the_flag_of_the_browser_s_way_back_is_there_and_its_loss_is_loud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches: a flag that is gone and taken for a "no", so that the way back is undone."""
    assert "is_history_navigation" in {field.name for field in fields(ScriptRunContext)}
    for said in (True, False):
        context = SimpleNamespace(is_history_navigation=said)
        monkeypatch.setattr(quirks, "get_script_run_ctx", lambda context=context: context)
        assert quirks.came_by_history() is said
    monkeypatch.setattr(quirks, "get_script_run_ctx", lambda: None)
    assert quirks.came_by_history() is False
    monkeypatch.setattr(quirks, "get_script_run_ctx", SimpleNamespace)
    with pytest.raises(AttributeError):
        quirks.came_by_history()
    monkeypatch.setattr(quirks, "get_script_run_ctx", get_script_run_ctx)

    def page() -> None:
        import streamlit as st

        from app.ui import quirks

        st.text(str(quirks.came_by_history()))

    at = AppTest.from_function(page).run()
    assert not at.exception and at.text[0].value == "False"


def test_a_page_that_both_sides_closed_is_no_error_in_the_log() -> None:
    """It ends once Streamlit's handler tells a closed connection from a message of text."""

    async def nothing() -> Any:
        return {"type": "websocket.disconnect"}

    def line(error: BaseException) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "", (), (type(error), error, None))

    page = WebSocket({"type": "websocket"}, nothing, nothing)  # type: ignore[arg-type]
    page.client_state = WebSocketState.DISCONNECTED
    with pytest.raises(RuntimeError) as told, ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, page.receive()).result()
    handler = (Path(st.__file__).parent / "web/server/starlette/starlette_websocket.py").read_text("utf-8")
    assert "except RuntimeError:" in handler
    assert not quirks.drop_double_close(line(told.value))
    assert quirks.drop_double_close(line(RuntimeError("something else")))


def test_a_press_in_a_part_that_is_gone_is_a_warning() -> None:
    """Once Streamlit is silent about it, `quirks.unless_gone` can go; and no other line of that log is lost."""
    assert script_runner._LOGGER.name == quirks.SCRIPTS_LOG
    source = inspect.getsource(script_runner)
    assert "if not rerun_data.is_auto_rerun:" in source and '"Couldn\'t find fragment with id %s."' in source

    def kept(message: str) -> bool:
        line = logging.LogRecord(quirks.SCRIPTS_LOG, logging.WARNING, "", 0, message, ("id",), None)
        return quirks.drop_missing_fragment(line)

    assert not kept("Couldn't find fragment with id %s. This can happen if")
    assert kept("Something else with a fragment %s")


def test_a_script_that_sets_a_box_s_text_overrides_what_a_browser_brought_along() -> None:
    """And the state has no such key before the box is drawn; as soon as it has, `brought_along` can go."""

    def script() -> None:
        import streamlit as st

        from app.ui import quirks

        st.session_state.found = quirks.brought_along("words")
        if "words" not in st.session_state:
            st.session_state.words = "an example"
        st.text_area("Words", key="words")

    drawn = AppTest.from_function(script).run()
    assert drawn.session_state.found is None
    typed = WidgetState(id=drawn.text_area(key="words").proto.id, string_value="typed")
    back = AppTest.from_function(script)._run(WidgetStates(widgets=[typed]))
    assert back.text_area(key="words").value == "an example"
    assert back.session_state.found == "typed"


def test_a_browser_that_comes_back_to_a_new_session_keeps_what_its_boxes_hold() -> None:
    """Catches: a slider that was moved while the server was started again, put back to what the address says."""

    def script() -> None:
        import streamlit as st

        from app.lanes import page_settings
        from app.ui import address

        if "tokens" not in st.session_state:
            table = (
                page_settings.TOP_P,
                page_settings.TOKENS,
                page_settings.CHAT,
                page_settings.SYSTEM,
                page_settings.SEED,
            )
            address.fill(table, page_settings.read(address.params(), table)[0], anew=True)
        st.slider("p", 0.05, 1.0, step=0.05, key="top_p")
        st.number_input("Tokens", step=1, key="tokens")
        st.number_input("Seed", step=1, key="seed")
        st.toggle("Chat", key="chat")
        st.text_input("System", key="system")

    drawn = AppTest.from_function(script).run()
    assert (drawn.slider(key="top_p").value, drawn.number_input(key="tokens").value) == (1.0, 128)
    slider = WidgetState(id=drawn.slider(key="top_p").proto.id)
    slider.double_array_value.data.append(0.5)
    sent = [
        slider,
        WidgetState(id=drawn.number_input(key="tokens").proto.id, double_value=9.0),
        WidgetState(id=drawn.number_input(key="seed").proto.id, double_value=-1.0),  # none can be used
        WidgetState(id=drawn.toggle(key="chat").proto.id, bool_value=False),
        WidgetState(id=drawn.text_input(key="system").proto.id, string_value="Be brief"),
    ]
    back = AppTest.from_function(script)
    back.query_params["tokens"] = back.query_params["seed"] = "7"
    back._run(WidgetStates(widgets=sent))
    values = [back.session_state[key] for key in ("top_p", "tokens", "seed", "chat", "system")]
    assert values == [0.5, 9, 7, False, "Be brief"]


def test_streamlit_s_page_has_inline_scripts_and_each_is_in_the_policy() -> None:
    """Catches: a script with an attribute, which would be refused, and a work-around for scripts that are no more."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    scripts = quirks.inline_scripts()
    assert scripts, "then the policy needs no hash"
    assert len(scripts) == len(re.findall(r"<script\b", page)) - len(
        re.findall(r"<script\b[^>]*\ssrc=", page)
    )
    rule = content_security_policy(streamlit=True).split("script-src ")[1].split(";")[0].split()
    assert set(scripts) <= set(rule) and "'unsafe-inline'" not in rule


def test_streamlit_s_page_is_in_english_whatever_is_written_on_it() -> None:
    """Else frame.js need not name the language."""
    assert '<html lang="en">' in (STATIC / "index.html").read_text(encoding="utf-8")
    assert not [name for name in inspect.signature(st.set_page_config).parameters if "lang" in name]


def test_streamlit_makes_the_page_the_main_script() -> None:
    """Else `decoding.in_child.forking` can start a process as it is."""

    def page() -> None:
        import sys

        import streamlit as st

        st.text(str(sys.modules["__main__"].__file__))

    at = AppTest.from_function(page).run()
    assert not at.exception
    assert at.text[0].value == at._script_path
