"""What a recorded round did to the target's KV cache: rows read by the pass, rows kept, rows forgotten."""

from __future__ import annotations

from specdec_core.record.schema import Round

from .recorded import trace

__all__ = ["cache_rows", "round_accepting", "rows_kept", "rows_read"]


def round_accepting(example: str, guesses: int) -> int:
    """The number, from 0, of the first recorded round that accepted so many guesses and rejected the next.

    Raises:
        ValueError: if there is none.
    """
    for row in trace(example).rounds:
        if row.nodes.verdict.count("accepted") == guesses and "rejected" in row.nodes.verdict:
            return row.index
    raise ValueError(f"“{example}” has no round with {guesses} accepted guesses and a rejected one.")


def cache_rows(example: str, at: int) -> int:
    """Rows of the cache as the round began: one for each token of the text but the last."""
    return trace(example).rounds[at].cache_before


def rows_read(example: str, at: int) -> int:
    """Rows that the round's pass wrote: the text's last token and the guesses."""
    return 1 + trace(example).rounds[at].nodes_read


def rows_kept(example: str, at: int) -> int:
    """Rows that the cache grew by."""
    row = trace(example).rounds[at]
    return row.cache_after - row.cache_before


def kept(row: Round) -> list[int]:
    """Which rows of the pass are kept: the root's, 0, and those of the accepted guesses that became text."""
    accepted = [
        node + 1 for node, verdict in enumerate(row.nodes.verdict[: row.nodes_read]) if verdict == "accepted"
    ]
    return [0, *accepted][: row.cache_after - row.cache_before]
