"""A table of texts that scrolls within its own frame; unlike Streamlit's, the frame takes the keyboard focus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

STYLE = """<style>
.sd-frame { overflow-x: auto; max-width: 100%; outline-offset: 2px; }
.sd-rows { border-collapse: collapse; width: 100%; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
.sd-rows th, .sd-rows td {
  padding: 0.45rem 0.9rem 0.45rem 0; text-align: left; vertical-align: top; line-height: 1.4;
  border-bottom: 1px solid color-mix(in srgb, currentColor 16%, transparent);
}
.sd-rows thead th { vertical-align: bottom; font-weight: 600; opacity: 0.85; }
.sd-rows tbody th { font-weight: 600; min-width: 8rem; }
</style>"""


def draw(rows: Sequence[Mapping[str, str]], name: str) -> None:
    """Rows of plain text; the first column names the row, and `name` names the table for screen readers."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in rows[0])
    body = "".join(f"<tr>{_cells(list(row.values()))}</tr>" for row in rows)
    st.html(
        f'{STYLE}<div class="sd-frame" tabindex="0" role="region" aria-label="{escape(name, quote=True)}">'
        f'<table class="sd-rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cells(values: Sequence[str]) -> str:
    return f'<th scope="row">{escape(values[0])}</th>' + "".join(
        f"<td>{escape(value)}</td>" for value in values[1:]
    )
