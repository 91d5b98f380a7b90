"""MTP modules run by transformers' own `MtpModel`, written in the names of DeepSeek-V3 and GLM-4.5."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("transformers==5.24.0",)
NAMES = {"mtp_block.": "", "post_norm.": "shared_head.norm."}


def make(out: Path, target: common.Target) -> None:
    """Write a folder with one module and one with two."""
    _one(out / "deepseek-mtp", target, 1, 410)
    _one(out / "deepseek-mtp-two", target, 2, 411)


def _one(folder: Path, target: common.Target, count: int, seed: int) -> None:
    from transformers import LlamaForCausalLM
    from transformers.cache_utils import MtpCache
    from transformers.modeling_layers import MtpModel

    main: Any = LlamaForCausalLM.from_pretrained(target.folder, dtype=torch.float32).eval()
    main.config.num_mtp_layers = count
    model = MtpModel(main, count).eval()
    common.scatter(model.layers, seed)

    @torch.no_grad()
    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        rows = len(begun) - 1
        at = torch.arange(rows)[None]
        memory = MtpCache(config=main.config.get_mtp_config())
        _, found, _ = model(torch.tensor([begun[1:]]), target.final[None, :rows], None, at, memory)
        last: Tensor = found[0, len(guessed)]
        return last

    found = common.chains(logits, depth=count)
    named = {}
    for key, value in model.layers.state_dict().items():
        number, rest = key.split(".", 1)
        for before, after in NAMES.items():
            rest = rest.replace(before, after)
        named[f"model.layers.{common.LAYERS + int(number)}.{rest}"] = value
    gone = {"num_mtp_layers", "_name_or_path"}  # not of such a file; a path of this machine
    config = {key: value for key, value in main.config.to_dict().items() if key not in gone}
    ran = f"transformers {version('transformers')}: MtpModel.forward, {count} module(s)"
    common.write(folder, "mtp", ran, found, [], named, config | {"num_nextn_predict_layers": count})
