"""A model's layers: cut off after some of them, for early exits, all weights shared; and heard at what they read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from specdec_core.foundations.errors import SettingsError


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """`model` with only its first `layers` layers, sharing all weights and everything else with it.

    Only the modules on the path to the list of layers are copied, shallowly.

    Raises:
        SettingsError: if the layers cannot be found.
    """
    count, places = model.config.num_hidden_layers, _places(model)
    if len(places) != 1:
        raise SettingsError(
            f"The proposer 'early-exit' finds {len(places)} lists of {count} layers in '{model.config.model_type}' and "
            "needs exactly one. Choose another architecture or another proposer."
        )
    top: PreTrainedModel = _copied(model, layers)
    here: Any = top
    *way, last = places[0].split(".")
    for name in way:
        here._modules[name] = here = _copied(here._modules[name], layers)
    whole = here._modules[last]
    here._modules[last] = nn.ModuleList(whole[:layers])
    return top


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The model's decoder layers; empty where they cannot be found."""
    places = _places(model)
    return list(model.get_submodule(places[0]).children()) if len(places) == 1 else []


def hear(layers: Sequence[nn.Module], number: int, listener: Callable[[Tensor], object]) -> RemovableHandle:
    """Pass `listener` what the layer of this number reads (b, n, d); of as many as there are, what the last returns."""

    def before(module: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        listener(inputs[0] if inputs else named["hidden_states"])

    def after(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        listener(output if isinstance(output, Tensor) else output[0])

    if number == len(layers):
        return layers[-1].register_forward_hook(after)
    return layers[number].register_forward_pre_hook(before, with_kwargs=True)


def _places(model: PreTrainedModel) -> list[str]:
    """The names of its lists of as many modules as it has layers."""
    count = model.config.num_hidden_layers
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]


def _copied(module: Any, layers: int) -> Any:
    """A shallow copy with its own configuration, which has the number of layers."""
    own = copy.copy(module)
    own._modules = dict(module._modules)
    if hasattr(own, "config"):
        own.config = copy.copy(own.config)
        own.config.num_hidden_layers = layers
    return own
