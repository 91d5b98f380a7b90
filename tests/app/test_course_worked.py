"""The sheet for a round by hand: its answers against pencil and paper, and that it keeps them to itself."""

from __future__ import annotations

import pytest

from app.course.files import reading
from app.course.files.words import Words
from app.course.printed import worked

from .course_page import page, press, sent

WORDS = Words("en", reading.FOLDER)


def test_the_answers_are_those_of_pencil_and_paper() -> None:
    """Catches: an answer key that no student can reach. p = .6 .3 .1, q = .3 .2 .5.

    min(p, q) = .3 .2 .1, so α = .6; p − q leaves .3 .1, so the residual is ¾ and ¼. B is kept (.9 < 1), C is not
    (.45 ≥ .1/.5), and .6 < ¾ draws A. Endings: .4, .6 · .4, .6 · .6; 1 + .6 + .36 tokens per pass.
    """
    found = worked.worked()
    assert found.keep == pytest.approx((1.0, 1.0, 0.2))
    assert found.shared == pytest.approx((0.3, 0.2, 0.1)) and found.alpha == pytest.approx(0.6)
    assert found.missing == pytest.approx((0.3, 0.1, 0.0))
    assert found.residual == pytest.approx((0.75, 0.25, 0.0))
    assert found.verdicts == ("accepted", "rejected") and worked.TOKENS[found.last] == "A"
    assert found.endings == pytest.approx((0.4, 0.24, 0.36))
    assert found.expected == pytest.approx(1.96)


def test_the_sheet_asks_and_answers_only_with_its_key() -> None:
    """Catches: an answer printed for the class, and a key with a blank left."""
    asked, answered = (worked.sheet(WORDS, worked.worked(), key) for key in (False, True))
    assert "<b>" not in asked and asked.count(worked.BLANK) == answered.count("<b>") == 12 + 1 + 4 + 1 + 3 + 1
    assert worked.BLANK not in answered and "<b>B A</b>" in answered and "<b>1.96</b>" in answered


def test_the_page_shows_it_and_leads_back() -> None:
    at = page()
    press(at, "teach")
    press(at, "worked-open")
    assert at.query_params["worked"] in ("1", ["1"]) and "<b>B A" not in sent(at)
    at.toggle(key="worked-with-key").set_value(True).run()
    assert not at.exception and "<b>B A" in sent(at)
    press(at, "worked-back")
    assert "worked" not in at.query_params
