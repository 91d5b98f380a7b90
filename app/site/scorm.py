"""The course as a SCORM 1.2 package: one unit, whose page reports to the platform what is locked in those inside it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from html import escape

from . import pages
from .texts import TEXTS

ENTRY = "scorm.html"
SINCE = (1980, 1, 1, 0, 0, 0)  # a zip's first date: the same pages give the same bytes


def place() -> str:
    """The package's name, in the language of `TEXTS`."""
    return f"specdec-course-scorm{'-' * bool(TEXTS.folder)}{TEXTS.folder.rstrip('/')}.zip"


def package(site: Mapping[str, str]) -> bytes:
    """The package as a zip, from the site's pages by place: the course, its lessons, the runs they link to."""
    course = f"{TEXTS.folder}course.html"
    lessons = sorted(place for place in site if place.startswith(f"{TEXTS.folder}lessons/"))
    races = {race for place in lessons for race in re.findall(r'href="(?:\.\./)+(races/[^"#]+)', site[place])}
    files = {ENTRY: _entry(len(lessons))}
    for place in (course, *lessons, *sorted(races)):
        back = f'<nav><a href="{"../" * place.count("/")}{course}">{escape(TEXTS["course"])}</a></nav>'
        files[place] = re.sub("<nav>.*?</nav>", back, site[place], count=1)
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as packed:
        for place, text in {"imsmanifest.xml": _manifest(files), **files}.items():
            packed.writestr(zipfile.ZipInfo(place, SINCE), text, zipfile.ZIP_DEFLATED)
    return found.getvalue()


def _entry(lessons: int) -> str:
    title, script = escape(f"{TEXTS['name']} · {TEXTS['course']}"), pages.script("lms")
    return f"""<!doctype html>
<html lang="{TEXTS.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{pages.allowing(script)}; frame-src 'self'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; }}
html, body {{ margin: 0; block-size: 100%; }}
iframe {{ display: block; inline-size: 100%; block-size: 100%; border: 0; }}
</style>
</head>
<body>
<noscript><a href="{TEXTS.folder}course.html">{title}</a></noscript>
<iframe title="{title}" data-lessons="{lessons}" data-course="{TEXTS.folder}course.html"></iframe>
<script>{script}</script>
</body>
</html>
"""


def _manifest(files: Mapping[str, str]) -> str:
    title = escape(f"{TEXTS['name']}: {TEXTS['title']}")
    named = "\n".join(f'<file href="{place}"/>' for place in files)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<manifest identifier="specdec-course" version="1.0" xmlns="http://www.imsproject.org/xsd/imscp_rootv1p1p2"
 xmlns:adlcp="http://www.adlnet.org/xsd/adlcp_rootv1p2">
<metadata><schema>ADL SCORM</schema><schemaversion>1.2</schemaversion></metadata>
<organizations default="course">
<organization identifier="course">
<title>{title}</title>
<item identifier="lessons" identifierref="pages"><title>{title}</title></item>
</organization>
</organizations>
<resources>
<resource identifier="pages" type="webcontent" adlcp:scormtype="sco" href="{ENTRY}">
{named}
</resource>
</resources>
</manifest>
"""
