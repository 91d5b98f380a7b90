"""Which kind of head a folder holds, and who wrote it: by what its maker always writes, never by one name alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

TITLES = {
    "medusa": "Medusa heads",
    "eagle": "an EAGLE head",
    "eagle3": "an EAGLE-3 head",
    "mtp": "MTP modules",
    "block": "a block head",
}
"""The kinds that are run here, as `load_models` names them, and what a folder of each holds."""
BLOCKS = {"dflash": "a DFlash head", "dspark": "a DSpark head"}
"""The kinds of block heads that are run here."""
NOT_RUN = {
    "dflash2": "a DFlash 2 head",
    "domino": "a Domino head",
    "lilicorr": "a LiLiCorr head",
    "jetspec": "a JetSpec head",
    "dfly": "a DFly head",
    "xpress": "an XPress head",
    "peagle": "a P-EAGLE head",
    "gemma4_assistant": "a Gemma 4 assistant",
    "mlp_speculator": "an MLP speculator",
    "hydra": "Hydra heads",
}
"""Kinds that are known by name and not run here."""

MODULE = re.compile(r"(?:model\.)?layers\.(\d+)\.(?:enorm|hnorm|eh_proj)\.weight")
QWEN = re.compile(r"mtp\.(?:fc|norm|pre_fc_norm_embedding|pre_fc_norm_hidden)\.weight|mtp\.layers\.\d+\..+")
MIMO = re.compile(r"(?:model\.)?mtp_layers\.(\d+)\..+")
_LAYER = re.compile(r"(?:model\.)?layers\.(\d+)\.")
_MEDUSA = re.compile(r"(?:medusa_heads?\.)?\d+\.\d+\.(?:linear\.)?weight|blocks\.\d+\.layers\.\d+\.weight")
# what only heads of this kind have
_TENSORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("hydra", re.compile(r"(?:hydra_heads?|hydra_lm_head)\..+")),
    ("peagle", re.compile(r"(?:model\.)?mask_hidden")),
    ("dspark", re.compile(r"(?:model\.)?(?:markov_head|confidence_head)\..+")),
    (
        "dflash2",
        re.compile(r"(?:model\.)?candidate_selector\..+|(?:model\.)?layers\.\d+\.(?:attention|mlp)_conv\..+"),
    ),
    ("xpress", re.compile(r"(?:model\.)?refiner_head\..+")),
    ("dflash", re.compile(r"(?:model\.)?hidden_norm\.weight")),
    ("eagle3", re.compile(r"(?:model\.)?(?:midlayer\..+|layers\.0\.hidden_norm\.weight)")),
    ("mtp", MODULE),
    ("mtp", QWEN),
    ("mtp", MIMO),
    ("medusa", _MEDUSA),
)


class HeadKind(NamedTuple):
    """What a folder holds.

    Attributes:
        name: a key of `TITLES`, `BLOCKS` or `NOT_RUN`.
        sign: the entry or tensor by which it was recognised.
    """

    name: str
    sign: str

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        return (TITLES | BLOCKS).get(self.name) or NOT_RUN[self.name]

    @property
    def loads_as(self) -> str:
        """The name under which `load_models` takes it."""
        return "block" if self.name in BLOCKS else self.name


def recognise(config: Mapping[str, Any], names: Iterable[str]) -> HeadKind | None:
    """The kind of head with this configuration and weights of these names; None if it is none that is known."""
    announced = _announced(config)
    if announced is not None:
        return announced
    names = sorted(names)
    for kind, pattern in _TENSORS:
        sign = next((name for name in names if pattern.fullmatch(name)), None)
        if sign is not None:
            return HeadKind(kind, sign)
    joined = next((name for name in names if name in ("fc.weight", "model.fc.weight")), None)
    if joined is None:
        return None
    third = "d2t" in names or "t2d" in names
    return HeadKind(
        "eagle3" if third and not any(".layers.0." in f".{name}" for name in names) else "eagle", joined
    )


def _announced(config: Mapping[str, Any]) -> HeadKind | None:
    """The kind that the configuration names itself: only kinds that no other layout shares a name with."""
    stated = config.get("speculators_model_type")
    if isinstance(stated, str) and stated in {**TITLES, **BLOCKS, **NOT_RUN}:
        return HeadKind(stated, "speculators_model_type")
    if isinstance(config.get("dflash_config"), Mapping):
        inner = config["dflash_config"].get("projector_type")
        name = inner if isinstance(inner, str) and inner in {**BLOCKS, **NOT_RUN} else "dflash"
        return HeadKind(name, "dflash_config")
    architectures = config.get("architectures")
    listed = [one for one in architectures if isinstance(one, str)] if isinstance(architectures, list) else []
    for architecture in [*listed, str(config.get("model_type"))]:
        plain = re.sub(r"[^a-z0-9]", "", architecture.lower())
        # "dflash2" before "dflash"
        for name in sorted({**BLOCKS, **NOT_RUN}, key=len, reverse=True):
            if name.replace("_", "") in plain:
                return HeadKind(name, architecture)
    return None


def module_numbers(names: Iterable[str]) -> list[int]:
    """The layers' numbers of MTP modules with DeepSeek's names, ascending."""
    return sorted({int(found[1]) for name in names if (found := MODULE.fullmatch(name))})


def of_modules(names: Iterable[str]) -> set[str]:
    """Of a target's own tensors those of its MTP modules; all, where there are no others of a target."""
    names = list(names)
    numbers = {str(number) for number in module_numbers(names)}

    def belongs(name: str) -> bool:
        layer = _LAYER.match(name)
        return layer[1] in numbers if layer else bool(QWEN.fullmatch(name) or MIMO.fullmatch(name))

    found = {name for name in names if belongs(name)}
    whole = any((layer := _LAYER.match(name)) and layer[1] not in numbers for name in names)
    return found if found and whole else set(names)


def maker(config: Mapping[str, Any]) -> str:
    """Who wrote a head: 'speculators', 'DeepSpec', 'Specdec Lab', or '' for the layout of SafeAILab's code, which
    SpecForge shares."""
    if any(key.startswith("speculators_") for key in config):
        return "speculators"
    if any(key.startswith("specdec_") for key in config):
        return "Specdec Lab"
    return "DeepSpec" if "target_layer_ids" in config else ""
