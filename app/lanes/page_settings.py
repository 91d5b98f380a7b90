"""The settings of the lab and the comparison as one table, and what a link may contain.

Nothing here imports streamlit. `read` judges a link, once, and has a sentence for everything invalid; `ui.address` puts
the values into the page's widgets as it opens, and writes them back at the end of its run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .fields import (
    Field,
    NameField,
    NumberField,
    Params,
    StopsField,
    SwitchField,
    TextField,
    Unusable,
    did_you_mean,
    named,
    short,
)

MAX_PROMPT = 20_000
MAX_PROMPT_IN_LINK = 2_000
MAX_SYSTEM = 500  # characters of a system line

TARGET, DRAFT = TextField("target"), TextField("draft")
DEVICE = named("device", "auto", "cpu", "cuda", "mps")
DTYPE = named("dtype", "auto", "float32", "bfloat16", "float16", "8-bit")
CHAT = SwitchField("chat", "Whether the chat template is used", True)
SYSTEM = TextField(
    "system",
    most=MAX_SYSTEM,
    too_long=f"The link's system line is longer than {MAX_SYSTEM} characters and is left out.",
)
GAMMA = NumberField("gamma", "The draft length γ", 1, 16, 4)
TEMPERATURE = NumberField("temperature", "The temperature", 0, 2, 0, whole=False, least=0.01)
TOP_K = NumberField("top_k", "Top-k", 0, 1000, 0)
TOP_P = NumberField("top_p", "Top-p", 0.05, 1, 1, whole=False)
MIN_P = NumberField("min_p", "Min-p", 0, 1, 0, whole=False)
PENALTY = NumberField(
    "repetition_penalty", "The repetition penalty", 0.5, 2, 1, whole=False, unset="the usual one"
)
NGRAM = NumberField("no_repeat_ngram_size", "The length of sequences written once", 0, 20, 0)
GENERATION = SwitchField("generation", "Whether the model's generation config is used", True)
SEED = NumberField("seed", "The seed", 0, 2**31 - 1, 0)
TOKENS = NumberField("tokens", "The number of new tokens", 1, 1024, 128)
STOP = StopsField("stop", default=[])
OVERLAP = SwitchField("overlap", "Overlap", False)
MEMORY = NumberField("memory", "The memory budget", 0, 1_000_000, 0, whole=False)
NUMBERS = (GAMMA, TEMPERATURE, TOP_K, TOP_P, MIN_P, PENALTY, NGRAM, SEED, TOKENS, MEMORY)
# By all lanes of a page; the models' names are the server's.
SHARED: tuple[Field, ...] = (
    *(TARGET, DRAFT, DEVICE, DTYPE, CHAT, SYSTEM),
    *(TEMPERATURE, TOP_K, TOP_P, MIN_P, PENALTY, NGRAM, GENERATION, SEED, TOKENS, STOP),
)
SWEEP_MOST = NumberField("sweep_most", "The number of prompts of each kind", 1, 20, 3)
SWEEP_REPEATS = NumberField("sweep_repeats", "The number of repeats", 1, 10, 3)
SWEEP_MEASURE = NameField(
    "sweep_measure",
    "measure",
    titles=lambda: {
        "speedup": "Speedup",
        "tokens_per_pass": "Tokens per pass τ",
        "alpha": "Acceptance rate α",
    },
)
SWEEP = (SWEEP_MOST, SWEEP_REPEATS, SWEEP_MEASURE)

# Keys of every page that are no settings. `hide` named parts of a page to leave out; old links may still have it.
FURTHER = ("prompt", "preset", "run", "round", "step", "node", "lead", "view", "hide", "present")


def values(params: Params, table: Iterable[Field]) -> tuple[dict[str, Any], list[str]]:
    """The usable settings of a link by their keys, and a sentence for each that cannot be used."""
    found, complaints = {}, []
    for each in table:
        if each.key in params:
            try:
                found[each.key] = each.read(params[each.key])
            except Unusable as error:
                complaints.append(str(error))
    return found, complaints


def read(
    params: Params, table: Iterable[Field], further: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The same for all that a page's link has.

    Args:
        table: the page's settings.
        further: keys that are read elsewhere, or their prefixes before the dot.
    """
    table = list(table)
    found, complaints = values(params, table)
    if found.get("model") != "other" and (
        others := [key for key in ("target", "draft") if found.pop(key, "")]
    ):
        complaints.append(
            f"The link names a {' and a '.join(others)}, and only model=other takes models by their ids; "
            f"{'it is' if len(others) == 1 else 'they are'} left out."
        )
    if len(params.get("prompt", [""])[-1]) > MAX_PROMPT:
        complaints.append(
            f"The link's prompt is longer than {MAX_PROMPT:,} characters and was cut off there."
        )
    if (present := params.get("present", ["1"])[-1]) != "1":
        complaints.append(f"The presentation begins with present=1; the link says “{short(present)}”.")
    known = [*(each.key for each in table), *FURTHER]
    strange = [key for key in params if key not in known and not {key, key.partition(".")[0]} & {*further}]
    if strange:
        names = ", ".join(f"“{short(key)}”" for key in strange[:3])
        complaints.append(
            f"The link has settings this page does not know ({names}); they are left out."
            + (did_you_mean(strange[0], known) if len(strange) == 1 else "")
        )
    return found, complaints


def write(table: Iterable[Field], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """The settings as an address says them; defaults are left out."""
    return {each.key: texts for each in table if (texts := each.write(values[each.key]))}


def address_of_prompt(prompt: str, preset: str | None, default: str | None) -> dict[str, list[str]]:
    """The prompt's address values: none for the first preset, a preset's name, or a short text."""
    if preset is not None:
        return {} if preset == default else {"preset": [preset]}
    return {"prompt": [prompt]} if 0 < len(prompt) <= MAX_PROMPT_IN_LINK else {}


def whole(text: str | None) -> int | None:
    """A small whole number from an address, or None. −1 is the token that the target wrote itself."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdecimal() and len(digits) < 7 else None
