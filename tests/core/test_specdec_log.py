"""The one-file logger, and records in other programs' forms."""

from __future__ import annotations

import ast
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_measure import specdec_log
from specdec_measure.adapters import foreign
from specdec_measure.records import elsewhere
from specdec_measure.specdec_log import SpecdecLog

from .tiny import PROMPTS, pair

ROOT = Path(__file__).resolve().parents[2]


def test_the_documented_loop_runs_with_a_copy_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: an example that does not run, a file that needs the lab, a record that its import refuses."""
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from specdec_log .*?)```", text, re.DOTALL)
    assert len(example.splitlines()) <= 20
    source = Path(specdec_log.__file__).read_text(encoding="utf-8")
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names
    (tmp_path / "specdec_log.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(compile(example, "example", "exec"), {})
    run = CliRunner().invoke
    done = run(cli.app, ["import", "run.json", "-o", "whole.json"])
    assert done.exit_code == 0, done.output
    trace = sd.Trace.from_json((tmp_path / "whole.json").read_bytes())
    assert len(trace.token_ids) == 12 and trace.audit() == [] and trace.stats.accepted > 0
    assert trace.stats.draft_s > 0 and trace.rounds[1].start_s > trace.rounds[0].start_s
    assert run(cli.app, ["export", "whole.json", "-o", "timeline.json"]).exit_code == 0
    assert json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert run(cli.app, ["export", "whole.json", "-o", "table.md"]).exit_code == 0
    assert (tmp_path / "table.md").read_text().startswith("| lane |")


def test_a_logged_decode_is_the_decode(tmp_path: Path) -> None:
    """Catches: a column under another node, a verdict worked out otherwise than it was, numbers of tensors refused."""
    models = pair("llama")
    for prompt in PROMPTS:
        wanted = sd.Settings(temperature=0.8, max_new_tokens=24)
        done = sd.decode(models, prompt, wanted)
        log = SpecdecLog(torch.tensor(prompt), temperature=0.8)  # type: ignore[arg-type]
        for row in done.rounds:
            nodes = row.nodes
            known = {"p": nodes.p, "q": nodes.q, "coin": nodes.coin, "threshold": nodes.threshold}
            columns = {name: values for name, values in known.items() if values is not None}
            log.round(torch.tensor(nodes.token, dtype=torch.long), row.committed.token, **columns)  # type: ignore[arg-type]
        log.save(tmp_path / "run.json", done.end)
        (read,) = foreign.read((tmp_path / "run.json").read_bytes())
        assert read.token_ids == done.token_ids and read.audit() == []
        for mine, theirs in zip(done.rounds, read.rounds, strict=True):
            assert (mine.nodes.token, mine.nodes.verdict) == (theirs.nodes.token, theirs.nodes.verdict)
            assert (mine.nodes.p or None) == theirs.nodes.p
            assert mine.committed.source == theirs.committed.source


def test_mistakes_are_refused_where_they_are_made() -> None:
    """Catches: a column that belongs to other guesses, a misspelt one that is dropped, a phase that nobody reads."""
    log = SpecdecLog([1])
    for columns in ({"p": [0.5]}, {"probability": [0.5, 0.5]}):
        with pytest.raises(ValueError, match="no column of 2 guesses"):
            log.round([1, 2], [1, 2, 3], **columns)
    with pytest.raises(ValueError, match="a phase is one of"), log.phase("think"):
        pass


def test_a_timeline_has_each_phase_where_it_was(tmp_path: Path) -> None:
    """Catches: phases that overlap or are lost; a lane without times as an empty timeline; a table's wrong speedup."""
    models = pair("llama")
    lanes = [
        sd.decode(models, PROMPTS[0], sd.Settings(proposer=name, max_new_tokens=16))
        for name in ("none", "draft-model")
    ]
    events = json.loads(elsewhere.chrome_trace(lanes))["traceEvents"]
    for lane, trace in enumerate(lanes):
        slices = [event for event in events if event["pid"] == lane and event["ph"] == "X"]
        assert sum(one["dur"] for one in slices) == pytest.approx(1e6 * trace.stats.decode_s)
        assert {one["args"]["round"] for one in slices} == set(range(len(trace.rounds)))
        for one, other in pairwise(slices):
            assert other["ts"] >= one["ts"] + one["dur"] - 1e-3
    rows = [line.strip("|").split("|") for line in elsewhere.markdown(lanes).splitlines()[2:4]]
    assert [row[0].strip() for row in rows] == ["none", "draft-model, 4 guesses"]
    speeds = [trace.stats.tokens_per_second or 0 for trace in lanes]
    assert rows[1][6].strip() == f"{speeds[1] / speeds[0]:.2f}×" and rows[0][1].strip() == "16"
    log = SpecdecLog([1])
    log.round([], [2])
    log.save(tmp_path / "run.json", "cancelled")
    with pytest.raises(sd.SpecdecError, match="without times"):
        elsewhere.chrome_trace(foreign.read((tmp_path / "run.json").read_bytes()))
