"""Speculative decoding, recorded: one loop for every way of guessing and judging, and a complete trace of each round.

    import specdec_core as sd

    models = sd.load_models()
    trace = sd.decode(models, "Once upon a time", sd.Settings(draft_length=4))
    print(trace.text, trace.stats.tokens_per_pass)

Importing this package is cheap; torch and transformers are imported with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. Lazy, so that a page which only reads traces never waits for torch.
_HOMES = {
    "Chat": "chat",
    "Ended": "events",
    "Finished": "events",
    "ModelError": "errors",
    "Models": "models",
    "PROPOSERS": "proposers",
    "PromptError": "errors",
    "RULES": "rules",
    "Settings": "settings",
    "SettingsError": "errors",
    "SpecdecError": "errors",
    "Started": "events",
    "Step": "events",
    "TokenTree": "tree",
    "Trace": "trace",
    "TraceError": "errors",
    "assemble": "models",
    "decode": "loop",
    "load_models": "models",
    "race": "lanes",
    "stream": "loop",
}

__all__ = [  # noqa: RUF022 (plain alphabetical order)
    "Chat",
    "Ended",
    "Finished",
    "ModelError",
    "Models",
    "PROPOSERS",
    "PromptError",
    "RULES",
    "Settings",
    "SettingsError",
    "SpecdecError",
    "Started",
    "Step",
    "TokenTree",
    "Trace",
    "TraceError",
    "assemble",
    "decode",
    "load_models",
    "race",
    "stream",
]

if TYPE_CHECKING:
    from .chat import Chat
    from .errors import ModelError, PromptError, SettingsError, SpecdecError, TraceError
    from .events import Ended, Finished, Started, Step
    from .lanes import race
    from .loop import decode, stream
    from .models import Models, assemble, load_models
    from .proposers import PROPOSERS
    from .rules import RULES
    from .settings import Settings
    from .trace import Trace
    from .tree import TokenTree


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        try:
            value = import_module(f".{name}", __name__)  # sd.theory, sd.catalogue, sd.testing
        except ModuleNotFoundError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
