"""What should a reader know about the models? Measures them and writes the model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from training.checkpoints import load_state, require_checkpoint
from training.evaluate import bits_per_byte, bytes_per_token, family_losses, heldout_rows
from training.fetch import load_sources
from training.latency import latency_ratio
from training.mix import FAMILIES, FOCUS, SOURCES
from training.plot import loss_plot, read_losses
from training.reading import agreement, continuation, load_pair, load_prompts
from training.shapes import DRAFT, TARGET

KNOWN_FAILURES = Path(__file__).with_name("known_failures.md")  # written by a person after reading the output
HARDWARE = "2 cores of an x86-64 server CPU (AMD EPYC), no GPU"


def measure(
    models: Path, data: Path, prompts: Path, runs: dict[str, Path], per_source: int = 8
) -> dict[str, Any]:
    """Everything the card states, measured on the exported float16 folders and read from the runs' states."""
    target, draft, tokenizer = load_pair(models)
    rows = heldout_rows(data, 1025, per_source)
    sizes = bytes_per_token(data)
    result: dict[str, Any] = {"heldout_tokens": {family: ids[:, 1:].numel() for family, ids in rows.items()}}
    for name, model in (("target", target), ("draft", draft)):

        def logits_of(ids: Tensor, model: Any = model) -> Tensor:
            logits: Tensor = model(ids).logits
            return logits

        losses = family_losses(logits_of, rows, batch=4)
        result[name] = {
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "loss": losses,
            "bits_per_byte": {family: bits_per_byte(loss, sizes[family]) for family, loss in losses.items()},
        }
    result["runs"] = {}
    for name, run in runs.items():
        state = load_state(require_checkpoint(run))
        result["runs"][name] = {key: state[key] for key in ("step", "tokens", "seconds")}
    result["latency"] = latency_ratio(target, draft)
    result["prompts"] = {}
    for family, content in load_prompts(prompts).items():
        pairs, counted, repeats = [], 0, 0
        for prompt in content["prompt"]:
            ids = tokenizer(prompt["text"], return_tensors="pt")["input_ids"][0]
            written = continuation(target, tokenizer, prompt["text"])
            pairs.append((*agreement(target, draft, ids, written), len(written)))
            counted, repeats = counted + len(written), repeats + looping(written.tolist())
        means = [sum(pair[place] * pair[2] for pair in pairs) / max(1, counted) for place in (0, 1)]
        result["prompts"][family] = {
            "same": means[0],
            "overlap": means[1],
            "looping": repeats,
            "count": len(pairs),
        }
    return result


def looping(ids: list[int], span: int = 40) -> bool:
    """Whether the last `span` tokens merely repeat a cycle of at most half their length."""
    tail = ids[-span:]
    return len(tail) == span and any(tail[size:] == tail[:-size] for size in range(1, span // 2 + 1))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def family_table(measured: dict[str, Any]) -> str:
    """Held-out loss and bits per byte by family."""
    rows = []
    for family in FAMILIES:
        cells = [family, f"{measured['heldout_tokens'][family]:,}"]
        for name in ("target", "draft"):
            cells += [
                f"{measured[name]['loss'][family]:.2f}",
                f"{measured[name]['bits_per_byte'][family]:.2f}",
            ]
        rows.append(cells)
    return table(["family", "held-out tokens", "target loss", "target bpb", "draft loss", "draft bpb"], rows)


def prompt_table(measured: dict[str, Any]) -> str:
    """Agreement of draft and target on the shipped prompts."""
    rows = [
        [family, f"{m['same']:.2f}", f"{m['overlap']:.2f}", f"{m['looping']} of {m['count']}"]
        for family, m in measured["prompts"].items()
    ]
    return table(["family", "same first choice", "overlap at temperature 1", "ends in a loop"], rows)


def licence_table(data: Path) -> str:
    """Sources, licences and shares of the mix."""
    manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    closing = sum(FOCUS.values())
    mix = []
    for row in manifest:
        late = f"{100 * FOCUS[row['name']] / closing:.1f} %"
        mix.append([row["name"], row["family"], f"{row['weight']:g} %", late, f"{row['train_tokens']:,}"])
    first = table(
        ["corpus file", "repository", "commit", "licence"],
        [[s["output"], s["repo"], s.get("commit", "not recorded"), s["licence"]] for s in load_sources()],
    )
    return f"{first}\n\n{table(['part of the mix', 'family', 'share', 'distinct tokens'], mix)}"


def model_table(measured: dict[str, Any]) -> str:
    """Sizes of the two models."""
    rows = []
    for name, s in (("target", TARGET), ("draft", DRAFT)):
        counted, heads = f"{measured[name]['parameters']:,}", f"{s.heads} ({s.kv_heads}) × {s.head_dim}"
        rows.append(
            [
                f"`specdec-{name}`",
                counted,
                str(s.layers),
                str(s.hidden),
                heads,
                str(s.ffn),
                str(s.max_positions),
            ]
        )
    return table(
        ["model", "parameters", "layers", "hidden", "heads (KV) × size", "feed-forward", "context"], rows
    )


def run_table(measured: dict[str, Any]) -> str:
    """Steps, tokens and time of each run."""
    rows = [
        [name, f"{r['step']:,}", f"{r['tokens']:,}", f"{r['seconds'] / 60:.1f}"]
        for name, r in measured["runs"].items()
    ]
    return table(["run", "steps", "tokens seen", "active minutes"], rows)


def write_card(
    models: Path, measured: dict[str, Any], data: Path, runs: dict[str, Path], commands: list[str], date: str
) -> None:
    """Write `README.md`, `training-loss.svg` and `measurements.json` into the models' folder."""
    plots = {name: read_losses(run / "log.jsonl") for name, run in runs.items() if "distil" not in name}
    (models / "training-loss.svg").write_text(loss_plot(plots), encoding="utf-8")
    (models / "measurements.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    failures = KNOWN_FAILURES.read_text(encoding="utf-8").strip()
    target_ms, draft_ms, ratio = (
        measured["latency"][place] * scale for place, scale in ((0, 1e3), (1, 1e3), (2, 1))
    )
    sizes = measured["target"]["parameters"] / measured["draft"]["parameters"]
    written = sum(source.weight for source in SOURCES if source.name in PROGRAM_WRITTEN)
    text = f"""# Models of Specdec Lab

Two small Llama-layout language models for teaching speculative decoding: a target and a draft with one
tokenizer (byte-level BPE, {TARGET.vocab} entries, digits single, `<|endoftext|>` = 0). They write simple English
stories, Python, tables and answers about a passage; they know nothing of the world. Trained for this project
from random weights; no other model's weights were used.

{model_table(measured)}

The target has {sizes:.1f} times the draft's parameters. One cached forward with one token (transformers,
float32, 128 tokens before it): target {target_ms:.1f} ms, draft {draft_ms:.1f} ms, ratio
{ratio:.2f} on {HARDWARE}.

## Training

Date {date}, {HARDWARE}.
Muon (matrices) and AdamW (the rest), warmup–stable–decay, bfloat16 autocast, rows of 1024 tokens, 8 rows a
step. The machine was shared with other work, so the active minutes are longer than on a free one.

{run_table(measured)}

![Training loss](training-loss.svg)

## Held-out loss

Nats per token and bits per byte of UTF-8 text, on documents never trained on (the float16 weights as shipped).
Exercises written by program are easier than text by people; each family mixes its sources evenly.

{family_table(measured)}

## Draft and target on the shipped prompts

Greedy continuations of 128 tokens by the target. *Same first choice*: share of positions where the draft
prefers the same token. *Overlap*: the sum over the vocabulary of min(p, q), the expected acceptance of one
proposed token at temperature 1 without top-k or top-p. *Ends in a loop*: the last 40 tokens repeat a cycle.

{prompt_table(measured)}

## Known failures

{failures}

## Data and licences

{written:g} % of the wide mix is exercises written by program in `training/tasks.py` and `training/tables.py`; the
closing phase (`--focus`) has shares of its own. Rows whose source says `split: test`, and the two evaluation
files, were never trained on. The FairytaleQA test stories may also stand in the fairy-tale collections.

{licence_table(data)}

## Commands

```
{chr(10).join(commands)}
```
"""
    (models / "README.md").write_text(text, encoding="utf-8")


PROGRAM_WRITTEN = frozenset(
    "copying tables forms summaries fact_questions name_questions class_templates function_templates "
    "number_rows".split()
)
