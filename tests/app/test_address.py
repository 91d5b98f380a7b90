"""A change of the address holds although the browser's next message does not know it yet."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app.ui import address, quirks


def page() -> None:
    import streamlit as st

    from app.ui import address

    def go(value: str | None) -> None:
        address.put("at", value)

    address.catch_up(st.session_state.get("other_page", "page"))
    for name in ("a", "b"):
        st.button(name, on_click=go, args=(name,))
    st.button("out", on_click=go, args=(None,))
    st.button("nothing")
    st.text(st.query_params.get("at", "—"))


def bare() -> None:
    """The same by Streamlit's means alone."""
    import streamlit as st

    def go(value: str) -> None:
        st.query_params["at"] = value

    st.button("a", on_click=go, args=("a",))
    st.button("nothing")
    st.text(st.query_params.get("at", "—"))


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://localhost:8501/?run=x", True),
        ("http://127.0.0.1:8501/library", True),
        ("http://[::1]:8501/", True),
        ("http://lab.example.org/", False),
        ("http://192.168.1.4:8501/", False),
        ("http://localhost.example.org/", False),
        ("", False),
    ],
)
def test_an_address_that_leads_nowhere_for_others_is_known(url: str, own: bool) -> None:
    """Catches: a link to 127.0.0.1 handed to a class without a word."""
    assert address.on_this_machine(url) == own


@pytest.fixture
def at() -> AppTest:
    return AppTest.from_function(page).run()


def press(at: AppTest, label: str, sent: str | None) -> str:
    """Press a button; the browser says of the address what `sent` is. What the script read then."""
    at.query_params.clear()
    if sent is not None:
        at.query_params["at"] = sent
    next(button for button in at.button if button.label == label).click()
    at.run()
    assert not at.exception
    return at.text[0].value


def test_a_late_message_does_not_undo_what_was_written(at: AppTest) -> None:
    """Catches: a lesson that falls back to its first step, a run that vanishes, a choice of two that becomes one."""
    assert press(at, "a", None) == "a"
    assert press(at, "nothing", None) == "a"
    assert press(at, "nothing", None) == "a"
    assert press(at, "b", None) == "b"
    assert press(at, "nothing", None) == "b"  # two changes behind
    assert press(at, "nothing", "a") == "b"
    assert press(at, "out", "a") == "—"
    assert press(at, "nothing", "b") == "—"


def test_streamlit_itself_takes_the_browsers_late_address_for_the_truth() -> None:
    """The mishap is produced here: when this reads "a", `quirks.LaggingAddress` can go."""
    at = AppTest.from_function(bare).run()
    assert press(at, "a", None) == "a"
    assert press(at, "nothing", None) == "—"


def test_another_address_of_the_browsers_holds(at: AppTest) -> None:
    assert press(at, "a", None) == "a"
    assert press(at, "nothing", "elsewhere") == "elsewhere"
    assert press(at, "nothing", None) == "—"


def test_the_way_back_another_page_and_time_end_it(at: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a way back that leads nowhere, since what it leaves is written again."""
    press(at, "a", None)
    with monkeypatch.context() as back:
        back.setattr(quirks, "came_by_history", lambda: True)
        assert press(at, "nothing", None) == "—"
    assert press(at, "nothing", None) == "—"
    press(at, "a", None)
    at.session_state.other_page = "other"
    assert press(at, "nothing", None) == "—"
    press(at, "b", None)
    monkeypatch.setattr(quirks, "LAG_S", -1.0)
    assert press(at, "nothing", None) == "—"
