"""A run's request as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.decoding.models import ModelChoice
from app.decoding.run import Request
from specdec_core.models.tokens.chat import Branched
from specdec_core.record.schema import Branch
from specdec_core.settings import Settings


def written(request: Request) -> dict[str, Any]:
    """All of a request but its prompt."""
    return {
        "lanes": [lane.model_dump(mode="json") for lane in request.lanes],
        "labels": request.labels,
        "choice": asdict(request.choice) if isinstance(request.choice, ModelChoice) else None,
        "chat": request.chat,
        "system": request.system,
        "names": request.names,
        "branch": asdict(request.branch) if request.branch else None,
        "trail": request.trail,
    }


def read(prompt: str, content: Mapping[str, Any]) -> Request:
    """The request that `written` took apart.

    Raises:
        SpecdecError, KeyError, TypeError, ValueError: if another version of the core wrote it.
    """
    branch = content.get("branch")
    return Request(
        prompt,
        tuple(Settings(**lane) for lane in content["lanes"]),
        tuple(content["labels"]),
        ModelChoice(**content["choice"]) if content["choice"] else None,
        content["chat"],
        content["system"],
        tuple(content.get("names", ())),
        Branched(tuple(branch["ids"]), Branch(**branch["branch"]), branch["chat"]) if branch else None,
        tuple((run, word) for run, word in content.get("trail", ())),
    )
