"""Is what `specdec fit` chooses as fast as the best that an exhaustive sweep finds?

    python -m benchmarks.fit                                        the bundled models: 15 minutes, then the sweep
    python -m benchmarks.fit --model smollm2-135m-instruct
    python -m benchmarks.fit --minutes 1 --prompts 8 --tokens 48 --repeats 1      whether it works at all

The fit sees all prompts and holds half of them back as usual. The sweep then measures every candidate, with plain
decoding, on the prompts held back, in turns: nothing is left out and nothing is cut short. The figure is the speed of
the fit's choice over that of the sweep's best, on the same prompts; the bar is 0.95. The best of many is flattered by
the noise of its measurement, which more repeats make smaller. On a machine that does other work it means nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import specdec_core as sd
from specdec_measure.analysis.advice import compare
from specdec_measure.fitting import prompts as own
from specdec_measure.fitting.bench import Bench, Clock, speeds
from specdec_measure.fitting.candidates import LOADED, candidates, plain
from specdec_measure.fitting.search import mean
from specdec_measure.fitting.state import FitState
from specdec_measure.sweep.cases import Audience, Case, shipped

BAR = 0.95
UNLIMITED = 1e9


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, sweep, and print how the choice compares."""
    given = _arguments(argv)
    models = sd.load_models(given.model, given.draft)
    audience: Audience = "chat" if models.chat_template else "text"
    cases = shipped(audience=audience)[:: max(1, len(shipped(audience=audience)) // given.prompts)][
        : given.prompts
    ]
    settings = sd.Settings(max_new_tokens=given.tokens)
    load = {"target": given.model or "bundled"} | ({"draft": given.draft} if given.draft else {})
    with tempfile.TemporaryDirectory() as folder:
        texts = [case.prompt for case in cases]
        found = sd.fit(
            models, texts, Path(folder) / "fit", settings=settings, minutes=given.minutes, train=False, load=load,
            on_progress=lambda ahead: print(f"\r{ahead.spent:6.0f} s  {ahead.phase:12}", end="", flush=True),
        )  # fmt: skip
        print(f"\n{found.sentence}")
        read = [replace(case, chat=models.chat_template) for case in own.read(texts)]
        held_back = own.split(read, settings.seed, training=False).held_back
        results = sweep(models, settings, held_back, given.repeats, Path(folder) / "sweep")
    report(results, found.verdict.choice.label, given.json)


def sweep(
    models: sd.Models, settings: sd.Settings, cases: Sequence[Case], repeats: int, folder: Path
) -> dict[str, dict[tuple[str, str], float]]:
    """Every candidate's speed over plain decoding's by prompt, nothing left out."""
    base = plain(settings)
    everyone, _ = candidates(models, settings)
    state = FitState.open(folder, {})
    bench = Bench({LOADED: models}, base, state, Clock(UNLIMITED), lambda: False, lambda ahead: None)
    for repeat in range(repeats):
        for number, case in enumerate(cases, 1):
            print(f"\rsweep: repeat {repeat + 1}, prompt {number} of {len(cases)}", end="", flush=True)
            bench.turn("held back", case, repeat, everyone, UNLIMITED)
    print()
    return {one.label: speeds(state, ("held back",), one.label) for one in (base, *everyone)}


def report(results: dict[str, dict[tuple[str, str], float]], chosen: str, file: Path | None) -> None:
    """Print the best ten and the choice, and whether the bar is met."""
    ranks = sorted(
        ((mean(list(ratios.values())), label) for label, ratios in results.items() if ratios), reverse=True
    )
    for place, (score, label) in enumerate(ranks, 1):
        if place <= 10 or label == chosen:
            print(f"{place:4}  {score:5.2f}×  {label}{'   ← fit' if label == chosen else ''}")
    best = ranks[0][1]
    if chosen not in results:  # a relative of a candidate, which the sweep does not hold
        print(f"The fit chose '{chosen}', which is not among the sweep's candidates.")
        return
    places = list(results[best])
    pair = compare([results[chosen][place] for place in places], [results[best][place] for place in places])
    verdict = "within" if pair.ratio >= BAR else "not within"
    print(
        f"choice over best: {pair.ratio:.3f} (95% interval {pair.low:.3f} to {pair.high:.3f}), "
        f"{verdict} {1 - BAR:.0%} of the best"
    )
    if file is not None:
        content = {
            "choice": chosen,
            "best": best,
            "ratio": pair.ratio,
            "scores": {label: score for score, label in ranks},
        }
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=None, help="as for load_models")
    parser.add_argument("--draft", default=None, help="likewise")
    parser.add_argument("--minutes", type=float, default=15.0, help="of the fit")
    parser.add_argument("--prompts", type=int, default=24, help="shipped prompts, spread over their families")
    parser.add_argument("--tokens", type=int, default=96, help="written to each prompt")
    parser.add_argument("--repeats", type=int, default=3, help="of the sweep")
    parser.add_argument("--json", type=Path, default=None, help="write the figures to this file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
