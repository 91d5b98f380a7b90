"""The router: page configuration and navigation; each page is a script of its own in app_pages."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import opening, services

st.set_page_config(page_title="Specdec Lab", page_icon=Path(__file__).with_name("icon.png"), layout="wide")

page = st.navigation(
    [
        st.Page("app_pages/lab.py", title="Lab", icon=":material/science:", url_path="lab", default=True),
        st.Page("app_pages/compare.py", title="Compare", icon=":material/view_week:", url_path="compare"),
        st.Page("app_pages/library.py", title="Library", icon=":material/inventory_2:", url_path="library"),
    ],
    position="top",
)
if services.core_is_here():  # every page offers what the core's tables hold
    page.run()
else:
    opening.show()
