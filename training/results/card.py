"""What should a reader know about the models? Measures them and writes the model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import specdec_core as sd
from training.checkpoints import counters, load_state, require_checkpoint
from training.data.fetch import load_sources
from training.data.mix import FAMILIES, FOCUS, SOURCES
from training.results.figures import measure as measure_figures
from training.results.latency import latency_ratio
from training.results.measure import agreements, continuations, heldout
from training.results.plot import loss_plot, read_heldout, read_losses
from training.results.reading import load_family
from training.shapes import SHAPES

HERE = Path(__file__).parent
KNOWN_FAILURES = HERE / "known_failures.md"  # written by hand after reading the output
FIRST_VERSION = HERE / "first_version.json"  # held-out losses of the first target, measured the same way
HARDWARE = "2 cores of an x86-64 server CPU (AMD EPYC), no GPU"
QUOTES = 5  # continuations of each family, drawn by a fixed seed, not chosen
WANTED = (  # the project's targets for the family: group, lane, figure, least value
    ("code", "draft-model", "tokens_per_pass", 3.2),
    ("story", "draft-model", "tokens_per_pass", 2.4),
    ("poem", "draft-model", "tokens_per_pass", 1.8),
    ("verbatim edits", "prompt-lookup", "tokens_per_pass", 4.0),
    ("code", "medusa", "tokens_per_pass", 2.6),
    ("story", "medusa", "tokens_per_pass", 2.0),
    ("code", "eagle", "tokens_per_pass", 3.5),
    ("story", "eagle", "tokens_per_pass", 2.7),
    ("code", "early-exit", "tokens_per_pass", 2.5),
    ("code", "best", "speedup", 1.8),
    ("story", "best", "speedup", 1.4),
    ("copy", "best", "speedup", 2.2),
    ("arithmetic", "best", "speedup", 1.8),
)


def measure(
    models: Path,
    data: Path,
    prompts: Path,
    runs: dict[str, Path],
    commands: list[str],
    date: str,
    repeats: int = 3,
    store: Path | None = None,
) -> dict[str, Any]:
    """Everything the card states, measured on the exported folders and read from the runs' states.

    Of runs that are not here (training is rarely repeated, and its checkpoints do not ship) the card before and the
    heads' own files tell. `store` keeps the rows of the sweep, so that an interrupted run can resume.

    Raises:
        ValueError: if the prepared data is missing.
    """
    if not (data / "manifest.json").is_file():
        raise ValueError(
            f"There is no prepared text in {data}, on which held-out losses are measured: run `prepare` with the "
            "bundled tokenizer (--tokenizer assets/models/specdec-target)."
        )
    family, tokenizer = load_family(models)
    manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    before = trained_before(models)
    result: dict[str, Any] = {
        "date": date,
        "commands": list(dict.fromkeys([*before["commands"], *commands])),
        "mix": [{key: row[key] for key in ("name", "family", "weight", "train_tokens")} for row in manifest],
        "parameters": {
            name: sum(weight.numel() for weight in model.parameters()) for name, model in family.items()
        },
        "heldout": heldout(family, tokenizer, data),
        "agreement": agreements(family, tokenizer, prompts),
        "latency": {
            name: latency_ratio(family["target"], family[name]) for name in family if name != "target"
        },
        "continuations": continuations(family["target"], tokenizer, data, QUOTES),
        "runs": before["runs"],
    }
    for name, run in runs.items():
        state = load_state(require_checkpoint(run))
        result["runs"][name] = {key: state[key] for key in ("step", "tokens", "seconds")}
    loaded = sd.load_models()
    result["heads"] = {name: sum(w.numel() for w in part.parameters()) for name, part in loaded.heads.items()}
    result["figures"] = measure_figures(loaded, prompts, repeats, store)
    return result


def trained_before(models: Path) -> dict[str, Any]:
    """Commands and counters of training runs by name, from the card before and from what trained parts hold."""
    card, runs, commands = models / "measurements.json", {}, []
    if card.is_file():
        found = json.loads(card.read_text(encoding="utf-8"))
        runs, commands = dict(found["runs"]), list(found["commands"])
    for name in PARTS:
        folder = models / f"specdec-{name}"
        if (folder / "config.json").is_file() and (said := counters(folder))["step"]:
            runs[name] = said
    return {"commands": commands, "runs": runs}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def cell(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def family_table(measured: dict[str, Any]) -> str:
    """Held-out bits per byte of every model, and of the first version of the target, by family."""
    first = json.loads(FIRST_VERSION.read_text(encoding="utf-8"))["heldout"]
    rows = []
    for key in [*FAMILIES, "story/tinystories"]:
        of = {name: losses[key] for name, losses in measured["heldout"].items()}
        target = of["target"]
        rows.append(
            [
                key.replace("story/tinystories", "of it, TinyStories"),
                f"{target['tokens']:,.0f}",
                cell(target["loss"]),
            ]
            + [cell(losses["bits_per_byte"], 3) for losses in of.values()]
            + [cell(first[key]["bits_per_byte"], 3) if key in first else "–"]
        )
    names = [f"{name} bpb" for name in measured["heldout"]]
    return table(["family", "held-out tokens", "target loss", *names, "first target bpb"], rows)


def proposer_table(figures: dict[str, Any]) -> str:
    """Tokens per pass, speedup and α of every proposer by group of prompts."""
    names = list(next(iter(figures["groups"].values()))["lanes"])
    rows = []
    for group, found in figures["groups"].items():
        lanes = found["lanes"]
        rows.append([f"{group} ({lanes[names[0]]['prompts']})"])
        for name in names:
            mark = "**" if name == found["best"] else ""
            alpha = f", α {lanes[name]['alpha']:.2f}" if lanes[name]["alpha"] is not None else ""
            rows[-1].append(
                f"{lanes[name]['tokens_per_pass']:.2f} → {mark}{lanes[name]['speedup']:.2f}×{mark}{alpha}"
            )
    return table(["prompts", *names], rows)


def wanted_table(measured: dict[str, Any]) -> str:
    """The targets for the family next to what was measured."""
    figures = measured["figures"]
    rows = []
    for group, lane, figure, least in WANTED:
        found = figures["groups"].get(group)
        name = found["best"] if found and lane == "best" else lane
        value = found["lanes"][name][figure] if found else None
        said = f"{lane} ({name})" if lane == "best" else lane
        rows.append(row_of(f"{group}, {said}, {figure.replace('_', ' ')}", least, value))
    bits = measured["heldout"]["target"]
    first = json.loads(FIRST_VERSION.read_text(encoding="utf-8"))["heldout"]
    worse = [family for family in FAMILIES if bits[family]["bits_per_byte"] >= first[family]["bits_per_byte"]]
    rows += [
        row_of("bits per byte, TinyStories", 0.85, bits["story/tinystories"]["bits_per_byte"], most=True),
        row_of("bits per byte, code", 1.35, bits["code"]["bits_per_byte"], most=True),
        [
            "families no better than the first version",
            "none",
            ", ".join(worse) or "none",
            "no" if worse else "yes",
        ],
        row_of("share of the prompts whose continuation is no loop", 0.6, figures["entering"]),
        row_of("measured speedup over the width-aware formula (median)", 0.85, figures["formula"]["median"]),
    ]
    return table(["figure", "goal", "measured", "met"], rows)


def row_of(words: str, bound: float, value: float | None, most: bool = False) -> list[str]:
    """One line of `wanted_table`."""
    said = (
        "not measured" if value is None else "yes" if (value <= bound if most else value >= bound) else "no"
    )
    return [words, f"{'≤' if most else '≥'} {bound:g}", cell(value, 3 if most else 2), said]


def loop_words(figures: dict[str, Any]) -> str:
    """Which continuations are not loops, by the definition used when the figures were measured."""
    if "loop" not in figures:  # measured before there was `specdec_measure.records.repeats`
        return "repeats less than 20% of its 8-grams"
    run, share = figures["loop"]["run"], figures["loop"]["share"]
    said = "and more often than the prompt"
    return f"has less than {share:.0%} of its tokens in runs of {run} that it had before, {said}"


def exit_table(figures: dict[str, Any]) -> str:
    """The speedup of each early exit on code."""
    return table(
        ["layers", "tokens per pass", "α", "speedup"],
        [
            [layer, cell(found["tokens_per_pass"]), cell(found["alpha"]), f"{found['speedup']:.2f}×"]
            for layer, found in figures["exits"].items()
        ],
    )


def agreement_table(measured: dict[str, Any]) -> str:
    """Agreement of the drafts with the target on the shipped prompts."""
    drafts = list(next(iter(measured["agreement"].values())))
    rows = [
        [family, *(f"{found[name][place]:.2f}" for place in (0, 1) for name in drafts)]
        for family, found in measured["agreement"].items()
    ]
    return table(
        ["family", *(f"{word}, {name}" for word in ("same first", "overlap") for name in drafts)], rows
    )


def slow_table(figures: dict[str, Any]) -> str:
    """Where speculation is slower: prompts with a lane below plain decoding."""
    rows = [
        [
            f"{found['family']} / {found['name']}",
            ", ".join(f"{label} {speed:.2f}×" for label, speed in found["lanes"].items()),
        ]
        for found in figures["slower"]
    ]
    return table(["prompt", "slower than plain decoding"], rows)


def quotes(measured: dict[str, Any]) -> str:
    """Five unedited continuations of each family."""
    parts = []
    for family, pairs in measured["continuations"].items():
        parts.append(f"<details><summary>{family}</summary>\n")
        for opening, written in pairs:
            body = f"{opening}⟦{written}⟧".replace("```", "'''")
            parts.append(f"```text\n{body}\n```\n")
        parts.append("</details>\n")
    return "\n".join(parts)


def licence_table(measured: dict[str, Any]) -> str:
    """Sources, licences and shares of the mix."""
    closing = sum(FOCUS.values())
    mix = []
    for row in measured["mix"]:
        late = f"{100 * FOCUS[row['name']] / closing:.1f}%"
        mix.append([row["name"], row["family"], f"{row['weight']:g}", late, f"{row['train_tokens']:,}"])
    first = table(
        ["corpus file", "repository", "commit", "licence"],
        [[s["output"], s["repo"], s.get("commit", "not recorded"), s["licence"]] for s in load_sources()],
    )
    head = ["part of the mix", "family", "weight, wide", "share, closing", "distinct tokens"]
    return f"{first}\n\n{table(head, mix)}"


def model_table(measured: dict[str, Any]) -> str:
    """Sizes of the models and heads."""
    rows = []
    for name, s in SHAPES.items():
        heads = f"{s.heads} ({s.kv_heads}) × {s.head_dim}"
        numbers = [s.layers, s.hidden, heads, s.ffn, s.max_positions]
        rows.append([f"`specdec-{name}`", f"{measured['parameters'][name]:,}", *map(str, numbers)])
    for name, count in measured["heads"].items():
        rows.append([f"`specdec-{name}`", f"{count:,}", "see its README", "", "", "", ""])
    head = ["model", "parameters", "layers", "hidden", "heads (KV) × size", "feed-forward", "context"]
    return table(head, rows)


def run_table(measured: dict[str, Any]) -> str:
    """Steps, tokens and time of each run."""
    rows = [
        [name, f"{r['step']:,}", f"{r['tokens']:,}", f"{r['seconds'] / 60:.1f}"]
        for name, r in measured["runs"].items()
    ]
    return table(["run", "steps", "tokens seen", "active minutes"], rows)


def render(measured: dict[str, Any]) -> str:
    """The card's text: `card.md` with every number filled in.

    Raises:
        ValueError: if `card.md` refers to something that is not there.
    """
    text = (HERE / "card.md").read_text(encoding="utf-8")
    figures = measured["figures"]
    target, small = (measured["parameters"][name] for name in ("target", "draft"))
    written = sum(source.weight for source in SOURCES if source.name in PROGRAM_WRITTEN)
    values = {
        "models": model_table(measured),
        "ratio": f"{target / small:.1f}",
        "larger_ratio": f"{target / measured['parameters']['draft-large']:.1f}",
        "latency": ", ".join(
            f"`specdec-{name}` {part * 1e3:.2f} ms against the target's {whole * 1e3:.2f} ms (ratio {ratio:.2f})"
            for name, (whole, part, ratio) in measured["latency"].items()
        ),
        "date": measured["date"],
        "hardware": HARDWARE,
        "runs": run_table(measured),
        "losses": family_table(measured),
        "agreement": agreement_table(measured),
        "machine": figures["machine"],
        "measured": figures["date"],
        "repeats": str(figures["repeats"]),
        "tokens": str(figures["tokens"]),
        "loop": loop_words(figures),
        "entering": f"{figures['entering']:.0%}",
        "proposers": proposer_table(figures),
        "wanted": wanted_table(measured),
        "exits": exit_table(figures),
        "slower": slow_table(figures),
        "failures": KNOWN_FAILURES.read_text(encoding="utf-8").strip(),
        "quotes": quotes(measured),
        "written": f"{written / sum(source.weight for source in SOURCES):.0%}",
        "licences": licence_table(measured),
        "commands": "\n".join(measured["commands"]),
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    if "{{" in text:
        raise ValueError(
            f"card.md asks for something the card does not know: {text[text.index('{{') :][:40]}"
        )
    return text


def write_card(models: Path, measured: dict[str, Any], runs: dict[str, Path]) -> None:
    """Write `README.md`, `measurements.json` and, where the logs are here, the two plots into the models' folder."""
    if runs.keys() >= set(PLOTTED):
        plots = {name: read_losses(runs[name] / "log.jsonl") for name in PLOTTED}
        (models / "training-loss.svg").write_text(loss_plot(plots), encoding="utf-8")
        further = [runs[name] / "log.jsonl" for name in PLOTTED[:3]]
        svg = loss_plot(read_heldout(further), "Held-out loss of the target", span=1)
        (models / "heldout-loss.svg").write_text(svg, encoding="utf-8")
    (models / "measurements.json").write_text(json.dumps(measured) + "\n", encoding="utf-8")
    (models / "README.md").write_text(render(measured), encoding="utf-8")


PARTS = ("medusa", "eagle", "eagle3", "mtp", "block")  # their folders say how they were trained
PLOTTED = ("target", "target-2", "target-3", "draft", "draft-large")
PROGRAM_WRITTEN = frozenset(
    "copying tables forms summaries fact_questions name_questions class_templates function_templates "
    "number_rows edits code_edits".split()
)
