"""The comparison's downloads: the table, the traces, and a lane as settings of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app import services
from app.decoding.api import Family
from app.decoding.run import Run
from app.running.downloads import button, of_run
from app.text import count
from specdec_core.models.generation import OFF
from specdec_core.models.tokens.chat import Chat
from specdec_core.record.schema import Header
from specdec_core.record.trace import Trace
from specdec_core.rules import rule_class
from specdec_core.settings import Settings
from specdec_measure.analysis.advice import ineligible
from specdec_measure.analysis.memory import MemoryLine
from specdec_measure.portable import libraries as libraries
from specdec_measure.portable import servers as servers
from specdec_measure.portable import transformers_vllm as portable
from specdec_measure.sweep.totals import csv_of, to_csv

from . import repeats
from .table import frame, table, to_json
from .timing import speeds

# What was run of the other programs, outside of the tests.
NOT_RUN = "From its documentation of 2026; not run here."
RUN = {
    "vLLM": "Draft models, n-grams, EAGLE-3 and suffixes were run with vLLM 0.32.0 on a CPU; the rest is from its "
    "documentation.",
    servers.LLAMA_CPP: "Draft models and n-grams were run with its server of August and November 2026 on a CPU.",
    libraries.OPENVINO: "Such code was run with openvino-genai 2026.4.1.0 on a CPU, in float32.",
    libraries.MLX: "Such code was run with mlx-lm 0.32.2 on a CPU, in float32.",
    libraries.ONNX: "Such code was run with onnxruntime-genai 0.18.0 on a CPU, in float32.",
    libraries.NODE: "Such code was run with node-llama-cpp 3.21.1 on a CPU, in float32.",
}


def show(
    run: Run, traces: Sequence[Trace], numbers: Sequence[int], ledgers: Sequence[list[MemoryLine] | None]
) -> None:
    """Downloads on top, settings below."""
    labels = [run.request.labels[number] for number in numbers]
    lanes = [run.request.lanes[number] for number in numbers]
    again = repeats.rows(run)
    rows = table(traces, lanes, again, ledgers, numbers)
    st.markdown("**The table**")
    with st.container(horizontal=True):
        name = f"specdec-compare-{run.id}"
        button("CSV", lambda: csv_of(frame(rows, labels)), f"{name}.csv", icon="table_view")
        button("JSON", lambda: to_json(rows, labels, _about(run, traces), ledgers), f"{name}.json")
        if again:
            button("Repeats (CSV)", lambda: to_csv(again), f"{name}-repeats.csv", icon="table_view")
    st.markdown("**The race, and each lane's record**")
    of_run(run)
    if turns := len(speeds(again, 0)):
        st.caption(f"All of the first run; the table above has the mean of {count(turns, 'repeat')}.")
    st.markdown("**A lane's settings in other programs**")
    options = list(range(len(numbers)))
    best, out = repeats.recommendation(run), ineligible(run.request.lanes)
    fastest = max(
        (at for at in options if numbers[at] and numbers[at] not in out),
        key=lambda at: traces[at].stats.tokens_per_second or 0.0,
        default=len(numbers) - 1,
    )
    wished = numbers.index(best.best) if best and best.best in numbers else fastest
    at = st.selectbox("Lane", options, index=wished, format_func=labels.__getitem__, key="portable_lane")
    _elsewhere(traces[at].header, lanes[at], services.shelf().ready(run.request.choice))


def _elsewhere(header: Header, lane: Settings, models: Family | None) -> None:
    """A lane's settings in the terms of each program, one tab each."""
    target, draft, chat = (
        header.target.published,
        header.draft.name if header.draft else None,
        _message(header),
    )
    # What the target's own config requested is written out: not every program reads it.
    lane = lane.but(**{name: value for name in OFF if (value := header.settings.get(name)) is not None})
    transformers = portable.transformers_code(
        lane,
        target,
        draft,
        header.dtype,
        models.card.layers if models else None,
        chat=chat,
        requested=models.card.generation if models else None,
        prompt=header.prompt,
    )
    programs = (
        (f"transformers {portable.TRANSFORMERS}", "python", transformers),
        ("vLLM", "bash", portable.vllm_code(lane, target, draft, chat)),
        (servers.SGLANG, "bash", servers.sglang_code(lane, target, draft, chat)),
        (servers.LLAMA_CPP, "bash", servers.llama_cpp_code(lane, target, draft, chat)),
        (servers.LM_STUDIO, "python", servers.lm_studio_code(lane, target, draft, chat, header.prompt)),
        (libraries.OPENVINO, "python", libraries.openvino_code(lane, target, draft, chat, header.prompt)),
        (libraries.MLX, "python", libraries.mlx_code(lane, target, draft, chat, header.prompt)),
        (libraries.ONNX, "python", libraries.onnx_code(lane, target, draft, chat, header.prompt)),
        (libraries.NODE, "javascript", libraries.node_code(lane, target, draft, chat, header.prompt)),
    )
    for tab, (name, language, code) in zip(st.tabs([name for name, _, _ in programs]), programs, strict=True):
        with tab:
            st.code(code, language=language, wrap_lines=True)
            st.caption(checked(lane) if code is transformers else RUN.get(name, NOT_RUN))


def checked(lane: Settings) -> str:
    """What this project's tests say of a lane's code for transformers."""
    same = "Tests run such code with the installed version at temperature 0 and check that it writes the lane's text"
    if lane.temperature > 0:
        return (
            f"{same}. Above 0 the random numbers are different there, so the two texts cannot be compared: tests check "
            "that temperature, top-k, top-p and the penalties are passed on."
        )
    if not rule_class(lane.rule).lossless and lane.proposer != "none":
        return (
            f"{same}, under a lossless rule. This lane's rule is lossy, so its text may differ from that one."
        )
    return f"{same}, token for token."


def _message(header: Header) -> Chat | None:
    """The run's prompt as a chat message, where it was one."""
    return Chat(header.prompt, header.system) if header.chat else None


def _about(run: Run, traces: Sequence[Trace]) -> dict[str, Any]:
    """Caveats to show next to the figures."""
    header = traces[0].header
    return {
        "format": "specdec-comparison",
        "version": 2,  # 1 had the repeats' lowest and highest speedup as "low" and "high"
        "run": run.id,
        "created": header.created,
        "machine": header.machine,
        "device": header.device,
        "dtype": header.dtype,
        "packages": header.packages,
        "target": header.target.name,
        "prompt": run.request.prompt,
        "chat": header.chat,
        "system": header.system,
        "settings": [lane.model_dump(mode="json") for lane in run.request.lanes],
    }
