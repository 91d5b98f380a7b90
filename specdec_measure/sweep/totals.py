"""Summaries of a sweep's rows: one line per family of prompts and lane."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from math import sqrt
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import many
from specdec_measure.records.repeats import LOOP

if TYPE_CHECKING:
    import pandas as pd

    from .measured import MeasuredCase

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # characters that start a formula in a spreadsheet
NORMAL_95 = 1.959964  # standard deviations on either side that hold 95% of a normal distribution
MIN_TOKENS = 16  # in both lanes for their speeds to be compared
COLUMNS = (
    "family", "lane", "label", "prompts", "compared", "failed", "tokens_per_pass", "accepted", "judged", "alpha",
    "alpha_low", "alpha_high", "speedup", "speedup_q1", "speedup_q3", "speedup_min", "speedup_max", "slower",
    "repeats_apart", "tokens_per_second", "same_text", "repeated", "looping",
)  # fmt: skip


def wilson(successes: int, trials: int, z: float = NORMAL_95) -> tuple[float, float]:
    """The Wilson score interval of a share, 95% by default; (0, 1) without trials. Assumes independent trials."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, z * z / trials
    middle = (share + z2 / 2) / (1 + z2)
    half = z / (1 + z2) * sqrt(share * (1 - share) / trials + z2 / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def mark(speedup: float) -> str:
    """The sign of a speedup: ▲ faster, ▼ slower, = within half a per cent of plain decoding."""
    return "▲" if speedup > 1.005 else "▼" if speedup < 0.995 else "="


def beyond(speedup: float | None, tokens_per_pass: float | None) -> bool:
    """Whether a speedup is above τ by more than half a per cent, which is impossible as a round takes at least a plain
    pass: the timing was disturbed."""
    return bool(speedup and tokens_per_pass) and (speedup or 0.0) > 1.005 * (tokens_per_pass or 0.0)


def frame(rows: Iterable[MeasuredCase]) -> pd.DataFrame:
    """The rows as a data frame, one column per field of `MeasuredCase`."""
    import pandas as pd

    from .measured import MeasuredCase

    return pd.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(MeasuredCase)])


def failures(rows: Iterable[MeasuredCase]) -> list[str]:
    """Sentences on what failed, one per prompt and reason."""
    lanes: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in rows:
        if row.error is not None:
            lanes.setdefault((row.family, row.name, row.error), {})[row.label] = None
    return [
        f"{family}: {name}, {next(iter(labels)) if len(labels) == 1 else f'in {len(labels)} lanes'}: {error}"
        for (family, name, error), labels in lanes.items()
    ]


def to_csv(rows: Iterable[MeasuredCase]) -> str:
    """All cells as CSV."""
    return csv_of(frame(rows))


def csv_of(table: pd.DataFrame) -> str:
    """A table as CSV. Text a spreadsheet would run as a formula is prefixed with an apostrophe."""
    table = table.copy()
    for name in table.columns:
        table[name] = [
            f"'{value}" if isinstance(value, str) and value[:1] in FORMULAS else value
            for value in table[name]
        ]
    return str(table.to_csv(index=False))


def to_json(about: dict[str, Any], rows: Sequence[MeasuredCase]) -> str:
    """Cells and summary as JSON, with their context (see `sweep.about`)."""
    lines = [
        {key: None if value != value else value for key, value in line.items()}
        for line in summary(rows).to_dict("records")
    ]
    return json.dumps({**about, "summary": lines, "rows": [asdict(row) for row in rows]}, ensure_ascii=False)


def summary(rows: Iterable[MeasuredCase]) -> pd.DataFrame:
    """One row per family and lane, families in order of appearance.

    Columns besides `family`, `lane` and `label`:
        prompts, failed: prompts with numbers, cells without any.
        tokens_per_pass, tokens_per_second: the median over prompts of the prompt's median over repeats.
        accepted, judged, alpha, alpha_low, alpha_high: counts over one repeat of each prompt (the others judge the
            same tokens again), their share and its 95% Wilson interval; None on trees, and where nothing was judged.
        speedup: the median over prompts of the prompt's median speedup, each against plain decoding in the same turn;
            speedup_q1, speedup_q3, speedup_min, speedup_max: quartiles and extremes over prompts.
        compared: prompts with a speedup, which needs `MIN_TOKENS` tokens in both lanes.
        slower: the share of them whose median speedup lies below 1.
        repeats_apart: spread of a prompt's repeats, (largest − smallest) / median; the median over prompts;
            None where each has one only.
        same_text: the share of prompts whose tokens are plain decoding's; None where there is nothing to compare.
        repeated: the share of all tokens, one repeat of each prompt, that repeat earlier output (see `loops`).
        looping: how many prompts' texts are loops, which flatters the line's other figures. Both are None where this
            was not measured.
    """
    import pandas as pd

    table = frame(rows)
    keys = ["family", "name", "repeat"]
    good = table[table["error"].isna()].copy()
    for name in ("tokens", "seconds", "tokens_per_pass"):
        good[name] = good[name].astype(float)
    good["speed"] = good["tokens"] / good["seconds"].where(good["seconds"] > 0)
    plain = good.loc[good["lane"] == 0, [*keys, "tokens", "speed"]]
    good = good.merge(plain, on=keys, how="left", suffixes=("", "_plain"))
    enough = good[["tokens", "tokens_plain"]].min(axis=1, skipna=False) >= MIN_TOKENS
    good["speedup"] = (good["speed"] / good["speed_plain"]).where(enough)
    lines = []
    for (family, lane), cells in table.groupby(["family", "lane"], sort=False):
        mine = good[(good["family"] == family) & (good["lane"] == lane)]
        lines.append(
            {
                "family": family,
                "lane": lane,
                "label": cells["label"].iloc[0],
                "failed": int(cells["error"].notna().sum()),
                **_line(mine),
            }
        )
    found = pd.DataFrame(lines, columns=list(COLUMNS))
    order = {family: at for at, family in enumerate(dict.fromkeys(table["family"]))}
    return found.sort_values(
        ["family", "lane"], key=lambda column: column.map(order) if column.name == "family" else column
    ).reset_index(drop=True)


def _line(cells: pd.DataFrame) -> dict[str, Any]:
    by_prompt = cells.groupby("name", sort=False)
    medians = by_prompt[["tokens_per_pass", "speed", "speedup"]].median()
    speedups = medians["speedup"].dropna()
    several = by_prompt["speedup"].count() > 1  # one repeat has no spread, which is not a spread of 0
    spread = by_prompt["speedup"].agg(lambda values: (values.max() - values.min()) / values.median())[several]
    first = cells[cells["repeat"] == by_prompt["repeat"].transform("min")]
    accepted, judged = int(first["accepted"].sum()), int((first["accepted"] + first["rejected"]).sum())
    # Trees have no rate: failed siblings would make a single number meaningless.
    tree = bool((first["acceptance_rate"].isna() & (first["accepted"] + first["rejected"] > 0)).any())
    low, high = wilson(accepted, judged) if judged and not tree else (None, None)
    texts = by_prompt["same_text"].first().dropna()
    known = first.dropna(subset=["repeated"])
    share = known["repeated"].astype(float)
    tokens = float(known["tokens"].sum())
    return {
        "prompts": len(medians),
        "compared": len(speedups),
        "tokens_per_pass": _median(medians["tokens_per_pass"]),
        "accepted": accepted,
        "judged": judged,
        "alpha": accepted / judged if judged and not tree else None,
        "alpha_low": low,
        "alpha_high": high,
        "speedup": _median(speedups),
        "speedup_q1": _quantile(speedups, 0.25),
        "speedup_q3": _quantile(speedups, 0.75),
        "speedup_min": _quantile(speedups, 0.0),
        "speedup_max": _quantile(speedups, 1.0),
        "slower": float((speedups < 1.0).mean()) if len(speedups) else None,
        "repeats_apart": _median(spread.dropna()),
        "tokens_per_second": _median(medians["speed"]),
        "same_text": float(texts.astype(bool).mean()) if len(texts) else None,
        "repeated": float((share * known["tokens"]).sum()) / tokens if tokens else None,
        "looping": int((share >= LOOP).sum()) if len(known) else None,
    }


def looping(lines: Iterable[Mapping[Any, Any]]) -> str:
    """A sentence on looping texts in a sweep; empty where there are none.

    Args:
        lines: the summary's, as dictionaries.
    """
    raced = [line for line in lines if line["lane"] > 0]  # plain decoding guesses nothing
    known = [line for line in raced if line["looping"] is not None and line["looping"] == line["looping"]]
    loops, texts = int(sum(line["looping"] for line in known)), sum(line["prompts"] for line in known)
    if not loops:
        return ""
    return (
        f"{loops} of {many(texts, 'text')} of the guessing lanes {'is a loop' if loops == 1 else 'are loops'} "
        f"(at least {LOOP:.0%} of the tokens repeat earlier text), which flatters every proposer."
    )


def _median(values: Any) -> float | None:
    return _quantile(values.dropna(), 0.5)


def _quantile(values: Any, at: float) -> float | None:
    return float(values.quantile(at)) if len(values) else None
