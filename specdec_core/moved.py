"""Module paths that notebooks may still import by, from before measuring, lessons and the command line had packages of
their own and long folders were divided: `specdec_core.adapters.logs` is the module `specdec_measure.adapters.logs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

INTO = {  # folders that took these modules from the folder above
    "specdec_core.models.files": "hub sources weight_files unread_tensors quantised load_errors",
    "specdec_core.models.tokens": "tokenizer chat draft_vocabulary translation",
    "specdec_core.models.heads.layouts": "files contents kinds layers_read measured shapes",
    "specdec_core.proposers.draft": "draft_model parallel_draft branching growth drafting_ahead early_exit"
    " foreign_draft text_draft shared_tokens",
    "specdec_core.proposers.heads": "medusa medusa_tree eagle eagle3 mtp state_tree state_candidates",
    "specdec_core.proposers.lookup": "prompt_lookup suffix recycling lookahead",
    "specdec_core.runtime.architectures": "llama t5 recurrent",
    "specdec_core.runtime.timing": "width_curve pass_times",
    "specdec_measure.adapters.generate": "transformers llama_cpp observing keeping asked",
    "specdec_measure.adapters.as_json": "answers servers streams timeline vllm_counts reports",
}
MOVED = {
    "specdec_core.analysis.held_up": "specdec_measure.analysis.slow_passes",
    "specdec_core.engine.batch": "specdec_measure.batch.decode",
    "specdec_core.engine.check": "specdec_core.engine.choice",
    "specdec_core.engine.describe": "specdec_core.columns.describe",
    "specdec_core.engine.probs": "specdec_core.columns.probs",
    "specdec_core.engine.recorder": "specdec_core.columns.recorder",
    "specdec_core.models.explain": "specdec_core.models.files.load_errors",
    "specdec_core.models.inspect": "specdec_measure.inspect",
    "specdec_core.models.surplus": "specdec_core.models.files.unread_tensors",
    "specdec_core.record.audit": "specdec_measure.records.audit",
    "specdec_core.record.foreign": "specdec_measure.adapters.foreign",
    "specdec_core.record.frames": "specdec_measure.records.frames",
    "specdec_core.record.odds": "specdec_measure.records.odds",
    "specdec_core.record.repeats": "specdec_measure.records.repeats",
    "specdec_core.record.show": "specdec_measure.records.show",
    "specdec_core.recording": "specdec_core.columns",
    "specdec_core.runtime.check": "specdec_core.runtime.self_check",
    "specdec_core.sweep.portable": "specdec_measure.portable.transformers_vllm",
    "specdec_core.sweep.portable_servers": "specdec_measure.portable.servers",
    "specdec_core.models.gguf": "specdec_core.models.gguf_files.convert",
    "specdec_core.models.conversions": "specdec_core.models.gguf_files.cache",
    "specdec_core.models.gguf_header": "specdec_core.models.gguf_files.header",
    "specdec_core.models.gguf_kinds": "specdec_core.models.gguf_files.kinds",
    "specdec_core.models.gguf_config": "specdec_core.models.gguf_files.config",
    "specdec_core.models.gguf_positions": "specdec_core.models.gguf_files.positions",
    "specdec_core.models.heads.gated": "specdec_core.models.heads.mtp_gated",
    "specdec_core.models.heads.joining": "specdec_core.models.heads.mtp_joining",
    "specdec_core.adapters": "specdec_measure.adapters",
    "specdec_core.analysis": "specdec_measure.analysis",
    "specdec_core.chat": "specdec_core.models.tokens.chat",
    "specdec_core.cli": "specdec_cli",
    "specdec_core.errors": "specdec_core.foundations.errors",
    "specdec_core.exact": "specdec_measure.exact",
    "specdec_core.fitting": "specdec_measure.fitting",
    "specdec_core.lazy_torch": "specdec_core.foundations.lazy_torch",
    "specdec_core.lessons": "specdec_lessons",
    "specdec_core.machines": "specdec_measure.machines",
    "specdec_core.options": "specdec_core.foundations.options",
    "specdec_core.penalties": "specdec_core.sampling.penalties",
    "specdec_core.randomness": "specdec_core.foundations.randomness",
    "specdec_core.registry": "specdec_core.foundations.registry",
    "specdec_core.sweep": "specdec_measure.sweep",
    "specdec_core.testing": "specdec_measure.testing",
    "specdec_core.theory": "specdec_measure.theory",
} | {
    f"{folder.rpartition('.')[0]}.{name}": f"{folder}.{name}"
    for folder, names in INTO.items()
    for name in names.split()
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
        for old, now in MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, _Alias(now + fullname.removeprefix(old)))
        return None


def install() -> None:
    """Let the old paths be imported. Asked first: a moved package's own path would give its modules a second time."""
    sys.meta_path.insert(0, _OldPaths())
