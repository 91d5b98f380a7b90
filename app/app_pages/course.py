"""The course: the list of lessons, and the lesson in the address, step by step."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from app.course import languages, overview, progress, steps, teaching
from app.course.common_claims import claims_view
from app.course.files import reading
from app.course.files.words import Words
from app.course.misconceptions import inventory_view
from app.course.printed import sheet, worked
from app.text import plain
from app.ui import presenter, quirks

words = Words(languages.chosen(), reading.FOLDER)
listed = overview.listed(words.language, st.query_params.get("order", ""))

st.html(quirks.style(Path(overview.__file__).with_name("course.css").read_text(encoding="utf-8")))
teaching.dress(words)
if "rail" not in teaching.hidden():
    overview.rail(listed, words)
for sentence in teaching.problems(words):
    st.warning(plain(sentence), icon=":material/link_off:")
key = st.query_params.get("lesson")
lesson, problems = reading.read(words.language, key) if key else (None, [])
if key and lesson is None:
    if problems:
        st.error(words("course.broken"), icon=":material/report:")
        for problem in problems:
            st.markdown(f"- {plain(str(problem))}")
    else:
        st.warning(words("course.unknown", name=plain(key[:40])), icon=":material/search_off:")
if "sheet" in st.query_params:
    sheet.draw(listed, words)
elif "worked" in st.query_params:
    worked.draw(words)
elif "claims" in st.query_params:
    claims_view.draw(words)
elif "inventory" in st.query_params:
    inventory_view.draw(st.query_params["inventory"], words)
elif "teach" in st.query_params:
    overview.teach(listed, words)
elif lesson is None:
    overview.draw(listed, words)
else:
    place = overview.place(lesson.id, listed, words) if presenter.presenting() else ""
    st.title(f"{lesson.number} · {plain(lesson.front.title)}{place}", anchor=False)
    steps.draw(
        lesson,
        words,
        partial(overview.onward, lesson.id, listed, words),
        overview.before(lesson.id, listed),
    )
progress.save()
