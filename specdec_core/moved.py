"""Module paths that notebooks may still import by, from before measuring, lessons and the command line had houses of
their own: `specdec_core.adapters.logs` is the very module `specdec_measure.adapters.logs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "analysis.held_up": "specdec_measure.analysis.slow_passes",
    "engine.batch": "specdec_measure.batch.decode",
    "engine.check": "specdec_core.engine.choice",
    "engine.describe": "specdec_core.recording.describe",
    "engine.probs": "specdec_core.recording.probs",
    "engine.recorder": "specdec_core.recording.recorder",
    "models.explain": "specdec_core.models.load_errors",
    "models.inspect": "specdec_measure.inspect",
    "models.surplus": "specdec_core.models.unread_tensors",
    "record.audit": "specdec_measure.records.audit",
    "record.foreign": "specdec_measure.adapters.foreign",
    "record.frames": "specdec_measure.records.frames",
    "record.odds": "specdec_measure.records.odds",
    "record.repeats": "specdec_measure.records.repeats",
    "record.show": "specdec_measure.records.show",
    "runtime.check": "specdec_core.runtime.self_check",
    "sweep.portable": "specdec_measure.portable.transformers_vllm",
    "sweep.portable_servers": "specdec_measure.portable.servers",
    "adapters": "specdec_measure.adapters",
    "analysis": "specdec_measure.analysis",
    "chat": "specdec_core.models.chat",
    "cli": "specdec_cli",
    "errors": "specdec_core.foundations.errors",
    "exact": "specdec_measure.exact",
    "fitting": "specdec_measure.fitting",
    "lazy_torch": "specdec_core.foundations.lazy_torch",
    "lessons": "specdec_lessons",
    "machines": "specdec_measure.machines",
    "options": "specdec_core.foundations.options",
    "penalties": "specdec_core.sampling.penalties",
    "randomness": "specdec_core.foundations.randomness",
    "registry": "specdec_core.foundations.registry",
    "sweep": "specdec_measure.sweep",
    "testing": "specdec_measure.testing",
    "theory": "specdec_measure.theory",
}


class _Alias(Loader):
    """Gives the module of another name, which keeps its own spec."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _OldPaths(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        house, _, old = fullname.partition(".")
        for moved, now in MOVED.items() if house == "specdec_core" else ():
            if old == moved or old.startswith(f"{moved}."):
                return ModuleSpec(fullname, _Alias(now + old.removeprefix(moved)))
        return None


def install() -> None:
    """Let the old paths be imported. Asked first: a moved package's own path would give its modules a second time."""
    sys.meta_path.insert(0, _OldPaths())
