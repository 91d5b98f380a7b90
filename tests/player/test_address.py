"""The cursor in the page's own address."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import Page

from app.player import CURSOR

WRITTEN = "query => import('/player/cursor/address.js').then(({ withCursor }) => withCursor(...query))"
AT = {"round": 3, "step": None, "node": -1, "lead": None, "view": "mask"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "?round=3&node=-1&view=mask"),
        ("?prompt=a+b%26c&step=2&seed=1", "?prompt=a+b%26c&seed=1&round=3&node=-1&view=mask"),
        ("?view=tree&round=1&run=ab", "?view=mask&round=3&run=ab&node=-1"),
        (
            "?lane=ngram%3Bgamma%3D4&lane=you&lead=1",
            "?lane=ngram%3Bgamma%3D4&lane=you&round=3&node=-1&view=mask",
        ),
    ],
)
def test_the_query_names_the_cursor_and_keeps_the_rest(page: Page, before: str, after: str) -> None:
    """Catches: another order or spelling than the page's, which then writes it again as a step of the history."""
    assert page.evaluate(WRITTEN, [before, AT]) == after
    kept = [pair for pair in parse_qsl(before.lstrip("?")) if pair[0] not in CURSOR]
    assert [pair for pair in parse_qsl(after.lstrip("?")) if pair[0] not in CURSOR] == kept
    nowhere = dict.fromkeys(CURSOR)
    assert parse_qsl(page.evaluate(WRITTEN, [after, nowhere]).lstrip("?")) == kept
