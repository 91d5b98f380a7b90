"""What the course's page shows: a new step, lesson or list starts at its top."""

from __future__ import annotations

import streamlit as st

from . import languages, overview
from .misconceptions import inventory_view


def shown() -> tuple[str, str]:
    """The lesson and its step, the claims, a question, the sheets or the list of lessons; and the language."""
    asked = [st.query_params.get(key, "") for key in (*overview.PARTS, "sheet") if key != inventory_view.AT]
    return " ".join([*asked, inventory_view.standing()]), languages.chosen()
