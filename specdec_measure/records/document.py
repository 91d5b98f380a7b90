"""A report as one HTML file: it loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("document.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, parts: Iterable[str]) -> str:
    """The whole file; `parts` are HTML, empty ones left out."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n"
        "</head>\n<body>\n" + "\n".join(filter(None, parts)) + "\n</body>\n</html>\n"
    )
