"""The session's state has one door: `app/ui/state.py` names its keys and types, and nothing else does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.lanes import lane, page_settings
from app.ui.state import State, Widget

APP = Path(__file__).resolve().parents[2] / "app"
OWN = {
    "ui/state.py",
    "ui/address.py",
    "course/drawing/paint.py",
}  # the second keeps what it wrote to the address, the third the values of pictures by keys made of their places
FILES = [path for path in sorted(APP.rglob("*.py")) if str(path.relative_to(APP)) not in OWN]
WIDGETS = {name for name, value in vars(State).items() if isinstance(value, Widget)}


def bare_keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and code of everything that reaches into the state by a key written on the spot.

    A key made at run time (`st.session_state[key]`) is none; nor may the state be given another name, under which it
    would be reached unseen.
    """
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr == "session_state"):
            continue
        user = above[node]
        if isinstance(user, ast.Subscript) and user.value is node:
            key: ast.AST | None = user.slice
        elif isinstance(user, ast.Compare) and isinstance(user.ops[0], ast.In | ast.NotIn):
            key = user.left
        elif isinstance(user, ast.Attribute) and user.attr in ("__setitem__", "get_widget_states"):
            continue  # a callback, which gets its key as an argument; what the browser sent, by the widgets' ids
        elif (
            isinstance(user, ast.Attribute)
            and user.attr in ("get", "pop", "setdefault")
            and isinstance(call := above[user], ast.Call)
        ):
            key = call.args[0]
        else:
            key = None
        if key is None or isinstance(key, ast.Constant | ast.JoinedStr):
            yield node.lineno, ast.unparse(user)


def test_no_key_of_the_state_is_written_where_it_is_used() -> None:
    """Catches: a value of the page's state that `State` does not list, or one read under another type."""
    found = [
        f"{path.relative_to(APP)}:{line}: {code}"
        for path in FILES
        for line, code in bare_keys(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


def test_a_widget_that_the_state_names_takes_its_key_from_there() -> None:
    """Catches: a widget drawn under a key that nobody reads any more."""
    found = [
        f"{path.relative_to(APP)}:{node.lineno}: {node.value.value}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "key"
        if isinstance(node.value, ast.Constant) and node.value.value in WIDGETS
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "bare"),
    [
        ("st.session_state.noted = 1", True),
        ("st.session_state['noted']", True),
        ("st.session_state[f'last_{key}']", True),
        ("st.session_state.get('noted')", True),
        ("'noted' in st.session_state", True),
        ("state = st.session_state", True),
        ("st.session_state[key]", False),
        ("st.session_state.get(key, 0)", False),
        ("key not in st.session_state", False),
    ],
)
def test_a_bare_key_is_recognised(code: str, bare: bool) -> None:
    """Catches: a check of this file that finds nothing because it looks for nothing."""
    assert bool(list(bare_keys(ast.parse(code)))) == bare


def test_every_setting_of_a_link_has_its_widget_s_value_in_the_state() -> None:
    """Catches: a setting that is renamed in an address and not in the state, which would then read its default."""
    assert {number.key for number in page_settings.NUMBERS} | set(lane.KEYS) <= WIDGETS
