"""`python -m training chat …`: what is made for a chat target, from its own answers to trained drafters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from training.options import Device

app = typer.Typer(no_args_is_help=True, help="Drafters for a chat target, trained on its own answers.")

TARGET = "smollm2-135m-instruct"
RUNS = Path("training/runs/chat")
CORPUS = Path("training/corpus")

Model = Annotated[str, typer.Option(help="Target: a name of the catalogue, a model's folder, or a hub id.")]
Runs = Annotated[Path, typer.Option(help="Folder of the answers and of the runs.")]


@app.command(name="waves")
def write_waves(
    tokens: Annotated[int, typer.Option(help="Tokens to write, prompts counted in.")],
    model: Model = TARGET,
    corpus: Annotated[Path, typer.Option(help="Folder of the corpus.")] = CORPUS,
    runs: Runs = RUNS,
    rows: Annotated[int, typer.Option(min=1, help="Answers written at once; on a CPU some 64.")] = 4096,
    own: Annotated[int, typer.Option(min=0, help="Waves of user's turns that the target makes up.")] = 4,
    seed: int = 11,
    device: Device = "auto",
) -> None:
    """The target answers instructions, and user's turns that it makes up, many at once, into an empty folder."""
    from training.chat import drafters as chat
    from training.pretrain import pick_device

    count = chat.write_waves(model, corpus, runs / "answers", tokens, rows, own, seed, pick_device(device))
    typer.echo(f"{count:,} tokens in {runs / 'answers'}.")


@app.command()
def train(
    part: Annotated[str, typer.Argument(help="eagle, eagle3, medusa or draft")],
    minutes: Annotated[
        float, typer.Option(help="Budget in active minutes, those of earlier calls counted in.")
    ],
    model: Model = TARGET,
    runs: Runs = RUNS,
    out: Annotated[
        Path | None, typer.Option(help="Folder of what was trained; default: in the run's.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Conversations per step.")] = 8,
    rate: Annotated[float, typer.Option(help="Peak learning rate (AdamW).")] = 0.001,
    decay_share: Annotated[
        float, typer.Option(help="Share of the budget over which the rate falls to 0.")
    ] = 0.5,
    parts: Annotated[
        int | None, typer.Option(help="Use only the first so many parts of the answers.")
    ] = None,
    seed: int = 0,
    name: Annotated[str | None, typer.Option(help="Run name; default: the part's.")] = None,
    device: Device = "auto",
    passes: Annotated[
        int,
        typer.Option(min=1, max=8, help="eagle: levels of a tree that are rehearsed; 2 in every other step."),
    ] = 2,
    every: Annotated[
        int, typer.Option(min=1, help="Steps between measurements, and between checkpoints.")
    ] = 100,
) -> None:
    """Train one drafter and write it out; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.chat import drafters as chat
    from training.loop import Plan
    from training.pretrain import pick_device

    if part not in get_args(chat.Part):
        raise ValueError(f"There is no part '{part}'; expected one of {', '.join(get_args(chat.Part))}.")
    kind = cast(chat.Part, part)
    plan = Plan(
        minutes, None, batch=batch, seed=seed, warmup_steps=30, decay_share=decay_share, rates=Rates(rate, rate),
        evaluate_every=every, checkpoint_every=every,
    )  # fmt: skip
    run = runs / (name or part)
    state, module, accuracy = chat.train_part(
        kind, model, runs / "answers", run, plan, parts, pick_device(device), passes
    )
    folder = out or run / "export"
    chat.export(folder, kind, module, model, state, accuracy)
    typer.echo(
        f"{state['step']} steps, {state['tokens']:,} tokens, {state['seconds'] / 60:.1f} minutes: {accuracy}"
    )


@app.command()
def card(
    model: Model = TARGET,
    runs: Runs = RUNS,
    folder: Annotated[Path, typer.Option(help="Where the card is written.")] = Path("assets/models"),
    repeats: Annotated[int, typer.Option(min=1, max=20, help="How often each cell is timed.")] = 1,
    most: Annotated[int | None, typer.Option(min=1, help="Prompts of each kind; default: all.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A lane to measure; may be given again.")] = None,
) -> None:
    """Measure the family on its held-out prompts and write its card; leave the machine alone meanwhile."""
    from training.chat import card as chat_card
    from training.chat.card_text import MEASUREMENTS, write_card

    store = runs / "figures"
    runs.mkdir(parents=True, exist_ok=True)
    found = chat_card.measure(model, runs, repeats, store, most, only or (), before=folder / MEASUREMENTS)
    write_card(folder, found)
    for name in chat_card.SETS:
        store.with_suffix(f".{name.replace(' ', '-')}.jsonl").unlink(missing_ok=True)
    typer.echo(f"Card written to {folder / 'smollm2.md'}.")
