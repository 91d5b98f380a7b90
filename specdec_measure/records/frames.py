"""A trace as data frames, for analysis and CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pandas as pd

from specdec_core.record.schema import Nodes, Verdict

if TYPE_CHECKING:
    from specdec_core.record.trace import Trace


def frames(trace: Trace) -> dict[str, pd.DataFrame]:
    """Four tables: `rounds`, `nodes` (one row per proposed token), `positions` and `tokens` (per committed one).

    Rounds count from 0, as in the record. Times are in seconds on the lane's clock, entropies in nats. Columns that
    were not recorded are missing.
    """
    return {
        "rounds": _rounds(trace),
        "nodes": _nodes(trace),
        "positions": _positions(trace),
        "tokens": _tokens(trace),
    }


def _rounds(trace: Trace) -> pd.DataFrame:
    names = (
        "index", "start_s", "draft_s", "verify_s", "judge_s", "commit_s", "ahead_s", "cache_before", "cache_after",
        "draft_passes", "ahead_passes", "riders",
    )  # fmt: skip
    return pd.DataFrame(
        {
            **{name: getattr(row, name) for name in names},
            "proposed": len(row.nodes.token),
            **{verdict: row.nodes.verdict.count(verdict) for verdict in get_args(Verdict)},
            "committed": len(row.committed.token),
        }
        for row in trace.rounds
    )


def _nodes(trace: Trace) -> pd.DataFrame:
    rows = []
    for row in trace.rounds:
        columns = {name: getattr(row.nodes, name) for name in Nodes.__slots__}
        present = {name: column for name, column in columns.items() if column is not None}
        for node in range(len(row.nodes.token)):
            values = {name: column[node] for name, column in present.items()}
            rows.append(
                {
                    "round": row.index,
                    "node": node,
                    "text": trace.texts.get(str(values["token"]), ""),
                    **values,
                }
            )
    return pd.DataFrame(rows)


def _positions(trace: Trace) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "round": row.index,
            "at": position.at,
            "token": position.token,
            "text": trace.texts.get(str(position.token), ""),
            "source": position.source,
            "entropy_p": position.entropy_p,
            "entropy_q": position.entropy_q,
            "overlap": position.overlap,
            "top_model_p": position.model_p.prob[0],
            "draw": position.draw,
        }
        for row in trace.rounds
        for position in row.positions
    )


def _tokens(trace: Trace) -> pd.DataFrame:
    rounds = [row.index for row in trace.rounds for _ in row.committed.token]
    sources = [source for row in trace.rounds for source in row.committed.source]
    clocks = [row.end_s for row in trace.rounds for _ in row.committed.token]
    output = trace.output
    repeated = [False] * len(output.ids)
    for span in trace.loops().spans:
        repeated[span.start : span.end] = [True] * span.size
    if not rounds:  # record="off" keeps the text only
        return pd.DataFrame(
            {"token": output.ids, "text": output.texts, "offset": output.offsets, "repeated": repeated}
        )
    return pd.DataFrame(
        {
            "token": output.ids,
            "text": output.texts,
            "offset": output.offsets,
            "repeated": repeated,
            "round": rounds,
            "source": sources,
            "committed_at_s": clocks,
        }
    )
