"""Record the traces that ship in assets/traces: `python scripts/record_traces.py`, on a quiet machine.

The welcome traces play while the models of a fresh server warm up; they are a race like any other, on the first story
prompt, and say in their headers on which machine and when they were made.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import specdec_core as sd  # noqa: E402

NAMES = {"none": "welcome-plain", "draft-model": "welcome-draft-model"}
RACES = 5  # the one with the median speedup is kept, so that a lucky or unlucky run is not shown


def main() -> None:
    """Race a few times and write the median race."""
    prompts = tomllib.loads((ROOT / "assets" / "prompts" / "story.toml").read_text(encoding="utf-8"))[
        "prompt"
    ]
    prompt = prompts[0]["text"]
    models = sd.load_models(device="cpu")
    lanes = [sd.Settings(proposer=name, max_new_tokens=96) for name in NAMES]
    races = [_race(models, prompt, lanes) for _ in range(RACES + 1)][1:]  # the first one warms up
    races.sort(key=lambda traces: _speed(traces[1]) / _speed(traces[0]))
    for name, trace in zip(NAMES.values(), races[RACES // 2], strict=True):
        problems = trace.audit()
        if problems:
            raise SystemExit(f"{name} fails its audit: {problems[0]}")
        path = ROOT / "assets" / "traces" / f"{name}.json"
        path.write_text(trace.to_json(), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes, {_speed(trace):.0f} tokens/s")


def _race(models: sd.Models, prompt: str, lanes: list[sd.Settings]) -> list[sd.Trace]:
    done = {
        event.lane: event.trace for event in sd.race(models, prompt, lanes) if isinstance(event, sd.Finished)
    }
    return [done[lane] for lane in range(len(lanes))]


def _speed(trace: sd.Trace) -> float:
    speed = trace.stats.tokens_per_second
    assert speed is not None
    return speed


if __name__ == "__main__":
    main()
