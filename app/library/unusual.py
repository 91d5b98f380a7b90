"""What tells a kept run from others on its prompt: the settings of its request that are not the usual ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from app.choosing import defaults
from app.decoding.run import Request
from app.lanes import naming
from app.lanes.lane import Lane
from app.records import requests
from app.records.store import Saved
from specdec_core.foundations.errors import SpecdecError
from specdec_core.foundations.options import fields
from specdec_core.models.generation import OFF
from specdec_core.proposers import PROPOSERS
from specdec_core.settings import Settings

USUAL = Settings()
SHARED = {"temperature": "temperature", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p", "seed": "seed"}


@dataclass(frozen=True, slots=True)
class Unusual:
    """Unusual settings in words: those `shared` by all lanes, and those of each of the `lanes`."""

    shared: tuple[str, ...]
    lanes: tuple[tuple[str, ...], ...]


def of(saved: Saved) -> Unusual:
    """The unusual settings of a kept run; none where its request is not known, as of an imported one."""
    try:
        content = json.loads(saved.request or "")
        request = requests.read(saved.prompt, content)
        models = request.choice.target or defaults.TINY if request.choice else defaults.TINY
        kept = [request.lanes[lane] for lane in sorted(map(int, content["ends"]))]
        lanes = [tuple(_own(lane, models)) for lane in kept]
        if len(lanes) == len(saved.lanes):
            return Unusual(tuple(_shared(request)), tuple(lanes))
    except (SpecdecError, IndexError, KeyError, TypeError, ValueError):
        pass
    return Unusual((), ((),) * len(saved.lanes))


def _own(settings: Settings, models: str) -> list[str]:
    """A lane's own settings, but those that its proposer begins with for such models."""
    if settings.proposer == "none":
        return []
    lane, kind = Lane.of(settings), PROPOSERS[settings.proposer]
    begins = defaults.begins(models, settings.proposer).options
    options: dict[str, Any] = {}
    for name, option in fields(kind.Options).items():
        value = lane.options.get(name, option.default)
        if value != begins.get(name, option.default):
            options[name] = value
    return naming.words(replace(lane, options=options))


def _shared(request: Request) -> list[str]:
    """The settings of all lanes."""
    settings = request.lanes[0]
    said = [
        f"{title} {value:g}" if isinstance(value, float) else f"{title} {value}"
        for name, title in SHARED.items()
        if (value := getattr(settings, name)) not in (None, OFF.get(name, getattr(USUAL, name)))
    ]
    if settings.repetition_penalty not in (None, 1):
        said.append(f"repetition penalty {settings.repetition_penalty:g}")
    if settings.no_repeat_ngram_size:
        said.append(f"no repeated {settings.no_repeat_ngram_size} tokens")
    if settings.max_new_tokens != USUAL.max_new_tokens:
        said.append(f"up to {settings.max_new_tokens} tokens")
    if settings.stop:
        said.append("stops at " + ", ".join(f"“{repr(text)[1:-1]}”" for text in settings.stop))
    if request.system:
        said.append("system prompt")
    return said
