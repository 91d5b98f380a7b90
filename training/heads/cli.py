"""The commands that train heads, one for each kind, and the text that the target writes for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from specdec_core.models.heads.layouts.layers_read import MAX_LAYERS_READ
from training.commands import remember_command
from training.options import (
    RUNS,
    Batch,
    BlocksRate,
    Context,
    Decay,
    Device,
    Export,
    Focus,
    Further,
    LossTemperature,
    Minutes,
    Model,
    Rate,
    Runs,
    Share,
    Text,
    Tokens,
    Vocabulary,
)

app = typer.Typer()

HELD_OUT = 40  # rows on which a head is measured, of all sources alike


@app.command()
def medusa(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    heads: Annotated[int, typer.Option(min=1, max=16, help="How many heads.")] = 4,
    blocks: Annotated[int, typer.Option(min=1, max=8, help="Residual blocks per head.")] = 1,
    shared: Annotated[
        bool, typer.Option("--shared/--own", help="Share the target's output matrix, or train one per head.")
    ] = True,
    soft: Annotated[
        bool, typer.Option("--soft", help="Learn the target's distribution instead of the text's own tokens.")
    ] = False,
    name: Annotated[str, typer.Option(help="Run name.")] = "medusa",
    batch: Batch = 8,
    context: Context = 256,
    seed: int = 0,
    rate: BlocksRate = 0.01,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Train Medusa heads for a target, measure them and write them out; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.heads.medusa_eagle import export as export_heads
    from training.heads.medusa_eagle import new_medusa, train
    from training.heads.rows import open_target, rows_for
    from training.loop import Plan
    from training.pretrain import pick_device

    rates = Rates(rate, 0.001)
    plan = Plan(minutes, tokens, context, batch, seed, 50, focus=focus, rates=rates, evaluate_every=200)
    target = open_target(model, pick_device(device))
    batches, heldout = rows_for(model, text, runs / "data", plan)
    trained = new_medusa(target, heads, blocks, shared)
    state = train(runs / name, trained, target, batches, heldout, plan, soft)
    folder = out or runs / name / "export"
    export_heads(folder, trained, target, state)
    remember_command(runs)
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; heads written to {folder}.")
    for number, shares in enumerate(trained.accuracy or [], start=1):
        typer.echo(f"head {number}: right first {shares[0]:.3f}, among {len(shares)} {sum(shares):.3f}")


@app.command()
def eagle(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    classification: Annotated[float, typer.Option(min=0.0, help="Weight of the cross-entropy.")] = 0.1,
    start: Further = None,
    name: Annotated[str, typer.Option(help="Run name.")] = "eagle",
    batch: Batch = 8,
    context: Context = 512,
    seed: int = 0,
    rate: Annotated[float, typer.Option(help="Peak rate of the matrices (Muon).")] = 0.02,
    decay_share: Decay = 0.3,
    temperature: LossTemperature = 1.0,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Train an EAGLE head for a target, measure it and write it out; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.checkpoints import counters
    from training.heads.medusa_eagle import eagle_from, new_eagle, train
    from training.heads.medusa_eagle import export as export_heads
    from training.heads.rows import open_target, rows_for
    from training.loop import Plan
    from training.pretrain import pick_device

    plan = Plan(
        minutes, tokens, context, batch, seed, 50, decay_share, focus=focus, evaluate_every=200,
        rates=Rates(rate, 0.002),
    )  # fmt: skip
    target = open_target(model, pick_device(device))
    batches, heldout = rows_for(model, text, runs / "data", plan)
    trained = eagle_from(target, start) if start else new_eagle(target, seed)
    earlier = counters(start) if start else None
    state = train(
        runs / name, trained, target, batches, heldout, plan,
        classification=classification, earlier=earlier, temperature=temperature,
    )  # fmt: skip
    folder = out or runs / name / "export"
    export_heads(folder, trained, target, state)
    remember_command(runs)
    shares = trained.accuracy or [0.0]
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; head written to {folder}.")
    typer.echo(f"right first {shares[0]:.3f}, among {len(shares)} {sum(shares):.3f}")


@app.command()
def eagle3(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    steps: Annotated[int, typer.Option(min=1, max=8, help="Guesses in a row that are rehearsed.")] = 4,
    share: Share = 0.5,
    vocabulary: Vocabulary = 3072,
    start: Further = None,
    layers: Annotated[
        str,
        typer.Option(
            help="Layers of the target to read, as 2,6,11 (n: the last one's result); default: 2, n / 2 and n - 3 of n."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="Run name.")] = "eagle3",
    batch: Batch = 4,
    context: Context = 512,
    seed: int = 0,
    rate: Rate = 0.02,
    decay_share: Decay = 0.3,
    temperature: LossTemperature = 1.0,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Train an EAGLE-3 head for a target, measure it and write it out; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.checkpoints import counters
    from training.heads.eagle3 import export, frequent, new_head, read_other_layers, started_from, train
    from training.heads.rows import opened, rows_for
    from training.loop import Plan

    plan = Plan(
        minutes, tokens, context, batch, seed, 50, focus=focus, rates=Rates(rate, rate / 10), decay_share=decay_share,
        evaluate_every=200,
    )  # fmt: skip
    target, batches, heldout = opened(model, device, text, runs, plan, HELD_OUT)
    size = int(target.output.weight.shape[0])
    read = layers_of(layers, int(target.model.config.num_hidden_layers)) if layers else None
    counted, _ = rows_for(model, text, runs / "data", replace(plan, seed=seed + 1))
    if start:
        head = started_from(target, start, whole=vocabulary >= size)
        if read and read != head.layers_read:
            read_other_layers(head, target, read, torch.cat([counted.next() for _ in range(8)]))
    else:
        guesses = frequent(counted, vocabulary, size) if vocabulary < size else None
        head = new_head(target, guesses, torch.cat([counted.next() for _ in range(8)]), seed, read)
    earlier = counters(start) if start else None
    state = train(runs / name, head, target, batches, heldout, plan, steps, share, earlier, temperature)
    folder = out or runs / name / "export"
    export(folder, head, target, state)
    _report(runs, folder, state, "step")


def layers_of(text: str, count: int) -> tuple[int, ...]:
    """The numbers of a list such as 2,6,11, of a target with so many layers.

    Raises:
        typer.BadParameter: with one sentence, if they are none of its layers.
    """
    numbers = [int(one) if one.strip().isdecimal() else count + 1 for one in text.split(",")]
    if max(numbers) > count or len(set(numbers)) < len(numbers) or len(numbers) > MAX_LAYERS_READ:
        raise typer.BadParameter(
            f"'{text[:40]}' are not layers of this target. Give numbers from 0 to {count}, such as 2,{count}."
        )
    return tuple(numbers)


@app.command()
def mtp(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    modules: Annotated[int, typer.Option(min=1, max=8, help="How many modules, each one token further.")] = 3,
    name: Annotated[str, typer.Option(help="Run name.")] = "mtp",
    batch: Batch = 4,
    context: Context = 512,
    seed: int = 0,
    rate: Rate = 0.02,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Train multi-token-prediction modules for a target, measure them and write them out; continues the run if it has
    a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.heads.mtp import export, new_modules, train
    from training.heads.rows import fitting, opened
    from training.loop import Plan

    rates = Rates(rate, rate / 10)
    plan = Plan(minutes, tokens, context, batch, seed, 50, focus=focus, rates=rates, evaluate_every=200)
    target, batches, heldout = opened(model, device, text, runs, plan, HELD_OUT)
    made = new_modules(target, modules, fitting(model, text, runs, plan), seed)
    state = train(runs / name, made, target, batches, heldout, plan)
    folder = out or runs / name / "export"
    export(folder, made, target, state)
    _report(runs, folder, state, "module")


@app.command()
def continuations(
    tokens: Annotated[int, typer.Option(min=1000, help="Tokens to write, beginnings included.")] = 3_000_000,
    corpus: Annotated[Path, typer.Option(help="Folder with the corpus files.")] = Path("training/corpus"),
    runs: Runs = RUNS,
    out: Annotated[Path, typer.Option(help="Folder of prepared data to write.")] = RUNS / "own" / "data",
    processes: Annotated[int, typer.Option(min=1, max=64, help="Each with one thread and a seed.")] = 2,
    rows: Annotated[int, typer.Option(min=2, help="Texts written at once by a process.")] = 256,
) -> None:
    """Let the bundled target write its own training text, for `eagle` and `eagle3` with `--runs training/runs/own`."""
    from training.heads.continuations import written

    count = written(out, runs / "data", corpus, tokens, processes, rows)
    remember_command(runs)
    typer.echo(f"{count:,} tokens written to {out}.")


def _report(runs: Path, folder: Path, state: dict[str, object], part: str) -> None:
    remember_command(runs)
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; written to {folder}.")
    shares = state["shares"]
    assert isinstance(shares, list)
    for number, found in enumerate(shares, start=1):
        typer.echo(f"{part} {number}: right first {found[0]:.3f}, among {len(found)} {sum(found):.3f}")
