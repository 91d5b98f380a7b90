"""Which commands are there? One per stage; errors of the user become one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from training.chat.cli import app as chat_app
from training.heads.cli import Decay, LossTemperature, remembering
from training.heads.cli import app as heads_app

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train the models of Specdec Lab.")
app.add_typer(chat_app, name="chat")
app.add_typer(heads_app)

Corpus = Annotated[Path, typer.Option(help="Folder with the corpus files.")]
Runs = Annotated[Path, typer.Option(help="Folder for data, checkpoints and logs (git-ignored).")]
Models = Annotated[Path, typer.Option(help="Folder of the exported models.")]
CORPUS, RUNS, MODELS = Path("training/corpus"), Path("training/runs"), Path("assets/models")


@app.command()
def fetch(
    corpus: Corpus = CORPUS,
    only: Annotated[list[str] | None, typer.Option(help="Corpus file to fetch.")] = None,
) -> None:
    """Download the pinned sources (sources.toml) and rebuild the corpus files."""
    from training.data.fetch import fetch as fetch_all

    for row in fetch_all(corpus, only):
        summary = (
            row["note"]
            if row["kind"] == "manual"
            else f"{row['bytes']} bytes, as trained: {row['as_trained']}"
        )
        typer.echo(f"{row['output']}: {summary}")


@app.command()
def tokenizer(corpus: Corpus = CORPUS, runs: Runs = RUNS) -> None:
    """Train the shared tokenizer on a sample of the training side of the mix."""
    from training.data.prepare import tokenizer_sample
    from training.data.tokenizer import save_tokenizer, train_tokenizer

    save_tokenizer(train_tokenizer(tokenizer_sample(corpus)), runs / "tokenizer")
    remember_command(runs)
    typer.echo(f"Tokenizer written to {runs / 'tokenizer'}.")


@app.command()
def prepare(
    corpus: Corpus = CORPUS,
    runs: Runs = RUNS,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Folder of a tokenizer; default: the run's, of the stage before.")
    ] = None,
) -> None:
    """Tokenise the corpus into arrays, train and held-out side."""
    from training.data.prepare import prepare as prepare_all
    from training.data.tokenizer import load_tokenizer

    rows = prepare_all(corpus, load_tokenizer(tokenizer or runs / "tokenizer"), runs / "data")
    remember_command(runs)
    typer.echo(f"{len(rows)} sources prepared in {runs / 'data'}.")


@app.command()
def pretrain(
    model: Annotated[str, typer.Argument(help="target, draft or draft-large")],
    runs: Runs = RUNS,
    minutes: Annotated[float | None, typer.Option(help="Budget in active minutes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    name: Annotated[str | None, typer.Option(help="Run name; default: the model's.")] = None,
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 8,
    context: Annotated[int, typer.Option(help="Tokens per row.")] = 1024,
    seed: int = 0,
    decay_share: Annotated[
        float, typer.Option(help="Share of the budget over which the rate falls to 0.")
    ] = 0.3,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")
    ] = False,
    focus: Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")] = False,
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
        minutes,
        tokens,
        context,
        batch,
        seed,
        decay_share=decay_share,
        focus=focus,
        unrepeat=tuple(unrepeat or ()),
    )
    run = runs / (name or model)
    state = run_pretraining(
        run,
        shape_named(model),
        runs / "data",
        plan,
        pick_device(device),
        compiled,
        exits=tuple(sorted(exits or ())),
        start=require_checkpoint(runs / start) if start else None,
        dropout=dropout,
    )
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
    minutes: Annotated[float | None, typer.Option(help="Budget in active minutes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 8,
    context: Annotated[int, typer.Option(help="Tokens per row.")] = 1024,
    seed: int = 1,
    decay_share: Annotated[
        float, typer.Option(help="Share of the budget over which the rate falls to 0.")
    ] = 0.7,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")
    ] = False,
    focus: Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")] = False,
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


Model = Annotated[str, typer.Option(help="Target: bundled, a model's folder, or a hub id.")]
Text = Annotated[
    list[Path] | None,
    typer.Option(help="UTF-8 file to train on instead of the prepared data; may be given again."),
]
Export = Annotated[
    Path | None, typer.Option("--out", help="Folder of the trained heads; default: in the run's.")
]


@app.command()
def medusa(
    model: Model = "bundled",
    text: Text = None,
    runs: Runs = RUNS,
    out: Export = None,
    minutes: Annotated[float | None, typer.Option(help="Budget in active minutes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    heads: Annotated[int, typer.Option(min=1, max=16, help="How many heads.")] = 4,
    blocks: Annotated[int, typer.Option(min=1, max=8, help="Residual blocks per head.")] = 1,
    shared: Annotated[
        bool, typer.Option("--shared/--own", help="Share the target's output matrix, or train one per head.")
    ] = True,
    soft: Annotated[
        bool, typer.Option("--soft", help="Learn the target's distribution instead of the text's own tokens.")
    ] = False,
    name: Annotated[str, typer.Option(help="Run name.")] = "medusa",
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 8,
    context: Annotated[int, typer.Option(help="Tokens per row.")] = 256,
    seed: int = 0,
    rate: Annotated[float, typer.Option(help="Peak rate of the blocks' matrices (Muon).")] = 0.01,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    focus: Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")] = False,
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
    minutes: Annotated[float | None, typer.Option(help="Budget in active minutes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
    classification: Annotated[float, typer.Option(min=0.0, help="Weight of the cross-entropy.")] = 0.1,
    start: Annotated[
        Path | None, typer.Option(help="Folder of a head of this target to train further.")
    ] = None,
    name: Annotated[str, typer.Option(help="Run name.")] = "eagle",
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 8,
    context: Annotated[int, typer.Option(help="Tokens per row.")] = 512,
    seed: int = 0,
    rate: Annotated[float, typer.Option(help="Peak rate of the matrices (Muon).")] = 0.02,
    decay_share: Decay = 0.3,
    temperature: LossTemperature = 1.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    focus: Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")] = False,
) -> None:
    """Train an EAGLE head for a target, measure it and write it out; continues the run if it has a checkpoint."""
    from specdec_measure.optimisation import Rates
    from training.checkpoints import counters
    from training.heads.medusa_eagle import eagle_from, new_eagle, train
    from training.heads.medusa_eagle import export as export_heads
    from training.heads.rows import open_target, rows_for
    from training.loop import Plan
    from training.pretrain import pick_device

    rates = Rates(rate, 0.002)
    plan = Plan(
        minutes, tokens, context, batch, seed, 50, decay_share,
        focus=focus, rates=rates, evaluate_every=200,
    )  # fmt: skip
    target = open_target(model, pick_device(device))
    batches, heldout = rows_for(model, text, runs / "data", plan)
    trained = eagle_from(target, start) if start else new_eagle(target, seed)
    state = train(
        runs / name,
        trained,
        target,
        batches,
        heldout,
        plan,
        classification=classification,
        earlier=counters(start) if start else None,
        temperature=temperature,
    )
    folder = out or runs / name / "export"
    export_heads(folder, trained, target, state)
    remember_command(runs)
    shares = trained.accuracy or [0.0]
    typer.echo(f"{state['step']} steps, {state['tokens']} tokens; head written to {folder}.")
    typer.echo(f"right first {shares[0]:.3f}, among {len(shares)} {sum(shares):.3f}")


@app.command()
def draft(
    text: Text = None,
    model: Model = "bundled",
    runs: Runs = RUNS,
    out: Annotated[Path | None, typer.Option(help="Folder of the draft; default: in the run's.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Budget in active minutes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget in tokens.")] = None,
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
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 8,
    context: Annotated[int, typer.Option(help="Tokens per row.")] = 256,
    seed: int = 0,
    rate: Annotated[float, typer.Option(help="Peak rate of the blocks' matrices (Muon).")] = 0.02,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    focus: Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")] = False,
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


def recorded_commands(runs: Path) -> list[str]:
    """The training commands that were run, in order, each once, as noted by `remember_command`."""
    path = runs / "commands.log"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list(dict.fromkeys(lines))


def remember_command(runs: Path) -> None:
    """Note the command that has just succeeded for the model card; without the corpus folder's path."""
    arguments = sys.argv[1:]
    if not arguments or runs != RUNS:
        return
    pairs = zip(["", *arguments[:-1]], arguments, strict=True)
    kept = ["training/corpus" if before == "--corpus" else word for before, word in pairs]
    with (runs / "commands.log").open("a", encoding="utf-8") as file:
        file.write("python -m training " + " ".join(kept) + "\n")


remembering(remember_command)


@app.command(name="all")
def everything(
    corpus: Corpus = CORPUS,
    runs: Runs = RUNS,
    models: Models = MODELS,
    target_minutes: Annotated[float, typer.Option(help="Budget of the target.")] = 68,
    draft_minutes: Annotated[float, typer.Option(help="Budget of the draft's pretraining.")] = 8,
    distill_minutes: Annotated[float, typer.Option(help="Budget of the distillation.")] = 8,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")
    ] = False,
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
