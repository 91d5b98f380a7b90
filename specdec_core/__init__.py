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

from specdec_core.foundations.paths import __version__ as __version__
from specdec_core.foundations.paths import assets as assets
from specdec_core.foundations.paths import root as root
from specdec_core.moved import install as _old_paths

_old_paths()

# Where each public name lives, in the decoder or in a wing beside it (only this table knows of both). Lazy, so that
# code that only reads traces never imports torch.
_HOMES = {
    "Chat": "specdec_core.models.tokens.chat",
    "Ended": "specdec_core.engine.events",
    "Finished": "specdec_core.engine.events",
    "Fit": "specdec_measure.fitting.run",
    "ModelError": "specdec_core.foundations.errors",
    "Models": "specdec_core.models.bundle",
    "PROPOSERS": "specdec_core.proposers",
    "PromptError": "specdec_core.foundations.errors",
    "RULES": "specdec_core.rules",
    "Settings": "specdec_core.settings",
    "SettingsError": "specdec_core.foundations.errors",
    "SpecdecError": "specdec_core.foundations.errors",
    "Started": "specdec_core.engine.events",
    "Step": "specdec_core.engine.events",
    "TokenTree": "specdec_core.tree",
    "Trace": "specdec_core.record.trace",
    "TraceError": "specdec_core.foundations.errors",
    "assemble": "specdec_core.models.assembling",
    "decode": "specdec_core.engine.decode",
    "decode_batch": "specdec_measure.batch.decode",
    "fit": "specdec_measure.fitting.run",
    "load_models": "specdec_core.models.loading",
    "race": "specdec_core.engine.race",
    "read_traces": "specdec_core.record.read",
    "stream": "specdec_core.engine.decode",
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
    from specdec_core.engine.decode import decode, stream
    from specdec_core.engine.events import Ended, Finished, Started, Step
    from specdec_core.engine.race import race
    from specdec_core.foundations.errors import (
        ModelError,
        PromptError,
        SettingsError,
        SpecdecError,
        TraceError,
    )
    from specdec_core.models.assembling import assemble
    from specdec_core.models.bundle import Models
    from specdec_core.models.loading import load_models
    from specdec_core.models.tokens.chat import Chat
    from specdec_core.proposers import PROPOSERS
    from specdec_core.record.read import read_traces
    from specdec_core.record.trace import Trace
    from specdec_core.rules import RULES
    from specdec_core.settings import Settings
    from specdec_core.tree import TokenTree
    from specdec_measure.batch.decode import decode_batch
    from specdec_measure.fitting.run import Fit, fit


# Modules that are part of the public face under a short name: sd.theory, sd.gallery, …
_MODULES = {
    "adapters": "specdec_measure.adapters",
    "advice": "specdec_measure.analysis.advice",
    "analysis": "specdec_measure.analysis",
    "audit": "specdec_measure.records.audit",
    "cases": "specdec_measure.sweep.cases",
    "catalogue": "specdec_core.models.catalogue",
    "chat": "specdec_core.models.tokens.chat",
    "counterfactual": "specdec_measure.analysis.counterfactual",
    "diagnosis": "specdec_measure.analysis.diagnosis",
    "errors": "specdec_core.foundations.errors",
    "events": "specdec_core.engine.events",
    "exact": "specdec_measure.exact",
    "frames": "specdec_measure.records.frames",
    "gallery": "specdec_lessons.gallery",
    "ledger": "specdec_measure.analysis.memory",
    "loops": "specdec_measure.records.repeats",
    "machines": "specdec_measure.machines",
    "portable": "specdec_measure.portable.transformers_vllm",
    "portable_servers": "specdec_measure.portable.servers",
    "profiles": "specdec_measure.machines.profiles",
    "roofline": "specdec_measure.machines.roofline",
    "shapes": "specdec_measure.machines.model_sizes",
    "show": "specdec_measure.records.show",
    "stats": "specdec_core.record.stats",
    "sweep": "specdec_measure.sweep",
    "testing": "specdec_measure.testing",
    "theory": "specdec_measure.theory",
    "trace": "specdec_core.record.trace",
    "whatif": "specdec_measure.analysis.whatif",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        path = _MODULES.get(name, f"{__name__}.{name}")
        try:
            value = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # one of the module's dependencies is missing
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
