"""The router: page configuration and navigation; each page is a script of its own in app_pages."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.records.database import Unavailable
from app.text import plain
from app.ui import address, frame, presenter
from app.ui.state import state

st.set_page_config(page_title="Specdec Lab", page_icon=Path(__file__).with_name("icon.png"), layout="wide")

page = st.navigation(
    [
        st.Page("app_pages/lab.py", title="Lab", icon=":material/science:", url_path="lab", default=True),
        st.Page("app_pages/compare.py", title="Compare", icon=":material/view_week:", url_path="compare"),
        st.Page("app_pages/course.py", title="Course", icon=":material/school:", url_path="course"),
        st.Page("app_pages/library.py", title="Library", icon=":material/inventory_2:", url_path="library"),
    ],
    position="top",
)
address.catch_up(page.url_path)
state.presented = presenter.presenting()
try:
    if page.url_path == "course":
        from app.course import top

        frame.draw("course", *top.shown())
    else:
        frame.draw(page.url_path)
    page.run()
except Unavailable as error:
    st.error(plain(str(error)), icon=":material/error:")
