"""The command `block`: a head that guesses several tokens in one pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from training.commands import remember_command
from training.heads.cli import HELD_OUT
from training.options import (
    RUNS,
    Batch,
    Context,
    Decay,
    Device,
    Export,
    Focus,
    Minutes,
    Model,
    Rate,
    Runs,
    Text,
    Tokens,
)

if TYPE_CHECKING:
    from specdec_core.models.heads import BlockHead
    from training.heads.frozen import Frozen
    from training.loop import Plan

app = typer.Typer()


@app.command()
def block(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    size: Annotated[int, typer.Option(min=2, max=64, help="Tokens guessed in one pass.")] = 7,
    layers: Annotated[int, typer.Option(min=1, max=16, help="Layers of the head.")] = 2,
    inner: Annotated[
        str, typer.Option(help="What lets guesses see each other: none, vanilla (DSpark's), gated or rnn.")
    ] = "vanilla",
    rank: Annotated[int, typer.Option(min=1, help="Of the inner head.")] = 64,
    causal: Annotated[
        bool, typer.Option("--causal", help="A block's row sees only those before it (JetSpec).")
    ] = False,
    single: Annotated[
        int, typer.Option(min=0, help="With --causal, places of a row that train the first guess alone.")
    ] = 128,
    mask: Annotated[
        int | None, typer.Option(min=0, help="The mask token's id; default: the target's end of text.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="Folder of a head of this target to train further.")
    ] = None,
    name: Annotated[str, typer.Option(help="Run name.")] = "block",
    batch: Batch = 4,
    context: Context = 512,
    seed: int = 0,
    rate: Rate = 0.02,
    decay_share: Decay = 0.3,
    device: Device = "auto",
    focus: Focus = False,
) -> None:
    """Train a head that guesses a whole block in one pass, measure it and write it out; continues the run if it has a
    checkpoint."""
    from specdec_core.models.heads.block import INNER
    from specdec_measure.optimisation import Rates
    from training.heads.rows import open_target
    from training.loop import Plan
    from training.pretrain import pick_device

    if inner not in ("none", *INNER):
        raise typer.BadParameter(f"There is no inner head '{inner}'. Give none, {' or '.join(INNER)}.")
    plan = Plan(
        minutes, tokens, context, batch, seed, 50, focus=focus, rates=Rates(rate, rate / 10),
        decay_share=decay_share, evaluate_every=200,
    )  # fmt: skip
    fresh = (size, layers, seed, mask, "" if inner == "none" else inner, rank, causal)
    target = open_target(model, pick_device(device))
    state = _trained(model, text, runs, name, out, plan, target, start, single, fresh)
    remember_command(runs)
    for number, (alone, chain) in enumerate(zip(state["slots"], state["chain"], strict=True), start=1):
        typer.echo(f"slot {number}: right {alone:.3f}, with all before it {chain:.3f}")


def _trained(
    model: str, text: list[Path] | None, runs: Path, name: str, out: Path | None, plan: Plan, target: Frozen,
    start: Path | None, single: int, fresh: tuple[Any, ...],
) -> dict[str, Any]:  # fmt: skip
    """The counters of a head that was trained and written out."""
    from training.checkpoints import counters
    from training.heads.block import export, started_from, train
    from training.heads.rows import rows_for

    batches, heldout = rows_for(model, text, runs / "data", plan)
    fitting, _ = rows_for(model, text, runs / "data", replace(plan, seed=plan.seed + 1))
    rows = torch.cat([fitting.next() for _ in range(8)])
    head = started_from(target, start) if start else _fresh(target, rows, *fresh)
    heldout = heldout[:: -(-len(heldout) // HELD_OUT)]
    earlier = counters(start) if start else None
    state = train(runs / name, head, target, batches, heldout, plan, earlier, single)
    folder = out or runs / name / "export"
    export(folder, head, target, state)
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; written to {folder}.")
    return state


def _fresh(
    target: Frozen, rows: torch.Tensor, size: int, layers: int, seed: int, mask: int | None, inner: str, rank: int,
    causal: bool,
) -> BlockHead:  # fmt: skip
    from training.heads.block import new_head

    end = mask if mask is not None else int(target.model.config.eos_token_id)
    return new_head(target, size, layers, end, rows, seed, inner=inner, rank=rank, causal=causal)
