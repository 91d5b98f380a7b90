"""What do the proposers gain with the chat family? Held-out prompts in the chat template, in one run, and the card."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import available
from specdec_measure.records.repeats import LOOP, RUN
from specdec_measure.sweep.cases import Case
from training.chat.heads import RANKS
from training.checkpoints import latest_checkpoint, load_state
from training.results.card import loop_words, row_of, table
from training.results.figures import TOKENS, Lane, curve_of, lane, line, rows_of

HERE = Path(__file__).parent
SETS = {"held out": HERE / "heldout.toml", "fresh eyes": HERE / "fresh.toml"}
FAILURES = HERE / "failures.md"  # written by hand after reading the output
PARTS = ("eagle", "eagle3", "medusa", "draft")
MEASUREMENTS = "smollm2-measurements.json"
UNMEASURED = "Not measured yet for these weights: `python -m training chat card` on an idle machine does it."
WANTED = (  # the project's targets for the family: kind of prompt, lane, figure, least value
    ("chat", "eagle", "tokens_per_pass", 2.1),
    ("code", "eagle", "tokens_per_pass", 2.4),
    ("edits", "eagle", "tokens_per_pass", 2.6),
    ("edits", "eagle, tree of 59", "tokens_per_pass", 2.6),  # EAGLE-2's own
    ("chat", "medusa", "tokens_per_pass", 1.5),
    ("code", "medusa", "tokens_per_pass", 1.8),
    ("chat", "draft-model", "tokens_per_pass", 1.7),
    ("code", "draft-model", "tokens_per_pass", 2.0),
    ("edits", "prompt-lookup", "tokens_per_pass", 3.5),
    ("chat", "best", "speedup", 1.5),
    ("code", "best", "speedup", 1.8),
    ("edits", "best", "speedup", 3.0),
)


def lanes(models: sd.Models) -> list[Lane]:
    """The proposers these models can run, greedy."""
    fixed = (
        lane("draft-model", "draft-model"),
        lane("branching", "branching"),
        lane("eagle", "eagle"),
        lane("eagle, small tree", "eagle", depth=3, top_k=2, nodes=4),
        lane("eagle, tree of 59", "eagle", depth=6, top_k=10, nodes=59),
        lane("eagle3", "eagle3"),
        lane("eagle3, small tree", "eagle3", depth=3, top_k=2, nodes=4),
        lane("eagle3, tree of 59", "eagle3", depth=6, top_k=10, nodes=59),
        lane("medusa", "medusa"),
        lane("prompt-lookup", "prompt-lookup", gamma=10),
        lane("lookahead", "lookahead"),
    )
    deep = [lane(head, head, depth=6, top_k=3) for head in ("eagle", "eagle3")]
    measuring = [
        Lane(f"{each.name}, cost-aware", each.settings.but(length_policy="cost-aware"))
        for each in (*deep, *fixed)
        if each.name in ("draft-model", "medusa", "prompt-lookup") or each in deep
    ]
    every = (*fixed, *measuring)
    missing = available(models)
    return [each for each in every if missing[each.settings.proposer] is None]


def cases(path: Path, most: int | None = None) -> list[Case]:
    """The prompts of a file, by kind, the first `most` of each; each is a message to the model."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Case(kind, f"{number}", text, chat=True)
        for kind, prompts in content.items()
        for number, text in enumerate(prompts[:most], start=1)
    ]


def measure(
    model: str,
    runs: Path,
    repeats: int = 1,
    store: Path | None = None,
    most: int | None = None,
    only: Sequence[str] = (),
    on_prompt: Callable[[str], None] = print,
    before: Path | None = None,
) -> dict[str, Any]:
    """All figures of the card, as plain values for JSON.

    Args:
        model: a name of the catalogue, a folder or a hub id, with what was trained for it.
        runs: where the training runs lie.
        repeats: how often each cell is timed.
        store: keeps the rows as they come, so that an interrupted run can resume.
        most: prompts of each kind, from the beginning of each file; None takes all.
        only: lanes to measure, by name; none named means all.
        on_prompt: receives each prompt.
        before: the figures of the card so far, for the training of parts whose runs are not here.
    """
    known = json.loads(before.read_text(encoding="utf-8"))["training"] if before and before.is_file() else {}
    models = sd.load_models(model)
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": models.machine,
        "tokens": TOKENS,
        "repeats": repeats,
        "loop": {"run": RUN, "share": LOOP},
        "parameters": {
            "target": models.target.info.parameters,
            "draft": models.draft.info.parameters if models.draft else None,
            **{
                name: sum(weight.numel() for weight in part.parameters())
                for name, part in models.heads.items()
            },
        },
        "training": {
            part: training_of(runs / part) if latest_checkpoint(runs / part) else known[part]
            for part in PARTS
            if latest_checkpoint(runs / part) or part in known
        },
        "curve": asdict(curve_of(models, "usual")),
        "sets": {},
    }
    chosen = [each for each in lanes(models) if not only or each.name in only]
    for name, path in SETS.items():
        prompts = cases(path, most)
        part_store = store.with_suffix(f".{name.replace(' ', '-')}.jsonl") if store else None
        rows = rows_of(models, prompts, chosen, repeats, part_store, on_prompt)
        repeated = {(row.family, row.name): row.repeated or 0.0 for row in rows if row.lane == 0}
        looping = {key for key, share in repeated.items() if share >= LOOP}
        found["sets"][name] = {
            "prompts": [
                {
                    "kind": case.family,
                    "text": case.prompt,
                    "repeated": round(repeated[case.family, case.name], 3),
                }
                for case in prompts
            ],
            "kinds": {
                kind: {
                    "all": summary(rows, [c for c in prompts if c.family == kind], chosen),
                    "no loops": summary(
                        rows,
                        [c for c in prompts if c.family == kind and (c.family, c.name) not in looping],
                        chosen,
                    ),
                    "loops": sum(key[0] == kind for key in looping),
                }
                for kind in dict.fromkeys(case.family for case in prompts)
            },
            "equality": equality(models, prompts, chosen, rows),
        }
    return found


def equality(
    models: sd.Models, prompts: Sequence[Case], chosen: Sequence[Lane], rows: Sequence[Any]
) -> dict[str, Any]:
    """Whether plain greedy text equals that of transformers' `generate`, and each lane's equals plain decoding.

    Texts that diverge are listed with the margin (logits, float32) between the target's two best tokens there.
    """
    settings = chosen[0].settings.but(proposer="none", options={}, record="tokens")
    same = {(row.family, row.name, row.label): row.same_text for row in rows if row.repeat == 0}
    forks = []
    compared = 0
    for case in prompts:
        ids = models.chat(case.prompt)
        plain = sd.decode(models, ids, settings).token_ids
        texts = {"generate": _generated(models, ids, settings.max_new_tokens)}
        for each in chosen:
            compared += 1
            if not same[case.family, case.name, each.name]:
                texts[each.name] = sd.decode(models, ids, each.settings.but(record="tokens")).token_ids
        for name, text in texts.items():
            if text != plain:
                at, margin = _fork(models, ids, plain, text)
                forks.append(
                    {"prompt": case.family + " " + case.name, "lane": name, "at": at, "margin": margin}
                )
    return {"generate": len(prompts), "lanes": compared, "forks": forks}


def _causal(models: sd.Models) -> PreTrainedModel:
    """The target as transformers has it."""
    assert isinstance(models.target, HubModel)
    return models.target.model


@torch.inference_mode()
def _generated(models: sd.Models, ids: list[int], most: int) -> list[int]:
    prompt = torch.tensor([ids])
    pad = min(models.eos, default=0)
    # transformers types a causal model without its GenerationMixin
    out = _causal(models).generate(  # type: ignore[operator]
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=most, pad_token_id=pad,
        eos_token_id=sorted(models.eos) or None,
    )  # fmt: skip
    return [int(token) for token in out[0, len(ids) :]]


@torch.inference_mode()
def _fork(models: sd.Models, ids: list[int], one: list[int], other: list[int]) -> tuple[int, float]:
    """Where two texts diverge, and the gap between the target's best two tokens there."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    first, second = _causal(models)(torch.tensor([ids + one[:at]])).logits[0, -1].topk(2).values.tolist()
    return at, first - second


def summary(rows: list[Any], prompts: list[Case], chosen: list[Lane]) -> dict[str, Any] | None:
    """One line per lane over these prompts, means of τ beside the medians; None without a prompt."""
    names = [(case.family, case.name) for case in prompts]
    if not names:
        return None
    lines = {}
    for each in chosen:
        own = [row for row in rows if row.label == each.name and (row.family, row.name) in set(names)]
        pooled = sum(row.tokens for row in own) / sum(row.target_passes for row in own)
        lines[each.name] = line(rows, names, each.name) | {"pooled_tokens_per_pass": pooled}
    return {"lanes": lines, "best": max(lines, key=lambda name: lines[name]["speedup"])}


def training_of(run: Path) -> dict[str, Any]:
    """Counters of a run and its held-out accuracy over the tokens it had seen."""
    checkpoint = latest_checkpoint(run)
    assert checkpoint is not None
    state = load_state(checkpoint)
    log = [json.loads(row) for row in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    curve = [[row["tokens"], first_guess(row["heldout"]["accuracy"])] for row in log if "heldout" in row]
    return {key: state[key] for key in ("step", "tokens", "seconds")} | {
        "parts": state["data"]["parts"],
        "curve": curve,
    }


def first_guess(accuracy: Any) -> float:
    """How often a drafter's very first guess is right, from its evaluation."""
    if isinstance(accuracy, dict):
        accuracy = accuracy["accuracy"]
    while isinstance(accuracy, list):
        accuracy = accuracy[0]
    return float(accuracy)


def render(found: dict[str, Any]) -> str:
    """The card: `card.md` with every number filled in."""
    text = (HERE / "card.md").read_text(encoding="utf-8")
    before, rest = text.split("{{figures-begin}}\n")
    measured, after = rest.split("{{figures-end}}\n")
    text = before + (measured if found["sets"] else f"{UNMEASURED}\n") + after
    values = {
        "measured": found["date"],
        "machine": found["machine"],
        "tokens": str(found["tokens"]),
        "repeats": str(found["repeats"]),
        "loop": loop_words(found),
        "sizes": table(
            ["part", "parameters"],
            [[name, f"{count:,}"] for name, count in found["parameters"].items() if count],
        ),
        "widths": widths(found["curve"]) if found["sets"] else "",
        "training": training_table(found),
        "figures": "\n\n".join(figure_table(found, name) for name in found["sets"]),
        "wanted": wanted_table(found) if found["sets"] else "",
        "equality": "\n".join(
            equality_words(name, found["sets"][name]["equality"]) for name in found["sets"]
        ),
        "failures": FAILURES.read_text(encoding="utf-8").strip(),
        "ranks": str(RANKS),
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def widths(curve: dict[str, Any]) -> str:
    """The time of a target pass by the number of its tokens, and of a draft pass."""
    said = [f"T({n}) = {1e3 * s:.0f} ms" for n, s in zip(curve["widths"], curve["seconds"], strict=True)]
    if curve["draft_s"]:
        said.append(f"a draft pass {1e3 * curve['draft_s']:.1f} ms")
    return ", ".join(said)


def training_table(found: dict[str, Any]) -> str:
    """Steps, tokens and time of each run, and the curve of its first guess."""
    rows = []
    for part, run in found["training"].items():
        curve = run["curve"]
        thinned = curve[:: max(1, len(curve) // 6)]
        if curve and thinned[-1] != curve[-1]:
            thinned.append(curve[-1])
        said = ", ".join(f"{tokens / 1e3:,.0f} k: {share:.2f}" for tokens, share in thinned)
        rows.append([part, f"{run['step']:,}", f"{run['tokens']:,}", f"{run['seconds'] / 60:.1f}", said])
    return table(["part", "steps", "tokens", "minutes", "first guess right, by tokens seen"], rows)


def figure_table(found: dict[str, Any], name: str) -> str:
    """Tokens per pass → speedup by kind of prompt, all prompts and without loops."""
    kinds = found["sets"][name]["kinds"]
    labels = list(next(iter(kinds.values()))["all"]["lanes"])
    rows = []
    for kind, groups in kinds.items():
        for which in ("all", "no loops"):
            group = groups[which]
            if group is None or (which == "no loops" and not groups["loops"]):
                continue
            lines = group["lanes"]
            head = f"{kind} ({lines[labels[0]]['prompts']})" + (
                ", without loops" if which == "no loops" else ""
            )
            cells = []
            for label in labels:
                mark = "**" if label == group["best"] else ""
                alpha = lines[label]["alpha"]
                cells.append(
                    f"{lines[label]['tokens_per_pass']:.2f} → {mark}{lines[label]['speedup']:.2f}×{mark}"
                    + (f", α {alpha:.2f}" if alpha is not None else "")
                )
            rows.append([head, *cells])
    loops = ", ".join(f"{kind} {groups['loops']}" for kind, groups in kinds.items())
    return f"Prompts: {name}. Answers that loop: {loops}.\n\n" + table(["prompts", *labels], rows)


def equality_words(name: str, measured: dict[str, Any]) -> str:
    """How many greedy texts were equal, and every fork."""
    forks = measured["forks"]
    prompts, lanes = measured["generate"], measured["lanes"]
    generate_forks = sum(fork["lane"] == "generate" for fork in forks)
    lane_forks = len(forks) - generate_forks
    said = (
        f"- {name}: plain decoding equals `generate` on {prompts - generate_forks} of {prompts} prompts, and a lane "
        f"equals plain decoding in {lanes - lane_forks} of {lanes} texts."
    )
    listed = [
        f"{fork['prompt']}, {fork['lane']}: token {fork['at']}, margin {fork['margin']:.1e}" for fork in forks
    ]
    return f"{said} Forks: {'; '.join(listed)}." if listed else said


def wanted_table(found: dict[str, Any]) -> str:
    """Targets next to what was measured, on both sets of prompts."""
    rows = []
    for kind, label, figure, least in WANTED:
        for name, content in found["sets"].items():
            group = content["kinds"].get(kind, {}).get("all")
            best = group["best"] if group and label == "best" else label
            value = group["lanes"].get(best, {}).get(figure) if group else None
            said = f"{label} ({best})" if label == "best" else label
            rows.append(row_of(f"{kind}, {said}, {figure.replace('_', ' ')}, {name}", least, value))
    return table(["figure", "goal", "measured", "met"], rows)


def write_card(folder: Path, found: dict[str, Any]) -> None:
    """Write `smollm2.md` and its figures as JSON into the models' folder."""
    (folder / MEASUREMENTS).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "smollm2.md").write_text(render(found), encoding="utf-8")
