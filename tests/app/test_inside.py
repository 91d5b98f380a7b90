"""What is in a head's files, beside the model picker."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.decoding import preparing
from specdec_core.foundations.errors import ModelError

HEAD = Path(__file__).resolve().parents[1] / "core" / "published" / "speculators-fc-norm"


def test_a_process_of_its_own_looks_into_a_head_and_says_what_is_wrong() -> None:
    """Catches: a report that loses its parts on the way, a traceback in place of the sentence."""
    report = preparing.inspect(str(HEAD))
    assert report["title"] == "an EAGLE-3 head" and report["loads"] and len(report["parts"]) > 5
    with pytest.raises(ModelError, match="holds no model"):
        preparing.inspect(str(HEAD.parent))


def _page() -> None:
    from app.choosing import inside

    inside.show(
        {
            "name": "a*b",
            "title": "an EAGLE-3 head",
            "loads": False,
            "verdict": "'<b>x</b>' has the tensor '[y](z)'.",
            "facts": [["Written by", "<script>alert(1)</script>"]],
            "parts": [
                {"purpose": "norm", "names": "<i>n</i>", "tensors": 1, "parameters": 1000, "dtype": "F16"}
            ],
        }
    )


def test_what_files_say_reaches_the_page_as_text() -> None:
    """Catches: markup from a tensor's name or an entry that the page would interpret."""
    page = AppTest.from_function(_page).run()
    assert not page.exception
    tables = " ".join(one.proto.body for one in page.get("html"))
    said = " ".join(str(one.value) for one in [*page.markdown, *page.caption])
    assert "&lt;script&gt;" in tables and "<script>" not in tables and "<i>n" not in tables
    assert "a\\*b" in said and "<b>x" not in said
