"""The commands `fetch`, `tokenizer` and `prepare`: from the sources to arrays of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from training.commands import remember_command
from training.options import CORPUS, RUNS, Corpus, Runs

app = typer.Typer()


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
