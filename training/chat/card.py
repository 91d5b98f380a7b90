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
from training.checkpoints import latest_checkpoint, load_state
from training.results.figures import TOKENS, Lane, curve_of, lane, line, rows_of

HERE = Path(__file__).parent
SETS = {"held out": HERE / "heldout.toml", "fresh eyes": HERE / "fresh.toml"}
PARTS = ("eagle", "eagle3", "medusa", "draft")


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
        found["sets"][name] = _set(models, prompts, chosen, rows)
    return found


def _set(models: sd.Models, prompts: list[Case], chosen: list[Lane], rows: list[Any]) -> dict[str, Any]:
    """The figures of one set of prompts."""
    repeated = {(row.family, row.name): row.repeated or 0.0 for row in rows if row.lane == 0}
    looping = {key for key, share in repeated.items() if share >= LOOP}
    return {
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
