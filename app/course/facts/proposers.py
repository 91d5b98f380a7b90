"""Figures about proposers: measurements of the bundled family, hit rates of blind guessing, Jacobi convergence.

The measured figures are those of the model card (`assets/models/measurements.json`), each measured in turn with plain
decoding. A missing figure is reported in a sentence, never replaced by a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import Field, ValidationError

from app.course.live.measured import MEASUREMENTS, Group, Known, LaneFigures, card
from specdec_core.runtime.timing.pass_times import pass_time
from specdec_measure import theory

from .recorded import trace

__all__ = [
    "blind_rate",
    "branches_alike",
    "exit_alpha",
    "exit_best",
    "exit_cost",
    "exit_share",
    "exit_speedup",
    "family_alpha",
    "family_best",
    "family_cost",
    "family_million",
    "family_speedup",
    "family_tokens",
    "forks",
    "jacobi_passes",
    "least_in_a_round",
    "rate_at_depth",
    "tree_shapes",
    "vocabulary",
    "width_ratio",
    "window_sees",
]

GAMMA = 4  # used when measuring the family, except for
LONGER = {"prompt-lookup": 10}

# --- the shipped family, as measured -----------------------------------------------------------------------------


def family_tokens(lane: str, group: str) -> float:
    """Tokens per target pass of a proposer on a group of prompts, the median over prompts."""
    return line(lane, group).tokens_per_pass


def family_speedup(lane: str, group: str) -> float:
    """Its measured speedup there, the median over prompts."""
    return line(lane, group).speedup


def family_alpha(lane: str, group: str) -> float:
    """Its acceptance rate there; only chains have one."""
    return _alpha(line(lane, group), f"“{lane}” on “{group}”")


def family_cost(lane: str, group: str) -> float:
    """The measured cost of one of its guesses in plain passes, including everything a round took beyond one."""
    found = line(lane, group)
    return theory.implied_cost(found.speedup, found.tokens_per_pass, length_of(lane))


def family_best(group: str) -> str:
    """The fastest proposer on a group of prompts."""
    return _group(group).best


def family_million(model: str) -> float:
    """Millions of parameters of a shipped model: target, draft, draft-large."""
    found = card().parameters
    if model not in found:
        raise ValueError(f"{MEASUREMENTS.name} knows no model “{model}”; there are {', '.join(found)}.")
    return found[model] / 1e6


def exit_alpha(layer: int) -> float:
    """Acceptance rate of the target's first layers on code."""
    return _alpha(exit_line(layer), f"the exit after {layer} layers")


def exit_speedup(layer: int) -> float:
    """Measured speedup of drafting with them."""
    return exit_line(layer).speedup


def exit_cost(layer: int) -> float:
    """The cost of one of their guesses in plain passes, everything counted."""
    found = exit_line(layer)
    return theory.implied_cost(found.speedup, found.tokens_per_pass, GAMMA)


def exit_best() -> int:
    """The measured exit layer that is fastest on code."""
    return max(exit_layers(), key=exit_speedup)


def exit_share(layer: int) -> float:
    """The share of the target's layers that an exit after `layer` of them runs."""
    return layer / target_layers()


def width_ratio(tokens: int) -> float:
    """T(n)/T(1) of the shipped target on the machine that measured it."""
    curve = _curve()
    return pass_time(curve, tokens) / pass_time(curve, 1)


def line(lane: str, group: str) -> LaneFigures:
    """A cell of the card's table.

    Raises:
        ValueError: naming the existing ones.
    """
    lanes = _group(group).lanes
    if lane not in lanes:
        raise ValueError(f"{MEASUREMENTS.name} has no “{lane}” for “{group}”; it has {', '.join(lanes)}.")
    return lanes[lane]


def exit_line(layer: int) -> LaneFigures:
    """A row of the card's table of early exits."""
    found = card().figures.exits
    if str(layer) not in found:
        raise ValueError(
            f"{MEASUREMENTS.name} has no early exit after {layer} layers; it has {', '.join(found)}."
        )
    return found[str(layer)]


def exit_layers() -> list[int]:
    """The measured exits."""
    return sorted(int(layer) for layer in card().figures.exits)


def length_of(lane: str) -> int:
    """The draft length with which a proposer was measured."""
    return LONGER.get(lane, GAMMA)


def target_layers() -> int:
    """How many layers the shipped target has, from its own configuration."""
    config = MEASUREMENTS.parent / "specdec-target" / "config.json"
    try:
        return Layers.model_validate_json(config.read_bytes()).num_hidden_layers
    except (OSError, ValidationError):
        raise ValueError(f"The configuration of {config.parent.name} is missing or damaged.") from None


class Layers(Known):
    """The needed part of a model's configuration."""

    num_hidden_layers: Annotated[int, Field(gt=0, le=10_000)]


def _group(name: str) -> Group:
    found = card().figures.groups
    if name not in found:
        raise ValueError(f"{MEASUREMENTS.name} has no prompts “{name}”; it has {', '.join(found)}.")
    return found[name]


def _alpha(found: LaneFigures, what: str) -> float:
    if found.alpha is None:
        raise ValueError(f"{MEASUREMENTS.name} has no acceptance rate for {what}: only chains have one.")
    return found.alpha


def _curve() -> dict[int, float]:
    found = card().figures.curves.get("usual")
    if found is None or len(found.widths) != len(found.seconds):
        raise ValueError(
            f"{MEASUREMENTS.name} has no width curve “usual”; `python -m training card` measures it."
        )
    return dict(zip(found.widths, found.seconds, strict=True))


# --- guessing without looking ------------------------------------------------------------------------------------


def vocabulary(example: str) -> int:
    """The target's vocabulary size in a recorded example."""
    return trace(example).header.vocabulary


def blind_rate(guess: str, example: str) -> float:
    """How often a blind guess passes on a recorded text, at temperature 0, where only the target's own token passes.

    Args:
        guess: `uniform`, of which one in the vocabulary is right; or `repeat-last` or `unigram`, which the core's loop
            tries on the text.
        example: its text is used.
    """
    from app.course.live.replay import again

    if guess == "uniform":
        return 1.0 / vocabulary(example)
    stats = again(example, "blind", guess=guess).stats
    return stats.accepted / stats.judged if stats.judged else 0.0


# --- Jacobi rows and the window ----------------------------------------------------------------------------------


def jacobi_passes(pattern: str, guess: str, positions: int = 5) -> int:
    """Passes until all positions are certain; `pattern` and `guess` as in `app.course.drawing.rows`."""
    from app.course.drawing.rows import rows

    return len(rows(pattern, guess, positions)) - 1


def window_sees(level: int, column: int, columns: int = 5, levels: int = 2) -> int:
    """How many tokens of lookahead's window one of them attends to, itself included, by the core's own mask.

    Level and column count from 0; level 0 of column 0 is the root.
    """
    from app.course.drawing.rows import seen

    return sum(sum(row) for row in seen(level, column, columns, levels))


def least_in_a_round(example: str) -> int:
    """The fewest tokens that one round of a recorded example committed."""
    return min(len(row.committed.token) for row in trace(example).rounds)


# --- trees of guesses --------------------------------------------------------------------------------------------


def forks(example: str) -> int:
    """How many pairs of neighbours allow comparing the first guesses below them? Neighbours share round and depth."""
    return len(_pairs(example))


def branches_alike(example: str) -> float:
    """In which share of them the two have the same first guess below them, though they are different tokens."""
    pairs = _pairs(example)
    if not pairs:
        raise ValueError(
            f"In “{example}” no two neighbours were both guessed on; record it with wider trees."
        )
    return sum(one == other for one, other in pairs) / len(pairs)


def tree_shapes(example: str) -> int:
    """How many different shapes the trees of a recorded example had when sent to the target."""
    shapes = set()
    for row in trace(example).rounds:
        if row.nodes_read:
            shapes.add(tuple(row.nodes.parent[: row.nodes_read]))
    return len(shapes)


def rate_at_depth(example: str, depth: int) -> float:
    """How often a round that reached a depth went through it."""
    rates = trace(example).stats.acceptance_by_depth
    return rates[depth - 1] if depth <= len(rates) else 0.0


@lru_cache(maxsize=16)
def _pairs(example: str) -> tuple[tuple[int, int], ...]:
    """The tokens of the first guesses below any two different tokens of one round and depth."""
    found = []
    for row in trace(example).rounds:
        nodes = row.nodes
        first: dict[int, int] = {}
        for at, parent in enumerate(nodes.parent[: row.nodes_read]):
            if parent >= 0:
                first.setdefault(parent, nodes.token[at])
        above = sorted(first)
        for place, one in enumerate(above):
            for other in above[place + 1 :]:
                if nodes.depth[one] == nodes.depth[other] and nodes.token[one] != nodes.token[other]:
                    found.append((first[one], first[other]))
    return tuple(found)
