"""A lane's settings for OpenVINO GenAI and mlx-lm, in Python: draft models, and prompt lookup in OpenVINO.

The names are those of openvino-genai 2026.4.1.0 and mlx-lm 0.32.2, which were run with them on a CPU.
"""

from __future__ import annotations

from typing import Any

from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import proposer_class
from specdec_core.settings import Settings, as_settings

from .common import (
    YOURS,
    Elsewhere,
    common,
    given,
    head,
    messages,
    no_policy,
    no_proposer,
    no_rule,
    path,
    seed,
)

OPENVINO, MLX = "OpenVINO GenAI", "mlx-lm"
BACK = 4_096  # tokens that mlx-lm's repetition penalty looks back at, where nothing is guessed


def for_openvino(settings: Settings) -> Elsewhere:
    """The settings as entries of `GenerationConfig`; `config` holds what the pipeline is made with."""
    settings = as_settings(settings)
    found = Elsewhere(
        generate={"max_new_tokens": settings.max_new_tokens, "do_sample": settings.temperature > 0}
    )
    if settings.temperature > 0:
        drawn = {"temperature": settings.temperature, "top_p": settings.top_p, "rng_seed": settings.seed}
        found.generate |= drawn | ({"top_k": settings.top_k} if settings.top_k else {})
    found.generate |= given(settings, ("repetition_penalty", "no_repeat_ngram_size", "min_p"))
    if settings.stop:
        found.generate |= {"stop_strings": set(settings.stop), "include_stop_str_in_output": True}
    if settings.proposer == "draft-model":
        found.config = {"draft_model": True}
        found.generate["num_assistant_tokens"] = settings.draft_length
        if settings.temperature > 0:
            found.changed.append(
                "with a draft, OpenVINO GenAI 2026.4 keeps guesses that the target would not draw"
            )
    elif settings.proposer == "prompt-lookup":
        options: Any = proposer_class(settings.proposer).read_options(settings)
        found.config = {"prompt_lookup": True}
        found.generate |= {"num_assistant_tokens": settings.draft_length, "max_ngram_size": options.max_ngram}
        if options.match != "longest":
            found.missing.append(f"match = {options.match}: OpenVINO takes the longest match.")
    return _finish(settings, found, OPENVINO, "speculative-sampling")


def for_mlx(settings: Settings) -> Elsewhere:
    """The settings as arguments of `stream_generate`; `config` holds those of its sampler and its penalty."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"max_tokens": settings.max_new_tokens}, config={})
    assert found.config is not None
    if settings.temperature > 0:
        found.config["sampler"] = {
            "temp": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k,
            "min_p": settings.min_p or 0.0,
        }  # fmt: skip
        if settings.temperature != 1 and (settings.top_k or settings.top_p < 1 or settings.min_p):
            found.missing.append(
                "The order of sampling: mlx-lm cuts by top-k, top-p and min-p before the temperature."
            )
            found.changed.append("its cuts come before the temperature")
    if (penalty := settings.repetition_penalty or 1.0) != 1.0:
        found.config["penalty"] = {"repetition_penalty": penalty, "repetition_context_size": BACK}
        if settings.proposer != "none":
            found.missing.append(
                "repetition_penalty: with a draft, mlx-lm 0.32 leaves the prompt out of it but for one token, "
                "so that the text is another one."
            )
            found.changed.append("the penalty leaves the prompt out")
    if settings.stop:
        found.missing.append(f"stop = {list(settings.stop)}: mlx-lm's stream_generate has no stop strings.")
    if settings.no_repeat_ngram_size:
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: mlx-lm has no such ban."
        )
        found.changed.append("no n-gram is banned")
    if settings.proposer == "draft-model":
        found.generate["num_draft_tokens"] = settings.draft_length
        found.missing.append(
            "A model whose layers see a window of the text: mlx-lm 0.32 keeps refused guesses in its cache, so that "
            "the text is another one."
        )
    return _finish(settings, found, MLX, "token-matching")


def _finish(settings: Settings, found: Elsewhere, program: str, rule_there: str) -> Elsewhere:
    there = settings.proposer in ("none", "draft-model") or (settings.proposer, program) == (
        "prompt-lookup",
        OPENVINO,
    )
    if not there:
        found.missing += [no_proposer(settings, program), *seed(settings, None, found.changed)]
        return found
    guesses = settings.proposer != "none"
    if guesses and settings.temperature > 0 and settings.rule != rule_there:
        found.missing.append(no_rule(settings, program))
    if guesses and settings.length_policy != "fixed":
        found.missing.append(no_policy(settings))
    common(settings, found, rule_there if guesses else None)
    return found


def openvino_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python for openvino-genai; the folders are OpenVINO's, as `optimum-cli export openvino` writes them, or the
    target a GGUF file."""
    found = for_openvino(settings)
    more = ""
    if (config := found.config or {}).get("draft_model"):
        more = f', draft_model=ov.draft_model({path(draft or "the draft model")!r}, "CPU")'
    elif config:
        more = ", prompt_lookup=True"
    arguments = ", ".join(f"{name}={value!r}" for name, value in found.generate.items())
    lines = [
        *head(settings, found), "# The folders are in OpenVINO's own format (optimum-cli export openvino).",
        "import openvino_genai as ov", "", f"pipeline = ov.LLMPipeline({path(target)!r}, \"CPU\"{more})",
        f"prompt = {prompt!r}",
    ]  # fmt: skip
    if chat is not None:
        lines.append(
            f"prompt = pipeline.get_tokenizer().apply_chat_template({messages(chat)}, add_generation_prompt=True)"
        )
    lines.append(f"config = ov.GenerationConfig({arguments}, apply_chat_template=False)")
    return "\n".join([*lines, "print(pipeline.generate(prompt, config))"]) + "\n"


def mlx_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python for mlx-lm."""
    found = for_mlx(settings)
    config, assisted = found.config or {}, "num_draft_tokens" in found.generate
    lines = [
        *head(settings, found), "from mlx_lm import load, stream_generate",
        "from mlx_lm.sample_utils import make_logits_processors, make_sampler", "",
        f"model, tokenizer = load({path(target)!r})",
    ]  # fmt: skip
    arguments = ", ".join(f"{name}={value!r}" for name, value in found.generate.items())
    if assisted:
        lines.append(f"draft, _ = load({path(draft or 'the draft model')!r})")
        arguments += ", draft_model=draft"
    for name, maker, argument in (
        ("sampler", "make_sampler", "sampler"), ("penalty", "make_logits_processors", "logits_processors"),
    ):  # fmt: skip
        given_there = ", ".join(f"{key}={value!r}" for key, value in config.get(name, {}).items())
        if name in config:
            arguments += f", {argument}={maker}({given_there})"
    lines.append(f"prompt = {prompt!r}")
    if chat is not None:
        lines.append(f"prompt = tokenizer.apply_chat_template({messages(chat)}, add_generation_prompt=True)")
    lines += [
        f"for part in stream_generate(model, tokenizer, prompt, {arguments}):",
        '    print(part.text, end="", flush=True)',
    ]
    return "\n".join(lines) + "\n"
