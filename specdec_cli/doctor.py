"""`doctor`: whether this installation works."""

from __future__ import annotations

import typer

from specdec_core.models import catalogue
from specdec_core.settings import Settings

from .common import load
from .render import out, sentences


def doctor() -> None:
    """Versions, device, what is bundled, and a self-test: speculative equals plain decoding on the bundled models."""
    with sentences():
        from specdec_core.engine.decode import decode as run
        from specdec_core.runtime.machine import choose_device, describe, packages

        device = choose_device("auto")
        for name, number in packages().items():
            out.print(f"{name:>14} {number}")
        out.print(f"{'device':>14} {device.type} ({describe(device)})")
        folder = catalogue.bundled_folder()
        found = sorted({path.parent.name for path in folder.glob("*/*.safetensors")})
        out.print(f"{'bundled':>14} {', '.join(found) or 'nothing'}")
        family = load(None, None, device="cpu", dtype="float32")
        plain, drafted = (
            run(family, "Once upon a time", Settings(proposer=name, max_new_tokens=32))
            for name in ("none", "draft-model")
        )
        problems = [*plain.audit(), *drafted.audit()]
        if plain.token_ids != drafted.token_ids:
            problems.append("Greedy speculative decoding wrote a different text from plain decoding.")
        out.print(f"{'self-test':>14} {'failed: ' + ' '.join(problems) if problems else 'passed'}")
        if problems:
            raise typer.Exit(1)
