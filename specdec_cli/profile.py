"""`profile`: record this machine's width curves as a file that the what-if clock reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from specdec_core.foundations.errors import ModelError, SettingsError, SpecdecError
from specdec_core.models.assembling import arrange_weights, assemble
from specdec_core.models.bundle import Models
from specdec_core.models.files.hub import load_tokenizer
from specdec_core.models.files.sources import resolve
from specdec_core.models.loading import load_models
from specdec_core.runtime.machine import available_bytes, choose_device, choose_dtype
from specdec_measure.machines.model_sizes import Shape, shape_of
from specdec_measure.machines.profiles import RecordedProfile, write
from specdec_measure.machines.recording import PassPlan

FALL = 0.7  # less than this share of a narrower pass's time is more than scatter
ROOM = 1.1  # free memory needed before creating weights, as a multiple of their size


def models_for(
    names: tuple[str | None, str | None],
    sizes: tuple[str | None, str | None],
    device: str,
    dtype: str,
    graphs: bool,
) -> Models:
    """The models to time: those named, or random weights in the requested sizes.

    Raises:
        SpecdecError: one sentence.
    """
    disable_progress_bar()
    if sizes[0] is None:
        if sizes[1] is not None:
            raise SettingsError("A --draft-shape needs a --shape for its target.")
        return load_models(*names, device=device, dtype=dtype, graphs=graphs)
    if any(names):
        raise SettingsError("Give either --shape, for random weights, or --model; not both.")
    return random_models(shape_of(sizes[0]), shape_of(sizes[1]) if sizes[1] else None, device, dtype, graphs)


def random_models(target: Shape, draft: Shape | None, device: str, dtype: str, graphs: bool = True) -> Models:
    """Models of these sizes with random weights, which take as long as trained ones, with the bundled tokenizer.

    Raises:
        ModelError: if they do not fit in the free memory.
    """
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    shapes = [target, draft] if draft else [target]
    needed = ROOM * kind.itemsize * sum(one.parameters for one in shapes)
    free = available_bytes(where)
    if needed > free:
        raise ModelError(
            f"Random weights of {' and '.join(one.name for one in shapes)} need {needed / 1e9:,.1f} GB on "
            f"{where.type}, and {free / 1e9:,.1f} GB are free. Choose smaller shapes."
        )
    large, *small = (random_model(one, where, kind) for one in shapes)
    names = tuple(f"{one.name} ({one.title}, random weights)" for one in shapes)
    tokenizer = load_tokenizer(resolve("specdec-target"))
    models = assemble(tokenizer, large, small[0] if small else None, names=names, graphs=graphs)
    arrange_weights(models)
    return models


def random_model(one: Shape, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """One model of these sizes with random weights, made on the device."""
    with device:
        made: PreTrainedModel = LlamaForCausalLM._from_config(
            _config(one), dtype=dtype, attn_implementation="sdpa"
        )
    made.eval()
    return made


def check_asked(models: Models, plan: PassPlan, given: Sequence[int] | None, eager: bool) -> str | None:
    """A remark on what has no effect with these models, before anything is measured; None if there is none.

    Args:
        given: the widths that were asked for; the usual ones are measured as far as the models can read them.

    Raises:
        SettingsError: if a pass of a given width does not fit the models' window.
    """
    plan.check(models)
    window = models.window(with_draft=True)
    room = window - max(plan.contexts)
    if given and max(given) > room:
        raise SettingsError(
            f"These models read {window:,} tokens, so after a context of {max(plan.contexts):,} a pass has at most "
            f"{room:,}; got a width of {max(given):,}. Choose smaller widths or contexts."
        )
    if eager and torch.device(models.device).type != "cuda":
        return f"--eager changes nothing on {models.device}: only on cuda are passes launched as graphs."
    return None


def disturbed(seconds: Sequence[float]) -> str | None:
    """That a wider pass took much less time than a narrower one, which only other work explains; None if none did.

    Args:
        seconds: of the target's passes, the narrowest first.
    """
    if all(later >= FALL * earlier for earlier, later in combinations(seconds, 2)):
        return None
    return (
        "A wider pass took less time than a narrower one, so something else held the machine up. Measure again when "
        "nothing else runs, or with more --measurements."
    )


def save(profile: RecordedProfile | None, out: Path) -> None:
    """Write the file, whole or not at all; without a profile only check that it can be written.

    Raises:
        SpecdecError: one sentence.
    """
    unfinished = out.with_name(out.name + ".part")
    try:
        unfinished.write_text(write(profile) if profile else "", encoding="utf-8")
        if profile:
            unfinished.replace(out)
        else:
            unfinished.unlink()
    except OSError as error:
        raise SpecdecError(
            f"The profile could not be written to '{out}': {error.strerror or 'unknown error'}. "
            "Choose another file."
        ) from None


def _config(one: Shape) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=one.width,
        intermediate_size=one.inner,
        num_hidden_layers=one.layers,
        num_attention_heads=one.heads,
        num_key_value_heads=one.kv_heads,
        head_dim=one.head_dim,
        vocab_size=one.vocabulary,
        tie_word_embeddings=one.tied,
        max_position_embeddings=131_072,
        bos_token_id=0,
        eos_token_id=0,
    )
