"""transformers' own assisted generation, recorded while its `generate` runs: the same format, player and audit.

Two things differ from a record of our decoder. The first round's pass also reads the prompt, so its time includes what
we report as prefill. And the coins are drawn inside transformers where nobody sees them, so they are unknown.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.engine.prompt import token_ids
from specdec_core.foundations.errors import SettingsError, SpecdecError
from specdec_core.models.loaded_check import check_loaded
from specdec_core.models.sizes import model_info
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_core.record.schema import Header, ModelInfo
from specdec_core.record.trace import Trace
from specdec_core.runtime.machine import describe, packages
from specdec_core.settings import Settings

from .asked import asked, stops
from .keeping import Keeping, Observed
from .observing import Observer, Setup

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def record(
    model: PreTrainedModel,
    prompt: str | Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    *,
    assistant_model: PreTrainedModel | None = None,
    max_new_tokens: int = 64,
    seed: int = 0,
    **options: Any,
) -> Trace:
    """Run `model.generate` with speculation and return the record of it; its tokens are those that `generate` returned.

    Args:
        prompt: text, or token ids.
        assistant_model: the draft; or give `prompt_lookup_num_tokens` or `assistant_early_exit` among the options.
        seed: torch's generator is set to it, for sampling.
        options: go to `generate` as they are.

    Raises:
        SettingsError: with one sentence, where `generate` does not speculate, or in a way that is not recorded.
        ModelError, PromptError: likewise, where a model is not a loaded one, or the prompt not text or token ids.
    """
    check_loaded(tokenizer, model, assistant_model)
    wanted = asked(max_new_tokens, seed, options)
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else token_ids(prompt)
    if not ids:
        raise SettingsError("The prompt has no tokens; transformers needs at least one.")
    keeping = Keeping(HubCodec(tokenizer), ids, wanted)

    def take(seen: Observed) -> None:
        assert observer.setup is not None
        keeping.take(seen, observer.setup.warp)

    observer = Observer(model, assistant_model, take)
    if assistant_model is not None:
        options["assistant_model"] = assistant_model
    options.setdefault("tokenizer", tokenizer)  # looks for stop strings
    torch.manual_seed(seed)
    with torch.inference_mode(), observer.watching():
        given = torch.tensor([ids], device=model.device)
        options.setdefault("attention_mask", torch.ones_like(given))
        output = _generated(model, given, max_new_tokens=max_new_tokens, **options)
    if observer.setup is None:
        raise SettingsError(
            "This call of generate does not speculate: give an assistant_model, prompt_lookup_num_tokens or "
            "assistant_early_exit."
        )
    returned = getattr(output, "sequences", output)[0].tolist()
    text = prompt if isinstance(prompt, str) else ""
    ends = observer.setup.config.eos_token_id
    trace = keeping.trace(
        _header(observer, model, assistant_model, keeping, text, wanted), max_new_tokens,
        [] if ends is None else ends if isinstance(ends, list) else [ends],
    )  # fmt: skip
    if [*ids, *trace.token_ids] != returned:
        raise AssertionError("the recorded tokens are not those that generate returned")
    return trace


def _header(
    observer: Observer,
    model: PreTrainedModel,
    draft: PreTrainedModel | None,
    keeping: Keeping,
    prompt: str,
    wanted: Settings,
) -> Header:
    assert observer.setup is not None
    return Header(
        id=secrets.token_urlsafe(12), created=datetime.now(UTC).isoformat(timespec="seconds"),
        packages=packages(), device=model.device.type, dtype=str(model.dtype).removeprefix("torch."),
        machine=describe(model.device), target=_info(model), draft=_info(draft) if draft is not None else None,
        settings=settings_of(observer.setup, wanted.seed, wanted.max_new_tokens).model_dump(mode="json"),
        prompt=prompt or keeping.codec.decode(keeping.prompt),
        prompt_ids=keeping.prompt, prompt_texts=keeping.codec.names(keeping.prompt),
        vocabulary=int(model.get_output_embeddings().weight.shape[0]),
    )  # fmt: skip


def settings_of(setup: Setup, seed: int, most: int) -> Settings:
    """`generate`'s configuration in our words."""
    config, proposer = setup.config, setup.proposer
    options: dict[str, Any] = {}
    if proposer == "prompt-lookup":
        options = {"max_ngram": config.max_matching_ngram_size or 2, "match": "first"}
    elif proposer == "early-exit":
        options = {"layer": config.assistant_early_exit}
    drawn = proposer != "prompt-lookup"
    own = getattr(setup.generator, "assistant_generation_config", None)
    schedule = getattr(own, "num_assistant_tokens_schedule", None) or ""
    doubt = getattr(own, "assistant_confidence_threshold", None) or 0.0
    policy = "heuristic" if schedule.startswith("heuristic") else "confidence" if doubt else "fixed"
    sampling: dict[str, Any] = {}
    if config.do_sample:
        sampling = {
            "temperature": config.temperature or 1.0,
            "top_k": config.top_k or 0,
            "top_p": config.top_p or 1.0,
        }
        sampling["min_p"] = config.min_p
    return Settings(
        proposer=proposer,
        rule="speculative-sampling" if drawn or not config.do_sample else "token-matching",
        draft_length=setup.first_length,
        length_policy=policy,
        length_options={"threshold": doubt} if policy == "confidence" else {},
        max_new_tokens=most,
        repetition_penalty=config.repetition_penalty,
        no_repeat_ngram_size=config.no_repeat_ngram_size,
        seed=seed,
        stop=stops(config.stop_strings),
        options=options,
        **sampling,
    )


def _generated(model: PreTrainedModel, ids: torch.Tensor, **options: Any) -> Any:
    """What the model's `generate` returns.

    Raises:
        SettingsError: in its own words, if it refuses its options.
    """
    run: Any = model  # whose `generate` torch types as a tensor
    try:
        return run.generate(ids, **options)
    except SpecdecError:
        raise
    except ValueError as error:
        said = (str(error).strip().splitlines() or ["it does not say why."])[0][:300]
        raise SettingsError(f"transformers refuses this call of generate: {said}") from error


def _info(model: PreTrainedModel) -> ModelInfo:
    """A model's name, never a path."""
    name = str(model.config._name_or_path or model.config.model_type)
    name = Path(name).name if Path(name).is_absolute() or Path(name).exists() else name
    return model_info(name[:500], model)
