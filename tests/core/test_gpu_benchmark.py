"""`python -m benchmarks.gpu` at a tiny size, on the CPU where there is no GPU: that all its parts are there, since the
machines it is for are borrowed for minutes."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu
from benchmarks.drafts import chosen_draft
from benchmarks.parts import Report

SPENT = {"one": 0.5, "two": 0.5}


def numbers(value: Any) -> list[float]:
    """All of them, however deep."""
    if isinstance(value, dict | list):
        return [
            number
            for part in (value.values() if isinstance(value, dict) else value)
            for number in numbers(part)
        ]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_part_is_measured(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a part that fails or is missing, a text that ends early or differs from transformers', a draft that does
    not guess as well as wanted."""
    for module in (gpu, chosen_draft):
        monkeypatch.setattr(module, "LEAST", 1)
        monkeypatch.setattr(module, "MOST", 1)
    gpu.main(tmp_path / "new", "tiny", 60.0, dtype, 24)
    found = json.loads((tmp_path / "new" / "speed.json").read_text(encoding="utf-8"))
    assert list(found) == list(gpu.SHARES)
    assert not [name for name, part in found.items() if "error" in json.dumps(part)]
    assert found["machine"]["copy_bytes_per_s"] > 0
    read = found["model"]["parameters"] - gpu.TINY.output  # of the embedding only rows are read
    assert found["model"]["bytes_read_per_token"] == read * getattr(torch, dtype).itemsize
    for part, names in (
        ("plain", {gpu.GRAPHS, gpu.GRAPHS_OFF, gpu.EAGER, gpu.GENERATE}),
        ("static", {gpu.GRAPHS_OFF, gpu.STATIC}),
    ):
        assert names < set(found[part])
        if dtype == "float32":
            assert {found[part][name]["tokens_as_first"] for name in names} == {24}
    for name in (gpu.GRAPHS, gpu.EAGER):
        assert list(found["widths"][name]["target_s"]) == ["1", "2", "3", "5", "9", "17", "33", "65"]
        assert found["widths"][name]["draft_s"] > 0
    for rate in chosen_draft.RATES:
        row = found["speculative"][f"{rate:g}"]
        assert row["overlap"] == pytest.approx(rate, abs=0.02)
        assert 1 <= row["tokens_per_pass"] <= 1 + chosen_draft.GAMMA
        assert row["measured_over_formula"] == pytest.approx(row["measured_speedup"] / row["formula_speedup"])
    assert all(math.isfinite(number) for number in numbers(found))


def test_a_part_that_fails_or_hangs_leaves_the_others(tmp_path: Path) -> None:
    """Catches: figures lost with a later part, an alarm of whoever called that never rings."""
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    report = Report(tmp_path, 0.2, SPENT)

    def fails(found: dict[str, Any], until: float) -> None:
        found["kept"] = 1
        raise ValueError("no\nluck")

    def hangs(found: dict[str, Any], until: float) -> None:
        found["kept"] = 2
        time.sleep(30)

    assert report.part("one", fails) is None
    assert report.part("two", hangs) is None
    found = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert (found["one"]["kept"], found["one"]["error"]) == (1, "ValueError: no luck")
    assert found["two"]["kept"] == 2
    assert "interrupted" in found["two"]["error"]
    assert found["two"]["took_s"] < 10
    assert bool(signal.getitimer(signal.ITIMER_REAL)[0]) == bool(before)


def test_an_interrupted_run_says_in_which_part(tmp_path: Path) -> None:
    """Catches: a file that is only written when a part ends."""
    report = Report(tmp_path, 60.0, SPENT)

    def looks(found: dict[str, Any], until: float) -> str:
        return (tmp_path / "speed.json").read_text(encoding="utf-8")

    assert "cut off" in str(report.part("one", looks))
