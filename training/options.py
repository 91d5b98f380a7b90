"""Options that several commands of the training have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Corpus = Annotated[Path, typer.Option(help="Folder with the corpus files.")]
Models = Annotated[Path, typer.Option(help="Folder of the exported models.")]
Compiled = Annotated[bool, typer.Option("--compile", help="Use torch.compile (needs a C++ compiler).")]
DecayShare = Annotated[float, typer.Option(help="Share of the budget over which the rate falls to 0.")]
BlocksRate = Annotated[float, typer.Option(help="Peak rate of the blocks' matrices (Muon).")]
Model = Annotated[str, typer.Option(help="Target: bundled, a model's folder, or a hub id.")]
Text = Annotated[
    list[Path] | None,
    typer.Option(help="UTF-8 file to train on instead of the prepared data; may be given again."),
]
Runs = Annotated[Path, typer.Option(help="Folder for data, checkpoints and logs (git-ignored).")]
Export = Annotated[
    Path | None, typer.Option("--out", help="Folder of what is trained; default: in the run's.")
]
Minutes = Annotated[float | None, typer.Option(help="Budget in active minutes.")]
Tokens = Annotated[int | None, typer.Option(help="Budget in tokens.")]
Batch = Annotated[int, typer.Option(help="Rows per step.")]
Context = Annotated[int, typer.Option(help="Tokens per row.")]
Rate = Annotated[float, typer.Option(help="Peak rate of the matrices (Muon); a tenth for the rest.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Decay = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Share of the budget, at its end, in which the rate falls to 0."),
]
LossTemperature = Annotated[
    float,
    typer.Option(min=0.1, max=1.0, help="Of both models in the loss; below 1, likely tokens count more."),
]
Share = Annotated[
    float, typer.Option(min=0.05, max=1.0, help="Share of the places that steps after the first begin at.")
]
Vocabulary = Annotated[
    int, typer.Option(min=1, help="Size of the draft vocabulary: the text's most frequent tokens.")
]
Further = Annotated[Path | None, typer.Option(help="Folder of a head of this target to train further.")]
Focus = Annotated[bool, typer.Option("--focus", help="Weights of the closing phase (mix.py).")]
Causal = Annotated[bool, typer.Option("--causal", help="A block's row sees only those before it (JetSpec).")]
MaskToken = Annotated[
    int | None, typer.Option(min=0, help="The mask token's id; default: the target's end of text.")
]
CORPUS, RUNS, MODELS = Path("training/corpus"), Path("training/runs"), Path("assets/models")
