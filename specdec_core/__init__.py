"""Speculative decoding, recorded: one loop for every way of guessing and judging, and a complete trace of each round.

    import specdec_core as sd

    models = sd.load_models()
    trace = sd.decode(models, "Once upon a time", sd.Settings(draft_length=4))
    print(trace.text, trace.stats.tokens_per_pass)

Importing this package is cheap; torch and transformers are imported with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def root() -> Path:
    """The folder with `app`, `assets` and `training`: the repository, or `specdec_lab` beside the installed core."""
    beside = Path(__file__).resolve().parent.parent
    return beside / "specdec_lab" if (beside / "specdec_lab").is_dir() else beside


def assets() -> Path:
    """The folder of what ships with the core and the app: models, traces, prompts, profiles, lessons."""
    return root() / "assets"


# Where each public name lives. Lazy, so that code that only reads traces never imports torch.
_HOMES = {
    "Chat": "chat",
    "Ended": "engine.events",
    "Finished": "engine.events",
    "Fit": "fitting.run",
    "ModelError": "errors",
    "Models": "models.bundle",
    "PROPOSERS": "proposers",
    "PromptError": "errors",
    "RULES": "rules",
    "Settings": "settings",
    "SettingsError": "errors",
    "SpecdecError": "errors",
    "Started": "engine.events",
    "Step": "engine.events",
    "TokenTree": "tree",
    "Trace": "record.trace",
    "TraceError": "errors",
    "assemble": "models.loading",
    "decode": "engine.decode",
    "decode_batch": "engine.batch",
    "fit": "fitting.run",
    "load_models": "models.loading",
    "race": "engine.race",
    "read_traces": "record.read",
    "stream": "engine.decode",
}

__all__ = [  # noqa: RUF022 (plain alphabetical order)
    "Chat",
    "Ended",
    "Finished",
    "Fit",
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
    "assets",
    "decode",
    "decode_batch",
    "fit",
    "load_models",
    "race",
    "read_traces",
    "stream",
]

if TYPE_CHECKING:
    from specdec_core.chat import Chat
    from specdec_core.engine.batch import decode_batch
    from specdec_core.engine.decode import decode, stream
    from specdec_core.engine.events import Ended, Finished, Started, Step
    from specdec_core.engine.race import race
    from specdec_core.errors import ModelError, PromptError, SettingsError, SpecdecError, TraceError
    from specdec_core.fitting.run import Fit, fit
    from specdec_core.models.bundle import Models
    from specdec_core.models.loading import assemble, load_models
    from specdec_core.proposers import PROPOSERS
    from specdec_core.record.read import read_traces
    from specdec_core.record.trace import Trace
    from specdec_core.rules import RULES
    from specdec_core.settings import Settings
    from specdec_core.tree import TokenTree


# Modules that are part of the public face under a short name: sd.theory, sd.gallery, …
_MODULES = {
    "advice": "analysis.advice",
    "cases": "sweep.cases",
    "catalogue": "models.catalogue",
    "counterfactual": "analysis.counterfactual",
    "diagnosis": "analysis.diagnosis",
    "events": "engine.events",
    "frames": "record.frames",
    "gallery": "lessons.gallery",
    "ledger": "analysis.memory",
    "loops": "record.repeats",
    "portable": "sweep.portable",
    "portable_servers": "sweep.portable_servers",
    "profiles": "machines.profiles",
    "roofline": "machines.roofline",
    "shapes": "machines.model_sizes",
    "show": "record.show",
    "stats": "record.stats",
    "trace": "record.trace",
    "whatif": "analysis.whatif",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        path = f"{__name__}.{_MODULES.get(name, name)}"
        try:
            value = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # one of the module's dependencies is missing
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
