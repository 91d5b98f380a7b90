"""A lane's settings translated to other programs: transformers' `generate`, and vLLM's `speculative_config`.

What has no counterpart there is listed in a comment line, never approximated. The names of transformers
are those of version 5.24, where an assistant's draft length is read from the assistant's generation config; vLLM's
are those of 0.32, with which draft models, n-grams, EAGLE-3 and suffixes were run on a CPU.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdec_core.lengths import read_options as length_options
from specdec_core.models import catalogue
from specdec_core.models.generation import OFF, Generation
from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import proposer_class
from specdec_core.rules import rule_class
from specdec_core.settings import Settings, as_settings

from .common import (
    UNPENALISED,
    YOURS,
    Elsewhere,
    about,
    common,
    given,
    messages,
    no_policy,
    no_proposer,
    no_rule,
    path,
    seed,
)
from .counterparts import in_transformers, in_vllm

TRANSFORMERS = "5.24"
FIRST_RUNNER = {
    "parallel-draft",
    "shared-tokens",
    "medusa",
    "suffix",
}  # what vLLM 0.32 has in that runner alone


def for_transformers(settings: Settings, layers: int | None = None) -> Elsewhere:
    """The settings as `generate` takes them; `layers` are the target's, for an early exit after a third of them."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"max_new_tokens": settings.max_new_tokens})
    if settings.temperature == 0:
        found.generate["do_sample"] = False
    else:
        found.generate |= {
            "do_sample": True,
            "temperature": settings.temperature,
            "top_k": settings.top_k,
            "top_p": settings.top_p,
        }
    found.generate |= given(settings, OFF)
    there = in_transformers(settings, layers)
    if there is None:
        found.missing += [no_proposer(settings, "transformers"), *seed(settings, None)]
        return found
    found.generate |= there.arguments
    found.tokenizers = there.tokenizers
    if there.tokenizers and settings.temperature > 0:
        found.changed.append(
            "of a draft with another tokenizer, transformers 5.23 and 5.24 take the guesses' probabilities for those "
            "of other tokens"
        )
    if there.drafts:
        found.draft = _draft_length(settings, found.missing)
    found.missing += there.missing
    if not there.drafts and there.rule is not None:
        _other_length(settings, found.missing)
    common(settings, found, _rule_in_transformers(settings, found, there.rule))
    return found


def for_vllm(settings: Settings, draft: str | None = None) -> Elsewhere:
    """The settings as `SamplingParams` and `speculative_config`; `draft` is the draft model's name."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"max_tokens": settings.max_new_tokens, "temperature": settings.temperature})
    if settings.temperature > 0:
        found.generate |= {"top_k": settings.top_k, "top_p": settings.top_p, "seed": settings.seed}
    found.generate |= given(settings, ("repetition_penalty", "min_p"))
    if settings.stop:
        found.generate |= {"stop": list(settings.stop), "include_stop_str_in_output": True}
    if settings.no_repeat_ngram_size:
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: vLLM has no ban on repeated n-grams of its own."
        )
        found.changed.append("no n-gram is banned")
    there = in_vllm(settings, draft)
    if there is None:
        found.missing += [no_proposer(settings, "vLLM"), *seed(settings, None, found.changed)]
        return found
    found.config = there.arguments or None
    found.missing += there.missing
    rule = None
    if found.config is not None:
        if settings.length_policy != "fixed":
            found.missing.append(f"{no_policy(settings)} See vLLM's own dynamic speculative decoding.")
        if cut := found.generate.pop("min_p", None):
            found.missing.append(f"min_p = {cut:g}: vLLM refuses it while it decodes speculatively.")
            found.changed.append("it is not cut by min_p")
        if found.generate.get("repetition_penalty", 1.0) != 1.0 and found.config["method"] not in (
            "ngram",
            "suffix",
        ):
            found.missing.append(UNPENALISED)
        rule = _rule_in_vllm(settings, found)
    common(settings, found, rule)
    return found


def transformers_code(settings: Settings, target: str, draft: str | None = None, dtype: str = "float32",
                      layers: int | None = None, chat: Chat | None = None,
                      requested: Generation | None = None, prompt: str = YOURS) -> str:  # fmt: skip
    """Python that generates with these settings.

    Args:
        target, draft: hub ids or folders; names of shipped models mean their folders.
        dtype: the weights' format, such as float32.
        layers: how many the target has.
        chat: a prompt that was a message in the chat template, whose system line is kept; None for plain text.
        requested: what the target's generation config sets, which `generate` follows.
        prompt: the text to continue, or the message.
    """
    found = for_transformers(settings, layers)
    assisted = bool(found.draft) and proposer_class(settings.proposer).uses_draft()
    lines = [
        f"# {about(settings)}",
        *(f"# Differs: {sentence}" for sentence in (*found.missing, *_requested(requested))),
    ]
    names = ["AutoModelForCausalLM", "AutoTokenizer"]
    if settings.stop:
        names += ["StoppingCriteria", "StoppingCriteriaList"]
    lines += [
        f"from transformers import {', '.join(names)}",
        "",
        f"tokenizer = AutoTokenizer.from_pretrained({path(target)!r})",
        f"model = AutoModelForCausalLM.from_pretrained({path(target)!r}, dtype={dtype!r})",
    ]
    if assisted:
        lines.append(
            f"assistant = AutoModelForCausalLM.from_pretrained({path(draft or '')!r}, dtype={dtype!r})"
        )
    if found.tokenizers:
        lines.append(f"assistant_tokenizer = AutoTokenizer.from_pretrained({path(draft or '')!r})")
    if found.draft:
        owner = "assistant" if assisted else "model"
        lines.append(
            f"{owner}.generation_config.update({_arguments(found.draft)})  # read from here, not from the call"
        )
    arguments = ("assistant_model=assistant, " if assisted else "") + _arguments(found.generate)
    if found.tokenizers:
        arguments += ", tokenizer=tokenizer, assistant_tokenizer=assistant_tokenizer"
    lines += ["", f"prompt = {prompt!r}", *_inputs(chat), 'start = inputs["input_ids"].shape[1]']
    if settings.stop:
        lines += [f"stops = {list(settings.stop)!r}", *STOPS]
        arguments += ", stopping_criteria=StoppingCriteriaList([Stop()])"
    lines.append(f"output = model.generate(**inputs, {arguments})")
    if settings.stop:
        lines += CUT
    lines.append("print(tokenizer.decode(output[0, start:]))")
    return "\n".join(lines) + "\n"


# transformers' own criterion looks at the end of the text only, which a round of guesses may have passed; and as
# `stop_strings` in the call it would reach the assistant, which has no tokenizer.
STOPS = """

def stopped(ids):  # by a stop string that ends behind the prompt
    text, begun = tokenizer.decode(ids), len(tokenizer.decode(ids[:start]))
    return any(stop in text[max(0, begun + 1 - len(stop)) :] for stop in stops)


class Stop(StoppingCriteria):  # transformers' own sees only where a round of guesses ends
    def __call__(self, ids, scores, **more):
        return ids.new_tensor([stopped(ids[0])]).bool()

""".splitlines()
CUT = """
while stopped(output[0, :-1]):
    output = output[:, :-1]  # guesses after the stop string
""".strip().splitlines()


def _requested(generation: Generation | None) -> list[str]:
    """What a target's own generation config sets that `generate` applies and this decoder does not."""
    names = ", ".join(generation.not_done) if generation is not None else ""
    return (
        [f"The target's generation_config.json sets {names}: applied there, not supported here."]
        if names
        else []
    )


def _inputs(chat: Chat | None) -> list[str]:
    """Code that turns `prompt` into the model's input."""
    if chat is None:
        return ['inputs = tokenizer(prompt, return_tensors="pt")']
    return [
        f"messages = {messages(chat)}",
        "inputs = tokenizer.apply_chat_template(",
        '    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"',
        ")",
    ]


def vllm_code(settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None) -> str:
    """A command that serves the target with these settings, and the request; `chat` as above."""
    found = for_vllm(settings, path(draft) if draft else None)
    missing = [*found.missing, *_sizes(found, path(target), path(draft) if draft else None)]
    lines = [f"# {about(settings)}", *(f"# Differs: {sentence}" for sentence in missing)]
    command = f"vllm serve {shlex.quote(path(target))}"
    if found.config is not None:
        command += f" \\\n    --speculative-config {shlex.quote(json.dumps(found.config))}"
    lines += [command, "", "# With each request (SamplingParams):", f"# {json.dumps(found.generate)}"]
    if chat is None:
        lines.append("# sent to /v1/completions with the prompt as it is")
    else:
        lines.append(
            f"# sent to /v1/chat/completions, which applies the chat template: messages = {messages(chat)}"
        )
    return "\n".join(lines) + "\n"


def _draft_length(settings: Settings, missing: list[str]) -> dict[str, Any]:
    """The length policy in terms of the drafting model's generation config."""
    wanted: dict[str, Any] = {
        "num_assistant_tokens": settings.draft_length,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    if settings.length_policy == "heuristic":
        wanted["num_assistant_tokens_schedule"] = "heuristic_transient"
        missing.append("The heuristic's maximum: transformers lets the draft grow without a bound.")
    elif settings.length_policy == "confidence":
        wanted["assistant_confidence_threshold"] = length_options(settings).threshold
        missing.append(
            "A constant threshold: transformers moves it between rounds where scikit-learn is installed."
        )
    else:
        _other_length(settings, missing)
    return wanted


def _other_length(settings: Settings, missing: list[str]) -> None:
    if settings.length_policy != "fixed":
        missing.append(no_policy(settings))


def _rule_in_transformers(settings: Settings, found: Elsewhere, rule_there: str | None) -> str | None:
    """The rule that judges there, if any does; `rule_there` judges such guesses above temperature 0. Names our rule
    where transformers has it, else says that it does not."""
    rule, sampled = settings.rule, settings.temperature > 0
    if rule_there is None:
        return None
    if rule_class(rule).lossless and not sampled:
        return rule  # at temperature 0 all lossless rules write the same
    if rule == "ensemble" and rule_there == "speculative-sampling" and sampled:
        weight = float(rule_class(rule).read_options(settings).weight)
        if weight < 1:
            found.generate["assistant_ensemble_weight"] = weight
        return rule
    # Of fixed guesses, token matching and speculative sampling write the same.
    if rule != rule_there and not (rule_there == "token-matching" and rule == "speculative-sampling"):
        found.missing.append(no_rule(settings, "transformers"))
    return rule_there


def _rule_in_vllm(settings: Settings, found: Elsewhere) -> str:
    """Name the rule where vLLM has it, else say so; returns the rule that judges there."""
    assert found.config is not None
    if settings.rule == "block" and settings.temperature > 0 and settings.proposer in FIRST_RUNNER:
        found.missing.append(
            "rule = block: vLLM guesses in this way in its model runner V1 only, which takes rejection_sample_method "
            "and judges by its standard rule."
        )
        return "speculative-sampling"
    if settings.rule == "block" and settings.temperature > 0:
        found.config["rejection_sample_method"] = "block"
        found.missing.append(
            "rule = block where vLLM runs its model runner V1, as on a CPU: that takes rejection_sample_method = "
            "block, judges by its standard rule and draws no guesses."
        )
    elif not rule_class(settings.rule).lossless or settings.rule == "kseq":
        found.missing.append(no_rule(settings, "vLLM"))
        return "speculative-sampling"
    return settings.rule


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _sizes(found: Elsewhere, target: str, draft: str | None) -> list[str]:
    """Whether vLLM refuses the draft for the number of its tokens, as far as the two folders are here."""
    config = found.config or {}
    if config.get("method") != "draft_model" or config.get("use_heterogeneous_vocab") or draft is None:
        return []
    sizes = [_vocabulary(name) for name in (target, draft)]
    if None in sizes:
        return ["A draft with another number of tokens than the target: vLLM refuses it."]
    if sizes[0] == sizes[1]:
        return []
    return [f"This draft: vLLM refuses it, since it has {sizes[1]:,} tokens and the target has {sizes[0]:,}."]


def _vocabulary(name: str) -> int | None:
    """The vocabulary's size in a folder's configuration; None where there is none."""
    folder = catalogue.shipped(Path(name).name) or Path(name)
    try:
        size = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("vocab_size")
    except (OSError, ValueError, AttributeError):
        return None
    return size if isinstance(size, int) else None
