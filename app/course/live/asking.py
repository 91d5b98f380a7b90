"""Lets the bundled models read a sentence at the learner's request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app import services
from app.course.facts.ease import JudgedToken
from app.decoding.jobs import Job
from app.decoding.models import ModelChoice

PATIENCE_S = 2.0  # in the queue of the runs


@dataclass(frozen=True, slots=True)
class Read:
    """A sentence that was read: its tokens except the first, and which models read it where."""

    tokens: tuple[JudgedToken, ...]
    target: str
    draft: str
    machine: str


def ask(text: str) -> Read | str:
    """The sentence's tokens, or the reason why not: `loading`, `busy`, `failed`, or a sentence."""
    models = services.shelf().ready(ModelChoice())
    if models is None:
        return "loading"
    tokens: list[JudgedToken] = []
    job = Job(patience_s=PATIENCE_S)

    def work() -> None:
        with job.turn(services.runs().line(models.card.device)):
            job.patience_s = math.inf  # its turn has come
            found = models.surprises(text)
        tokens.extend(
            JudgedToken(
                token.text, token.bits, token.guessed, "" if token.guessed else token.draft_choice or ""
            )
            for token in found
        )

    job.perform(work)
    if job.state != "done":
        return "busy" if job.state == "stopped" else job.error or "failed"
    return Read(
        tuple(tokens),
        models.card.target.name,
        models.card.draft.name if models.card.draft else "",
        models.card.machine,
    )
