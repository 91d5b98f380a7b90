"""The target drafts for itself: its first layers, then its own final norm and output matrix.

LayerSkip (Elhoushi et al. 2024, sec. 4.3) trains a model for this; without such training an early layer's state says
less about the next token. The exit shares every weight with the target, and also its KV rows: what the target has read,
its first layers have read, and what the exit writes behind that, the target's own pass overwrites.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from pydantic import Field
from torch import nn
from transformers import PreTrainedModel

from specdec_core.errors import SettingsError
from specdec_core.runtime.reader import CausalReader
from specdec_core.tree import TokenTree

from .contract import Context, Proposal, Proposer, Resources
from .draft_model import Chain


class EarlyExit(Proposer):
    """A chain from the first layers of the target; keeps no memory and no weight of its own."""

    name = "early-exit"
    title = "Early exit"
    summary = (
        "The target drafts for itself with only its first layers, which share its weights and its memory. "
        "It loses where a model was not trained to answer early, because then the first layers guess badly and still "
        "cost their share of a full pass."
    )
    needs = ("layers",)
    heeds = ("length", "more")

    class Options(Proposer.Options):
        layer: int = Field(
            0,
            ge=0,
            le=1_000,
            description="After how many layers the draft leaves the target; 0 takes a third of them.",
        )

    options: Options

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        target = resources.target
        if not isinstance(target, CausalReader):
            raise SettingsError(
                "The proposer 'early-exit' runs the first layers of the target, which has none here."
            )
        self.target = target
        count = len(target.memory.layers)
        self.layer = self.options.layer or max(1, count // 3)
        if self.layer > count:
            raise SettingsError(
                f"Option 'layer' of the proposer 'early-exit' is {self.layer}, but the target has {count} layers; "
                f"choose 1 to {count}, or 0 for a third of them."
            )
        memory = target.memory.first(self.layer)
        self.exit = CausalReader(first_layers(target.model, self.layer), memory.capacity, memory)

    def propose(self, context: Context) -> Proposal:
        length = min(context.length, context.room)
        if length <= 0:
            return Proposal(TokenTree())
        self.exit.memory.length = self.target.length
        root = torch.tensor(context.tokens[-1:], device=self.exit.device)
        chain = Chain(self.exit, root, context)
        chain.cut(chain.complete(context, length), context)
        return chain.proposal({"exit_layer": self.layer})


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """`model` with only its first `layers` layers, sharing every weight and everything else with it.

    Only the modules on the way to the list of layers are copied, and those without what they hold.

    Raises:
        SettingsError: if the layers cannot be found.
    """
    count = model.config.num_hidden_layers
    places = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
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


def _copied(module: Any, layers: int) -> Any:
    """A copy that holds the same parts, with a configuration of its own that says how many layers there are."""
    own = copy.copy(module)
    own._modules = dict(module._modules)
    if hasattr(own, "config"):
        own.config = copy.copy(own.config)
        own.config.num_hidden_layers = layers
    return own
