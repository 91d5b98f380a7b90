"""Record the examples of assets/traces/index.toml, on a quiet machine.

    python -m scripts.record_traces [ID ...]     all examples, or those named, which may be a family's as well:
    python -m scripts.record_traces smollm2-135m-instruct

Each is an ordinary race against plain decoding. It is run a few times and the race of median speed is kept, so
that neither a lucky nor an unlucky one is shown. Where the index names several prompts, the one that shows the
effect best is taken; if none shows it, the script says so and ends with an error. Each trace says where and when it was
made. Files no example names are removed. An example names the family of models that it is recorded with;
one whose models or trained parts are missing is left as it is, with a message.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import specdec_core as sd  # noqa: E402
from app.choosing import presets  # noqa: E402
from app.metrics.numbers import parting  # noqa: E402
from app.records.examples import FOLDER, Recipe, recipes, sent  # noqa: E402
from specdec_core.models import catalogue  # noqa: E402

RACES = 5
LEAST_TOKENS = 24  # in a lane meant to show an effect
PARTING = 12  # ideal place for two texts to diverge: late enough to have begun alike
WORDS = re.compile(r"\s*\S+")
Traces = list[sd.Trace]


def main(named: list[str]) -> None:
    """Record the named examples, or all of them."""
    found, problems = recipes()
    if problems:
        raise SystemExit("\n".join(problems))
    families = {recipe.family for recipe in found}
    if unknown := set(named) - families - {recipe.id for recipe in found}:
        raise SystemExit(f"There is no example {', '.join(sorted(unknown))} in {FOLDER.name}/index.toml.")
    failed = []
    for family in sorted(families):
        wanted = [recipe for recipe in found if recipe.family == family and _is_named(recipe, named)]
        if not wanted:
            continue
        try:
            models = sd.load_models(family, device="cpu")
        except sd.ModelError as error:
            print(f"{family}: left as it is. {error}")
            continue
        for recipe in wanted:
            if why_not := sd.PROPOSERS[recipe.lanes()[-1].proposer].why_not(models):
                print(f"{recipe.id}: left as it is. {why_not}")
                continue
            try:
                _record(models, recipe)
            except sd.SpecdecError as error:
                failed.append(f"{recipe.id}: {error}")
    kept = {f"{name}.json" for recipe in found for name in recipe.files}
    for path in sorted(FOLDER.glob("*.json")):
        if path.name not in kept:
            path.unlink()
            print(f"{path.name}: no example names it, removed")
    if failed:
        raise SystemExit("\n".join(failed))


def _is_named(recipe: Recipe, named: list[str]) -> bool:
    return not named or recipe.id in named or recipe.family in named


def _record(models: sd.Models, recipe: Recipe) -> None:
    best = max(
        (_race(models, prompt, recipe) for prompt in _prompts(recipe)),
        key=lambda traces: _effect(recipe, traces),
    )
    if recipe.shows and not _is_shown(recipe, best):
        raise sd.PromptError(f"no prompt of {', '.join(recipe.prompts)} shows the effect “{recipe.shows}”.")
    races = [_race(models, best[0].header.prompt, recipe) for _ in range(RACES)]
    races.sort(key=_speedup)
    for name, trace in zip(recipe.files, races[RACES // 2], strict=True):
        if problems := trace.audit():
            raise SystemExit(f"{name} fails its audit: {problems[0]}")
        path = FOLDER / f"{name}.json"
        path.write_text(trace.to_json(), encoding="utf-8")
        rate = trace.stats.tokens_per_pass or 0.0
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes, {rate:.2f} tokens per pass")


def _prompts(recipe: Recipe) -> list[str]:
    texts = [
        preset.text
        for family in presets.families()
        for preset in family.presets
        if family.name in recipe.prompts or preset.id in recipe.prompts
    ]
    if not texts:
        raise sd.PromptError(f"there is no prompt {', '.join(recipe.prompts)} in assets/prompts.")
    return texts


def _race(models: sd.Models, text: str, recipe: Recipe) -> Traces:
    lanes = recipe.lanes()
    prompt = sd.Chat(text) if recipe.family != catalogue.BUNDLED and models.chat_template else text
    ask = _typist(models, prompt, lanes[0]) if lanes[-1].proposer == "you" else None
    events = sd.race(models, prompt, lanes, ask=ask)
    done = {event.lane: event.trace for event in events if isinstance(event, sd.Finished)}
    return [done[lane] for lane in range(len(lanes))]


def _typist(models: sd.Models, prompt: str | sd.Chat, plain: sd.Settings) -> Callable[[str], str]:
    """Somebody who types three words at a time and knows them, but errs in the last one every third time."""
    read = prompt if isinstance(prompt, str) else prompt.message
    whole = read + sd.decode(models, prompt, plain.but(record="off")).text
    answers = 0

    def ask(text: str) -> str:
        nonlocal answers
        answers += 1
        words = WORDS.findall(whole[len(text) :])[:3]
        if answers % 3 == 0 and words:
            words[-1] = " banana"
        return "".join(words)

    return ask


def _speedup(traces: Traces) -> float:
    speeds = [trace.stats.tokens_per_second for trace in traces]
    assert all(speeds), "every lane decoded something"
    return (speeds[-1] or 0.0) / (speeds[0] or 1.0)


def _accepted(traces: Traces) -> float:
    stats = traces[-1].stats
    judged = stats.accepted + stats.rejected
    return stats.accepted / judged if judged >= 10 else 1.0  # too few guesses to show anything


def _effect(recipe: Recipe, traces: Traces) -> float:
    """How strongly a race shows its example's effect."""
    stats = traces[-1].stats
    if min(trace.stats.tokens for trace in traces) < LEAST_TOKENS:
        return -float("inf")
    match recipe.shows:
        case "slower":
            return -_speedup(traces)
        case "misses":
            return -_accepted(traces)
        case "waste":
            return (sent(stats) - stats.accepted) / stats.tokens
        case "parts":
            at = parting(*traces)
            return -float("inf") if at is None else -abs(at - PARTING)
    return 0.0


def _is_shown(recipe: Recipe, traces: Traces) -> bool:
    stats = traces[-1].stats
    if min(trace.stats.tokens for trace in traces) < LEAST_TOKENS:
        return False
    return {
        "slower": _speedup(traces) < 0.95,
        "misses": _accepted(traces) <= 0.2,
        "waste": sent(stats) > 2 * stats.accepted,
        "parts": parting(*traces) is not None,
    }[recipe.shows or "parts"]


if __name__ == "__main__":
    main(sys.argv[1:])
