"""Which of the target's layers an EAGLE-3 head reads: the same entry counts them in two ways."""

from __future__ import annotations

from typing import Any

from specdec_core.foundations.errors import ModelError

from . import shapes
from .contents import Contents

LAYERS = "eagle_aux_hidden_state_layer_ids"
MAX_LAYERS_READ = 64  # layers of the target, or of the head, that a configuration may ask for
_INNER: dict[str, tuple[Any, ...]] = {
    "use_aux_hidden_state": (True,),
    "use_input_layernorm_in_first_layer": (True,),
    "use_last_layernorm": (True,),
    "use_mtp_layernorm": (False,),
    "next_layer_regular": (True,),
}
"""Entries of `eagle_config` that describe this head with these values, and another one otherwise."""


def usual_layers(count: int) -> tuple[int, ...]:
    """The published choice of a low, a middle and a high one of so many layers."""
    return 2, count // 2, count - 3


def layers_read(contents: Contents, count: int) -> tuple[int, ...]:
    """The layers whose inputs an EAGLE-3 head reads, of a target with `count`.

    State i is what layer i reads, state `count` what the last one returns, before the final norm. At the top of a
    configuration `eagle_aux_hidden_state_layer_ids` counts so (speculators 0.9, vLLM 0.32); inside `eagle_config` it
    counts what layers return, one less (SpecForge 0.2, SGLang 0.5), as `target_layer_ids` does (DeepSpec). Without any
    it is the published choice. Heads that were written here before 2026-12 counted inputs inside `eagle_config` too.

    Raises:
        ModelError: if the target has no such layers, or the head reads something else than layers.
    """
    name, config = contents.name, contents.config
    inner = config.inner("eagle_config")
    top, nested, targeted = config.get(LAYERS), inner.get(LAYERS), config.get("target_layer_ids")
    for key, values in _INNER.items():
        if key in inner and inner[key] is not None and inner[key] not in values:
            raise shapes.unsupported(name, f"eagle_config.{key}", inner[key])
    if top:
        found, shift, key = top, 0, LAYERS
    elif nested:
        found, shift, key = nested, int(contents.maker != "Specdec Lab"), f"eagle_config.{LAYERS}"
    elif targeted is not None:
        found, shift, key = targeted, 1, "target_layer_ids"
    else:
        found, shift, key = usual_layers(count), 0, ""
    usable = isinstance(found, list | tuple) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one + shift <= count for one in found
    )
    if not usable or not 1 <= len(found) <= MAX_LAYERS_READ:
        where = f"in '{key}'" if key else "by default, as its config.json names none"
        raise ModelError(
            f"'{name}' does not fit this target: {where} it reads {repr(found)[:60]}, and the target has {count} "
            "layers. Load the head that was trained for it."
        )
    layers = tuple(one + shift for one in found)
    if (stated := config.get("num_aux_hidden_states")) not in (None, len(layers)):
        raise shapes.unsupported(name, "num_aux_hidden_states", stated)
    return layers
