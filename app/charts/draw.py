"""A chart on a page: title above, source of the numbers below, text in the page's colour."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from app.theme import TEXT

from .chart import Chart


def draw(chart: Chart, key: str) -> None:
    """Draw `chart` across the page's column; `key` must be unique on the page."""
    st.markdown(f"**{chart.title}**")
    # Streamlit's own grey is too pale
    figure = inked(chart.figure, TEXT.dark if st.context.theme.type == "dark" else TEXT.light)
    st.plotly_chart(figure, alt=chart.alt, config={"displayModeBar": False}, key=key, width="stretch")
    if chart.provenance:
        st.caption(chart.provenance)


def inked(figure: go.Figure, colour: str) -> go.Figure:
    """A copy of the figure with all text in one colour."""
    figure = go.Figure(figure.to_dict())
    font = {"color": colour}
    figure.update_layout(font=font, legend={"font": font}, hoverlabel={"font": font})
    figure.update_xaxes(tickfont=font, title={"font": font})
    figure.update_yaxes(tickfont=font, title={"font": font})
    figure.update_annotations(font=font)
    figure.update_coloraxes(colorbar={"tickfont": font, "title": {"font": font}})
    for trace in figure.data:
        if trace.type == "contour":
            trace.contours.labelfont.color = colour
        elif trace.type in ("heatmap", "scatter"):
            trace.textfont.color = colour
    return figure
