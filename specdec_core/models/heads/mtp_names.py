"""How the makers of MTP modules name their parts, join state and embedding, and pass states on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PLACE = re.compile(r"(?:model\.)?layers\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class Names:
    """How a maker names modules.

    Attributes:
        place: matches a tensor's name: the module's number, if there is one, and the part.
        parts: the parts' names here, by those there; others are the layer's and called the same.
        states_first: whether the state is joined before the embedding.
        normed_on: whether a module passes its result on after its last norm.
        before_norm: whether the first module reads what the target's last layer returns, before the final norm.
        blind_start: whether the row at position 0 reads zeros in place of its token's embedding.
    """

    place: re.Pattern[str]
    parts: Mapping[str, str]
    states_first: bool = False
    normed_on: bool = False
    before_norm: bool = False
    blind_start: bool = False


_MIMO = {
    "token_layernorm.weight": "enorm.weight",
    "hidden_layernorm.weight": "hnorm.weight",
    "input_proj.weight": "eh_proj.weight",
    "final_layernorm.weight": "shared_head.norm.weight",
}
_QWEN = {
    "pre_fc_norm_embedding.weight": "enorm.weight",
    "pre_fc_norm_hidden.weight": "hnorm.weight",
    "fc.weight": "eh_proj.weight",
    "norm.weight": "shared_head.norm.weight",
}
NAMES = {
    "DeepSeek": Names(PLACE, {}),
    "Qwen": Names(re.compile(r"mtp\.(?:layers\.(\d+)\.)?(.+)"), _QWEN, normed_on=True),
    "MiMo": Names(
        re.compile(r"model\.mtp_layers\.(\d+)\.(.+)"),
        _MIMO,
        states_first=True,
        normed_on=True,
        before_norm=True,
        blind_start=True,
    ),
    "speculators": Names(re.compile(r"mtp_layers\.(\d+)\.(.+)"), _MIMO, normed_on=True),
}
