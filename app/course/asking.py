"""Lets the bundled models read a sentence, when a learner asks for it. Nothing here imports streamlit."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from app import services
from app.decoding.line import Left
from app.decoding.models import Choice
from specdec_core.errors import SpecdecError

from .facts.ease import Judged

log = logging.getLogger(__name__)

PATIENCE_S = 2.0  # in the line of the runs


@dataclass(frozen=True, slots=True)
class Read:
    """A sentence that was read: its tokens but the first, and who read it where."""

    tokens: tuple[Judged, ...]
    target: str
    draft: str
    machine: str


def ask(text: str) -> Read | str:
    """The sentence's tokens, or the name of what is in the way: `loading`, `busy`, or a sentence."""
    models = services.shelf().ready(Choice())
    if models is None:
        return "loading"
    from specdec_core.analysis.surprise import surprises  # here and not above: it brings torch

    until = time.monotonic() + PATIENCE_S
    try:
        with (
            services.runs()
            .line(str(models.device))
            .turn(lambda: time.monotonic() > until, lambda ahead: None)
        ):
            found = surprises(models, text)
    except Left:
        return "busy"
    except SpecdecError as error:
        return str(error)
    except Exception:
        log.exception("a sentence could not be read")
        return "failed"
    tokens = (
        Judged(token.text, token.bits, token.guessed, "" if token.guessed else token.draft_choice or "")
        for token in found
    )
    return Read(
        tuple(tokens), models.target.info.name, models.draft.info.name if models.draft else "", models.machine
    )
