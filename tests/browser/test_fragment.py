"""A fragment that answers while the page is being drawn leaves what comes after it alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Come, expect, streamlit_alone


@pytest.fixture(scope="module")
def starved() -> Iterator[str]:
    """The address of tests/browser/starved.py."""
    with streamlit_alone(Path(__file__).with_name("starved.py")) as address:
        yield address


@pytest.mark.parametrize("bare", [False, True])
def test_what_is_after_a_fragment_stays(come: Come, starved: str, bare: bool) -> None:
    """Catches: the headline numbers of a finished run overwritten by the player above them on a busy machine.

    The bare one shows that the mishap is produced here at all; when it passes whole, `quirks.fragment` can go.
    """
    page = come()
    page.goto(starved + ("?bare=1" if bare else ""))
    page.get_by_role("button", name="Whole").click()
    page.wait_for_timeout(300)
    page.get_by_role("button", name="Part").click()
    expect(page.get_by_text("pressed 1")).to_be_visible()
    expect(page.get_by_text("further behind")).to_be_visible()
    expect(page.get_by_text("directly behind")).to_have_count(0 if bare else 1)
