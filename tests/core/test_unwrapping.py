"""The same 5 rounds, 10 guesses and 6 accepted ones out of whatever they were kept in."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

import specdec_core as sd
from specdec_measure.adapters import forms

COUNTS = {
    "acceptance_histogram": [1, 2, 2], "num_spec_steps": 5, "num_accepted_draft_tokens": 6, "num_draft_tokens": 10,
    "num_spec_tokens": 2,
}  # fmt: skip
METRICS = {"speculative_decoding": COUNTS}
LAST = {"id": "q", "choices": [], "usage": {"completion_tokens": 12}, "metrics": METRICS}
PIECE = {"id": "q", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Yes"}}]}
ANSWER = {"id": "q", "choices": [{"index": 0, "finish_reason": "stop"}], "metrics": METRICS}
LINE = (
    "INFO [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: 1.20 tokens/s, "
    "Drafted throughput: 2.00 tokens/s, Accepted: 6 tokens, Drafted: 10 tokens, Per-position acceptance rate: 0.800, "
    "0.400, Avg Draft acceptance rate: 60.0%"
)
NAMELESS = {"id": None}
SSE = "".join(f"data: {json.dumps(one)}\n\n" for one in (PIECE, LAST)) + "data: [DONE]\n"
NAMES = {"num_drafts": 5, "num_draft_tokens": 10, "num_accepted_tokens": 6}
PAGE = "".join(f'vllm:spec_decode_{name}_total{{engine="0"}} {count}.0\n' for name, count in NAMES.items())
TIME = "2026-01-02T03:04:05.678901234Z"


def lines(*records: Any) -> str:
    return "\n".join(json.dumps(one) for one in records)


def query(kind: str, *, last: bool) -> dict[str, Any]:
    """An answer of Prometheus; of a range, the last value counts."""
    rows = [
        {
            "metric": {"__name__": f"vllm:spec_decode_{name}_total", "engine": "0"},
            **({"values": [[1.0, "1"], [2.0, str(count)]]} if last else {"value": [2.0, str(count)]}),
        }
        for name, count in NAMES.items()
    ]
    return {"status": "success", "data": {"resultType": kind, "result": rows}}


WRAPPED = {
    "as it is": json.dumps(ANSWER),
    "a byte-order mark": "\ufeff" + json.dumps(ANSWER),
    "events": SSE,
    "events without a blank": SSE.replace("data: ", "data:").replace("\n", "\r\n"),
    "named events": SSE.replace("data: ", "event: message\nid: 7\ndata: "),
    "events as JSON lines": lines(PIECE, LAST),
    "events as a list": json.dumps([PIECE, LAST]),
    "HTTP headers": "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    + json.dumps(ANSWER, indent=2),
    "HTTP headers and events": "HTTP/2 200\r\ncontent-type: text/event-stream\r\n\r\n" + SSE,
    "a capture": json.dumps({"request": {"messages": [{"content": LINE}]}, "response": {"body": ANSWER}}),
    "a capture with its body as text": json.dumps({"status": 200, "body": json.dumps(ANSWER)}),
    "a capture with events": json.dumps({"status": 200, "body": SSE}),
    "a browser's archive": json.dumps(
        {
            "log": {
                "entries": [
                    {"request": {"text": LINE}, "response": {"content": {"text": json.dumps(ANSWER)}}}
                ]
            }
        }
    ),
    "a capture that has the answer twice": json.dumps({"response": ANSWER, "raw": json.dumps(ANSWER)}),
    "a container's log": lines(
        {"log": "INFO x\n", "stream": "stderr"}, {"log": f"{LINE}\n", "stream": "stderr"}
    ),
    "a container's log in pieces": lines({"log": LINE[:90]}, {"log": f"{LINE[90:]}\n"}),
    "events in a container's log": lines(*({"log": f"{one}\n"} for one in SSE.splitlines())),
    "a collector's log": lines({"log": "INFO x"}, {"log": LINE, "kubernetes": {"pod_name": "p"}}),
    "a structured log": lines({"levelname": "INFO", "message": LINE}),
    "a record with its message twice": lines(
        {"event": "SpecDecoding", "text": LINE, "record": {"message": LINE[20:]}}
    ),
    "a log in a log": lines({"message": json.dumps({"log": LINE})}),
    "Loki": json.dumps(
        {"data": {"resultType": "streams", "result": [{"stream": {"app": "a"}, "values": [["1", LINE]]}]}}
    ),
    "Kubernetes' times": f"{TIME} stderr F {LINE}\n",
    "Docker's times and an answer": f"{TIME} {json.dumps(ANSWER)}\n",
    "compose": f"vllm-1  | {LINE}\n",
    "compose and an answer": f"vllm-1  | {json.dumps(ANSWER)}\n",
    "kubectl's prefix": f"[pod/vllm-0/main] {LINE}\n",
    "the journal": f"Nov 28 12:00:00 host vllm[12]: {LINE}\n",
    "grep, a log": f"vllm.log-11-INFO x\nlogs/vllm.log:12:{LINE}\n--\nvllm.log-14-INFO y\n",
    "grep, answers": f"a/one.json:{json.dumps(ANSWER)}\n",
    "grep of one file": f"12:{json.dumps(ANSWER)}\n",
    "grep, an answer over several lines": "".join(
        f"a.json-{at}-{line}\n" for at, line in enumerate(json.dumps(ANSWER, indent=2).splitlines())
    ),
    "grep, a page": "".join(f"page.txt:{line}\n" for line in PAGE.splitlines()),
    "Markdown": f"Seen:\n```json\n{json.dumps(ANSWER, indent=1)}\n```\n",
    "colours": f"\x1b[32m{LINE}\x1b[0m\n",
    "a page": PAGE,
    "a page with headers": f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{PAGE}",
    "a page in a capture": json.dumps({"body": PAGE}),
    "Prometheus' table": PAGE.replace("} ", "} | "),
    "promtool": PAGE.replace("} ", "} => ").replace(".0\n", " @[1700000000.1]\n"),
    "exemplars": PAGE.replace("\n", ' # {trace_id="t"} 1.0 1.7e9\n') + "# EOF\n",
    "Ray": PAGE.replace("vllm:", "ray_vllm_").replace("_total", ""),
    "braces and bars in a label": PAGE.replace('engine="0"', 'model_name="/a # {b} | 3"'),
    "a query": json.dumps(query("vector", last=False)),
    "a query over a range": json.dumps(query("matrix", last=True)),
    "one query a line": lines(
        *(
            {"data": {"resultType": "vector", "result": [row]}}
            for row in query("", last=False)["data"]["result"]
        )
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_the_counts_are_found_in_what_they_are_kept_in(name: str) -> None:
    """Catches: a wrapping that hides the counts, that doubles them, or whose request is taken for its answer."""
    found = forms.read(WRAPPED[name].encode())
    assert found is not None and (found.rounds, found.drafted, found.accepted) == (5, 10, 6)
    assert found.engine == "vLLM"


def test_a_compressed_file_is_read() -> None:
    """Catches: gzip as text, or a traceback of a damaged file."""
    found = forms.read(gzip.compress(SSE.encode()))
    assert found is not None and found.rounds == 5
    with pytest.raises(sd.TraceError, match="compressed by gzip"):
        forms.read(gzip.compress(SSE.encode())[:4] + b"nothing of the kind")


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        (json.dumps([ANSWER, ANSWER]), 10),  # neutral names may be the same
        (SSE + SSE.replace('"q"', '"r"'), 10),
        (SSE + SSE, 10),
        (lines(PIECE, LAST, ANSWER), 10),
        ("".join(f"data: {json.dumps(NAMELESS | one)}\n\n" for one in (PIECE, LAST) * 2), 10),
    ],
)
def test_several_answers_stay_several(text: str, rounds: int) -> None:
    """Catches: two streams taken for one, an answer lost behind a stream."""
    found = forms.read(text.encode())
    assert found is not None and found.rounds == rounds and found.source == "2 answers"


@pytest.mark.parametrize(
    "text",
    [
        SSE[:-40],
        lines(ANSWER, ANSWER)[:-20],
        json.dumps(ANSWER)[:50],
        json.dumps([ANSWER], indent=1)[:-9],
        "[" * 10_000,
    ],
)
def test_a_file_that_is_cut_off_is_refused(text: str) -> None:
    """Catches: the sum of the answers before the cut, a traceback of deep nesting."""
    with pytest.raises(sd.TraceError, match=r"is not (complete|valid) JSON"):
        forms.read(text.encode())


def test_files_as_shells_write_them() -> None:
    """Catches: PowerShell's UTF-16, answers that curl appends without a new line, compressed files in a row."""
    text = json.dumps(ANSWER)
    twice = gzip.compress(f"{text}\n".encode()) * 2
    for data, rounds in ((text.encode("utf-16"), 5), ((text * 3).encode(), 15), (twice, 10)):
        found = forms.read(data)
        assert found is not None and found.rounds == rounds
