"""Quantised checkpoints: which packages transformers reads them with, checked before anything is loaded."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from specdec_core.foundations.errors import ModelError

# the method in a config.json → its name, and the packages (as they are imported) that transformers needs for it
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gptq": ("GPTQ", ("optimum", "gptqmodel")),
    "awq": ("AWQ", ("gptqmodel", "accelerate")),
    "bitsandbytes": ("bitsandbytes", ("bitsandbytes", "accelerate")),
    "compressed-tensors": ("compressed-tensors", ("compressed_tensors",)),
    "torchao": ("torchao", ("torchao",)),
    "hqq": ("HQQ", ("hqq",)),
    "quanto": ("Quanto", ("optimum.quanto", "accelerate")),
    "aqlm": ("AQLM", ("aqlm", "accelerate")),
    "quark": ("Quark", ("quark",)),
    "auto-round": ("AutoRound", ("auto_round",)),
    "fp8": ("FP8", ("accelerate",)),
    "mxfp8": ("MXFP8", ("accelerate",)),
    "mxfp4": ("MXFP4", ()),
}
# what becomes 16 or 32 bits as it is loaded: MXFP4 always (see `widen`), the others where there is no GPU for them
WIDENED = ("fp8", "mxfp8", "mxfp4")


def method(config: Any) -> str | None:
    """How a model of this configuration is quantised; None if it is not."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    name = found.get("quant_method") if isinstance(found, dict) else getattr(found, "quant_method", None)
    return str(getattr(name, "value", name) or "bitsandbytes")  # old files of bitsandbytes name none


def widen(config: Any) -> None:
    """Have MXFP4 weights, in which gpt-oss is published, read as the numbers that they stand for: no package is needed
    for it, and every device computes with them."""
    if method(config) == "mxfp4":
        found = config.quantization_config
        config.quantization_config = {
            **(found if isinstance(found, dict) else found.to_dict()),
            "dequantize": True,
        }


def check_quantised(config: Any, name: str) -> None:
    """Refuse quantised weights that transformers could not read here.

    Raises:
        ModelError: naming the packages that are missing, and what works without them.
    """
    found = method(config)
    if found is None:
        return
    instead = "choose its GGUF file, or the weights before they were quantised"
    if found not in METHODS:
        raise ModelError(f"'{name}' is quantised by '{found[:40]}', which is not read here: {instead}.")
    title, packages = METHODS[found]
    missing = [package for package in packages if not _there(package)]
    if missing:
        listed = " and ".join(package.replace("_", "-").replace(".", "-") for package in missing)
        raise ModelError(
            f"'{name}' is quantised with {title}, which transformers reads with {listed}, not installed here. Install "
            f"{'them' if len(missing) > 1 else 'it'}, or {instead}."
        )


def _there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package above it
        return False
