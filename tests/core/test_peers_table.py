"""The tables of benchmarks/peers.py, from made-up runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks import peers, peers_table
from benchmarks.peers_table import Runs


def run(seconds: float, *tokens: int) -> dict[str, Any]:
    """One answer to a prompt of two tokens."""
    return {"ids": [1, 2], "tokens": list(tokens), "seconds": seconds}


RUNS: Runs = {
    "lab 16-bit, plain": {"chat 1": run(1.0, 5, 6), "chat 2": run(2.0, 5, 6), "code 1": run(1.0, 5, 6)},
    "lab 16-bit, eagle": {"chat 1": run(0.5, 5, 6), "chat 2": run(4.0, 5, 6), "chat 3": run(1.0, 5, 6)},
    "llama.cpp F16, plain": {"chat 1": run(1.0, 5, 7), "chat 2": run(1.0, 5, 6, 8), "code 1": run(1.0, 9, 9)},
}


def test_a_speed_is_the_median_over_the_prompts_of_a_kind() -> None:
    """Catches: the prompts of another kind, or a mean."""
    assert peers_table.rates(RUNS, "lab 16-bit, plain", "chat") == {"chat 1": 2.0, "chat 2": 1.0}
    assert peers_table.speed(RUNS, "lab 16-bit, eagle", "chat") == 2.0


def test_a_ratio_compares_prompt_by_prompt() -> None:
    """Catches: a ratio of medians, one the wrong way round, or a prompt that only one side has answered."""
    assert peers_table.ratio(RUNS, "lab 16-bit, eagle", "lab 16-bit, plain", "chat") == pytest.approx(1.25)


def test_the_fastest_way_is_of_one_program() -> None:
    """Catches: the fastest of all, or of another kind of prompt."""
    assert peers_table.fastest(RUNS, "lab", "chat") == "lab 16-bit, eagle"
    assert peers_table.fastest(RUNS, "llama.cpp", "code") == "llama.cpp F16, plain"


@pytest.mark.parametrize(
    ("one", "other", "at"), [([1, 2], [1, 2], None), ([1, 2], [1, 2, 3], None), ([1, 4, 3], [1, 2, 3], 1)]
)
def test_texts_part_at_the_first_different_token(one: list[int], other: list[int], at: int | None) -> None:
    """Catches: a text that only ended earlier, taken for another."""
    assert peers_table.parting(one, other) == at


def test_what_was_written_is_judged_where_it_parts() -> None:
    """Catches: a margin after the wrong ids, or of the wrong two tokens."""
    asked: list[tuple[list[int], int, int]] = []

    def margin(ids: Sequence[int], one: int, other: int) -> float:
        asked.append((list(ids), one, other))
        return 0.25

    found = peers_table.partings(RUNS, "llama.cpp F16, plain", "lab 16-bit, plain", margin)
    assert found == [0.25, 0.25]
    assert asked == [([1, 2, 5], 6, 7), ([1, 2], 5, 9)]


def test_a_table_has_a_line_for_each_row() -> None:
    """Catches: a table that GitHub does not draw."""
    assert peers_table.markdown(["", "chat"], [["plain", "2"]]) == "|  | chat |\n| --- | --- |\n| plain | 2 |"


def test_prompts_come_in_turn() -> None:
    """Catches: all chat prompts first, so that a call that ends early has measured one kind."""
    found = peers.prompts()
    assert [prompt.name for prompt in found[:4]] == ["chat 1", "code 1", "edit 1", "chat 2"]
    assert {prompt.kind for prompt in found} == set(peers_table.KINDS)
    assert len(found) == 15
