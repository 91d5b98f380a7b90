"""Which commands are there? One per stage; errors of the user become one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from training.chat.cli import app as chat_app
from training.commands import recorded_commands, remember_command
from training.data.cli import app as data_app
from training.data.cli import prepare, tokenizer
from training.heads.block_cli import app as block_app
from training.heads.cli import app as heads_app
from training.options import (
    CORPUS,
    MODELS,
    RUNS,
    Batch,
    BlocksRate,
    Compiled,
    Context,
    Corpus,
    DecayShare,
    Device,
    Focus,
    Minutes,
    Model,
    Models,
    Runs,
    Text,
    Tokens,
)

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train the models of Specdec Lab.")
app.add_typer(chat_app, name="chat")
app.add_typer(data_app)
app.add_typer(heads_app)
app.add_typer(block_app)


@app.command()
def pretrain(
    model: Annotated[str, typer.Argument(help="target, draft or draft-large")],
    runs: Runs = RUNS,
    minutes: Minutes = None,
    tokens: Tokens = None,
    name: Annotated[str | None, typer.Option(help="Run name; default: the model's.")] = None,
    batch: Batch = 8,
    context: Context = 1024,
    seed: int = 0,
    decay_share: DecayShare = 0.3,
    device: Device = "auto",
    compiled: Compiled = False,
    focus: Focus = False,
    exits: Annotated[
        list[int] | None,
        typer.Option("--exit", help="A layer that is to predict as well; may be given again."),
    ] = None,
    dropout: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.5, help="Share of each layer's output zeroed: many epochs, less by heart."
        ),
    ] = 0.0,
    unrepeat: Annotated[
        list[str] | None,
        typer.Option(help="A family whose texts are trained against loops; may be given again."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Run whose newest weights a new run starts from, with a fresh schedule."),
    ] = None,
) -> None:
    """Train a model on text; continues the run if it has a checkpoint."""
    from training.checkpoints import require_checkpoint
    from training.data.mix import FAMILIES
    from training.loop import Plan
    from training.pretrain import pick_device
    from training.pretrain import pretrain as run_pretraining
    from training.shapes import shape_named

    unknown = sorted(set(unrepeat or ()) - set(FAMILIES))
    if unknown:
        raise ValueError(f"Unknown family {unknown[0]!r}: expected one of {', '.join(FAMILIES)}.")
    plan = Plan(
        minutes, tokens, context, batch, seed, decay_share=decay_share, focus=focus, unrepeat=tuple(unrepeat or ())
    )  # fmt: skip
    run = runs / (name or model)
    state = run_pretraining(
        run, shape_named(model), runs / "data", plan, pick_device(device), compiled, dropout=dropout,
        exits=tuple(sorted(exits or ())), start=require_checkpoint(runs / start) if start else None,
    )  # fmt: skip
    remember_command(runs)
    typer.echo(
        f"{state['step']} steps, {state['tokens']} tokens, {state['seconds'] / 60:.1f} minutes in {run}."
    )


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="target, draft or draft-large")],
    runs: Runs = RUNS,
    models: Models = MODELS,
    name: Annotated[str | None, typer.Option(help="Run to export; default: the model's.")] = None,
) -> None:
    """Write the newest checkpoint of a run as a folder that transformers opens."""
    from training.checkpoints import require_checkpoint
    from training.export import export as export_checkpoint
    from training.shapes import shape_named

    shape_named(model)
    folder = models / f"specdec-{model}"
    export_checkpoint(require_checkpoint(runs / (name or model)), runs / "tokenizer", folder)
    remember_command(runs)
    typer.echo(f"Model written to {folder}.")


@app.command()
def distill(
    runs: Runs = RUNS,
    draft: Annotated[str, typer.Option(help="Run that the draft starts from.")] = "draft",
    target: Annotated[str, typer.Option(help="Run of the target.")] = "target",
    name: Annotated[str, typer.Option(help="Name of the new run.")] = "draft-distilled",
    minutes: Minutes = None,
    tokens: Tokens = None,
    batch: Batch = 8,
    context: Context = 1024,
    seed: int = 1,
    decay_share: DecayShare = 0.7,
    device: Device = "auto",
    compiled: Compiled = False,
    focus: Focus = False,
) -> None:
    """Teach the draft to guess like the target (KL divergence on the training mix)."""
    from training.checkpoints import require_checkpoint
    from training.distill import distill as run_distillation
    from training.loop import Plan
    from training.pretrain import pick_device

    plan = Plan(minutes, tokens, context, batch, seed, warmup_steps=50, decay_share=decay_share, focus=focus)
    start, teacher = require_checkpoint(runs / draft), require_checkpoint(runs / target)
    state = run_distillation(runs / name, start, teacher, runs / "data", plan, pick_device(device), compiled)
    remember_command(runs)
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens, {state['seconds'] / 60:.1f} minutes.")


@app.command()
def draft(
    text: Text = None,
    model: Model = "bundled",
    runs: Runs = RUNS,
    out: Annotated[Path | None, typer.Option(help="Folder of the draft; default: in the run's.")] = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    layers: Annotated[int, typer.Option(min=1, max=16, help="Layers of the draft.")] = 2,
    hidden: Annotated[int, typer.Option(min=64, max=2048, help="Its width, a multiple of 64.")] = 128,
    parallel: Annotated[
        int,
        typer.Option(min=1, max=16, help="Tokens it guesses in one pass, for the proposer parallel-draft."),
    ] = 1,
    start: Annotated[
        Path | None,
        typer.Option(help="Folder of a draft to train further; --layers and --hidden are then its own."),
    ] = None,
    name: Annotated[str, typer.Option(help="Run name.")] = "own-draft",
    batch: Batch = 8,
    context: Context = 256,
    seed: int = 0,
    rate: BlocksRate = 0.02,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Distil a small draft for any target; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.heads.rows import open_target, rows_for
    from training.loop import Plan
    from training.own_draft import export_draft, shape_for, started_from, train_draft
    from training.pretrain import pick_device

    rates = Rates(rate, 0.15 * rate)
    plan = Plan(minutes, tokens, context, batch, seed, 50, focus=focus, rates=rates, evaluate_every=200)
    target = open_target(model, pick_device(device))
    shape, weights = started_from(start) if start else (shape_for(target, layers, hidden), None)
    rows, heldout = rows_for(model, text, runs / "data", plan)
    state = train_draft(runs / name, shape, target, rows, heldout, plan, parallel, weights)
    folder = out or runs / name / "export"
    export_draft(runs / name, model, target, folder, state.get("shares"))
    remember_command(runs)
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; draft written to {folder}.")


@app.command()
def read(
    models: Models = MODELS,
    prompts: Annotated[Path, typer.Option(help="Folder of the prompt files.")] = Path("assets/prompts"),
    tokens: Annotated[int, typer.Option(help="New tokens per prompt.")] = 128,
    first: Annotated[int, typer.Option(help="Prompts per family.")] = 99,
) -> None:
    """Print greedy continuations of the shipped prompts, with the draft's agreement."""
    from training.results.reading import agreement, continuation, load_family, load_prompts

    family, tokenizer_ = load_family(models)
    target, draft = family["target"], family["draft"]
    for kind, content in load_prompts(prompts).items():
        for prompt in content["prompt"][:first]:
            ids = tokenizer_(prompt["text"], return_tensors="pt")["input_ids"][0]
            written = continuation(target, tokenizer_, prompt["text"], tokens)
            same, overlap = agreement(target, draft, ids, written)
            head = f"{kind} / {prompt['name']}: {len(ids)}+{len(written)} tokens, same {same:.2f}"
            typer.echo(
                f"\n=== {head}, overlap {overlap:.2f}\n{prompt['text']}\u27e6{tokenizer_.decode(written)}\u27e7"
            )


@app.command()
def latency(models: Models = MODELS) -> None:
    """Measure the forward latency of the exported models, one token per call."""
    from training.results.latency import latency_ratio
    from training.results.reading import load_family

    family, _ = load_family(models)
    for name in ("draft", "draft-large"):
        whole, part, ratio = latency_ratio(family["target"], family[name])
        typer.echo(f"target {whole * 1e3:.2f} ms, {name} {part * 1e3:.2f} ms, ratio {ratio:.3f}")


RUNS_OF_CARD = (
    *("target", "target-2", "target-3", "draft", "draft-distilled", "draft-distilled-3"),
    *("draft-large", "draft-large-distilled", "medusa", "eagle"),
)


@app.command()
def card(
    runs: Runs = RUNS,
    models: Models = MODELS,
    prompts: Annotated[Path, typer.Option(help="Folder of the prompt files.")] = Path("assets/prompts"),
    date: Annotated[str, typer.Option(help="Date of the training.")] = "2026-11-21",
    repeats: Annotated[int, typer.Option(min=1, max=20, help="How often each cell is timed.")] = 3,
) -> None:
    """Measure the exported family and write the model card with its plots; leave the machine alone meanwhile."""
    from training.results.card import measure, write_card

    folders = {name: runs / name for name in RUNS_OF_CARD if (runs / name).is_dir()}
    store = runs / "figures.jsonl"
    commands = recorded_commands(runs)
    measured = measure(models, runs / "data", prompts, folders, commands, date, repeats, store)
    write_card(models, measured, folders)
    store.unlink(missing_ok=True)
    typer.echo(f"Model card written to {models / 'README.md'}.")


@app.command(name="all")
def everything(
    corpus: Corpus = CORPUS,
    runs: Runs = RUNS,
    models: Models = MODELS,
    target_minutes: Annotated[float, typer.Option(help="Budget of the target.")] = 68,
    draft_minutes: Annotated[float, typer.Option(help="Budget of the draft's pretraining.")] = 8,
    distill_minutes: Annotated[float, typer.Option(help="Budget of the distillation.")] = 8,
    compiled: Compiled = False,
) -> None:
    """All stages after `fetch`, one after the other."""
    tokenizer(corpus, runs)
    prepare(corpus, runs)
    pretrain("target", runs, 0.8 * target_minutes, decay_share=0.0, compiled=compiled)
    pretrain("target", runs, target_minutes, decay_share=0.2, compiled=compiled, focus=True)
    pretrain("draft", runs, draft_minutes, decay_share=0.0, compiled=compiled, focus=True)
    distill(runs, minutes=distill_minutes, compiled=compiled, focus=True)
    export("target", runs, models)
    export("draft", runs, models, name="draft-distilled")
    card(runs, models)


def main() -> None:
    """Run the command line; expected errors are printed as one sentence, without a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)
