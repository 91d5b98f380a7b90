"""A lane's settings for SGLang, llama.cpp and LM Studio, in their names of 2026; of these llama.cpp's server was run.

What has no counterpart there is a comment line. llama.cpp's flags are those after its rename of April 2026; with draft
models and n-grams they were run on a CPU with its server b11434 and 0.10434.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from specdec_core.foundations.errors import many
from specdec_core.lengths import read_options as length_options
from specdec_core.models.generation import OFF
from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import proposer_class
from specdec_core.rules import rule_class
from specdec_core.settings import Settings, as_settings

from .common import (
    UNPENALISED,
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

LAST = 4_096  # tokens that llama.cpp's repetition penalty looks back at
SGLANG, LLAMA_CPP, LM_STUDIO = "SGLang", "llama.cpp", "LM Studio"
ON_STATES: dict[str, tuple[str, str | None]] = {  # its algorithm, and the head's path where it is a separate file
    "eagle": ("EAGLE", "path/to/eagle-head"), "eagle3": ("EAGLE3", "path/to/eagle3-head"), "mtp": ("NEXTN", None),
}  # fmt: skip
SAME = {
    ("token-matching", proposer) for proposer in ("draft-model", "branching", "prompt-lookup", *ON_STATES)
} | {("speculative-sampling", "prompt-lookup")}
KEEPS_TREE = "Which nodes of a level are expanded: SGLang ranks them by its own rule."


def for_sglang(settings: Settings, draft: str | None = None) -> Elsewhere:
    """The settings as `sampling_params` and flags of its server, which `config` holds; `draft` is the model's name."""
    settings = as_settings(settings)
    found = Elsewhere(
        generate={"max_new_tokens": settings.max_new_tokens, "temperature": settings.temperature}
    )
    if settings.temperature > 0:
        found.generate |= {"top_k": settings.top_k or -1, "top_p": settings.top_p}
    found.generate |= given(settings, ("repetition_penalty", "min_p"))
    _stops(settings, found, "stop")
    chosen = _sglang(settings, draft or "the draft model", found.missing)
    if chosen is None:
        found.missing += [no_proposer(settings, SGLANG), *seed(settings, None, found.changed)]
        return found
    found.config = {f"--speculative-{name}": value for name, value in chosen.items()}
    if chosen:
        for name in ("repetition_penalty", "min_p"):
            if found.generate.get(name, OFF[name]) != OFF[name]:
                found.changed.append(f"{name} is not applied to each guess")
                found.missing.append(
                    f"{name} = {found.generate[name]:g}: with guesses SGLang applies it to the text before a round, "
                    "and not to each guess in it."
                )
        _rule(settings, found, SGLANG, "with the probability that the target gives it")
    return _finish(settings, found, SGLANG, "token-matching" if chosen else None)


def _sglang(settings: Settings, draft: str, missing: list[str]) -> dict[str, Any] | None:
    """The flags of its server, less their common beginning; None where it has no such proposer."""
    options: Any = proposer_class(settings.proposer).read_options(settings)
    if settings.proposer == "none":
        return {}
    if settings.proposer == "prompt-lookup":
        missing.append(f"match = {options.match}: SGLang takes the most recent continuation, on CUDA only.")
        return {
            "algorithm": "NGRAM",
            "num-draft-tokens": settings.draft_length,
            "ngram-max-match-window-size": options.max_ngram,
            "ngram-max-bfs-breadth": 1,
        }
    # It counts the root among the tokens that a pass checks.
    if settings.proposer == "draft-model":
        steps, width, nodes = settings.draft_length, 1, settings.draft_length
    elif settings.proposer == "branching":
        steps, width, nodes = options.depth, options.width, options.nodes
        missing.append(KEEPS_TREE)
    elif settings.proposer in ON_STATES:
        steps, width, nodes = options.depth, options.top_k, options.nodes
        at = options.tree_temperature
        if width > 1 and (at is not None or settings.temperature == 0) and at != 1.0:
            here = (
                ": where one was measured for the head, it chooses the tree here"
                if at is None
                else f" = {at:g}"
            )
            missing.append(f"tree_temperature{here}; SGLang chooses the tree at temperature 1.")
    else:
        return None
    algorithm, path = ON_STATES.get(settings.proposer, ("STANDALONE", draft))
    return {
        "algorithm": algorithm,
        **({} if path is None else {"draft-model-path": path}),
        "num-steps": steps,
        "eagle-topk": width,
        "num-draft-tokens": nodes + 1,
    }


def for_llama_cpp(settings: Settings) -> Elsewhere:
    """The settings as a `/completion` request and flags of llama-server, which `config` holds."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"n_predict": settings.max_new_tokens, "temperature": settings.temperature})
    # Its own defaults draw from the 40 likeliest with min-p 0.05, and cut before the temperature: all is set here.
    if settings.temperature > 0:
        found.generate |= {
            "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
            "top_k": settings.top_k,
            "top_p": settings.top_p,
            "min_p": settings.min_p or 0.0,
            "seed": settings.seed,
        }
    penalty = settings.repetition_penalty or 1.0
    found.generate["repeat_penalty"] = penalty
    if penalty != 1.0:
        found.generate["repeat_last_n"] = LAST  # newer servers refuse −1, the whole text
        found.missing.append(
            f"repetition_penalty: llama.cpp looks at the last {LAST:,} tokens, here at the whole text."
        )
    _stops(settings, found, "stop")
    flags: dict[str, Any] | None = None
    if settings.proposer == "none":
        flags = {}
    elif settings.proposer == "draft-model":
        if penalty != 1.0:
            found.missing.append(UNPENALISED)
        flags = {
            "-md": "draft.gguf",
            "--spec-type": "draft-simple",
            "--spec-draft-n-max": settings.draft_length,
            "--spec-draft-p-min": _threshold(settings),
        }
    elif settings.proposer == "prompt-lookup":
        options: Any = proposer_class(settings.proposer).read_options(settings)
        size = min(options.max_ngram, settings.draft_length)  # with fewer guesses than that it never guesses
        flags = {
            "--spec-type": "ngram-simple",
            "--spec-ngram-simple-size-n": size,
            "--spec-ngram-simple-size-m": settings.draft_length,
        }
        found.missing.append(
            f"match = {options.match}: llama.cpp looks for the last earlier place of exactly "
            f"{many(size, 'token')}, and for no shorter match; it guesses nothing if fewer than {size} follow there."
        )
    if flags is None:
        found.missing += [no_proposer(settings, LLAMA_CPP), *seed(settings, None, found.changed)]
        return found
    found.config = flags
    if flags:
        _rule_in_llama_cpp(settings, found, flags)
        found.missing.append(
            "Guesses in the pass that reads the prompt: llama.cpp begins to guess behind it."
        )
    return _finish(settings, found, LLAMA_CPP, "token-matching" if flags else None)


def _rule_in_llama_cpp(settings: Settings, found: Elsewhere, flags: dict[str, Any]) -> None:
    drawn = settings.temperature > 0 and settings.proposer == "draft-model"
    if settings.length_policy == "confidence" and settings.proposer == "draft-model":
        found.missing.append(
            "The token below the threshold: here it is the last guess, llama.cpp drops it, and may guess nothing."
        )
    if drawn and settings.rule == "speculative-sampling":
        flags["--spec-draft-sampling"] = "probabilistic"
        found.missing.append(
            "Older servers, such as that of August 2026: they lack --spec-draft-sampling, and keep a guess if the "
            "target draws the same token."
        )
        found.missing.append(
            "Guesses drawn from all tokens: llama.cpp draws them from the draft's 10 likeliest."
        )
        return
    _rule(settings, found, LLAMA_CPP, "if the target draws the same token")
    if drawn and rule_class(settings.rule).lossless:
        found.missing.append(
            "Drawn guesses: here the draft draws its tokens, llama.cpp takes the most likely."
        )


def for_lm_studio(settings: Settings, draft: str | None = None) -> Elsewhere:
    """The settings as the prediction config of LM Studio's Python package; `config` holds what is of speculation."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"maxTokens": settings.max_new_tokens, "temperature": settings.temperature})
    if settings.temperature > 0:
        found.generate |= {"topKSampling": settings.top_k, "topPSampling": settings.top_p}
        found.generate["minPSampling"] = settings.min_p or 0.0
        found.missing.append(
            "The order of sampling: the temperature comes after top-k, top-p and min-p there, before them here."
        )
        if settings.temperature != 1 and (settings.top_k or settings.top_p < 1 or settings.min_p):
            found.changed.append("its cuts come before the temperature")
    found.generate["repeatPenalty"] = settings.repetition_penalty or 1.0
    _stops(settings, found, "stopStrings")
    if settings.proposer not in ("none", "draft-model"):
        found.missing += [no_proposer(settings, LM_STUDIO), *seed(settings, None, found.changed)]
        return found
    found.config = {}
    if settings.proposer == "draft-model":
        found.config = {
            "draftModel": draft or "the draft model",
            "speculativeDecodingNumDraftTokensExact": settings.draft_length,
            "speculativeDecodingMinContinueDraftingProbability": _threshold(settings),
        }
        _rule(settings, found, LM_STUDIO, "if the target draws the same token")
    return _finish(settings, found, LM_STUDIO, "token-matching" if found.config else None)


def sglang_code(settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None) -> str:
    """A command that serves the target with these settings, and the request; `chat` as in `transformers_code`."""
    found = for_sglang(settings, path(draft) if draft else None)
    command = ["python3 -m sglang.launch_server", f"--model-path {shlex.quote(path(target))}"]
    lines = [*head(settings, found), _wrapped([*command, *_flags(found)]), ""]
    if chat is None:
        lines += [
            '# To /generate, beside the prompt as "text":',
            _comment({"sampling_params": found.generate}),
        ]
    else:
        named = {"max_tokens": found.generate.pop("max_new_tokens"), **found.generate}
        lines += [f"# To /v1/chat/completions, beside messages = {messages(chat)}:", _comment(named)]
    return "\n".join(lines) + "\n"


def llama_cpp_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None
) -> str:
    """A command that serves the target's GGUF file with these settings, and the request."""
    found = for_llama_cpp(settings)
    lines = head(settings, found) + gguf_files(target, draft if "-md" in (found.config or {}) else None)
    lines += [_wrapped(["llama-server", "-m target.gguf", *_flags(found)]), ""]
    if chat is None:
        lines += ['# To /completion, beside the prompt as "prompt":', _comment(found.generate)]
    else:
        named = {"max_tokens": found.generate.pop("n_predict"), **found.generate}
        lines += [f"# To /v1/chat/completions, beside messages = {messages(chat)}:", _comment(named)]
    return "\n".join(lines) + "\n"


def gguf_files(target: str, draft: str | None) -> list[str]:
    """Comment lines: what target.gguf is, and draft.gguf where one is used, and how they are made."""
    files = [("target.gguf", target), *([("draft.gguf", draft)] if draft else [])]
    lines = [f"# {file} is {path(name)!r}, by llama.cpp's convert_hf_to_gguf.py" for file, name in files]
    if any(path(name).startswith("assets/models/specdec-") for _, name in files):
        lines.append(
            "# which has to be taught their tokenizer first: its get_vocab_base_pre has to return 'smollm'"
        )
    return lines


def lm_studio_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python with LM Studio's own package, which asks a running LM Studio."""
    found = for_lm_studio(settings, path(draft) if draft else None)
    config = found.generate | (found.config or {})
    system = repr(chat.system) if chat is not None and chat.system.strip() else ""
    ask = ["print(model.complete(prompt, config=config))"]
    if chat is not None:
        ask = [
            f"chat = lms.Chat({system})",
            "chat.add_user_message(prompt)",
            "print(model.respond(chat, config=config))",
        ]
    lines = [
        *head(settings, found),
        "# The names are the keys under which LM Studio lists its downloaded models; a draft shares the tokenizer.",
        "import lmstudio as lms",
        "",
        f"model = lms.llm({path(target)!r})",
        f"config = {config!r}",
        f"prompt = {prompt!r}",
        *ask,
    ]
    return "\n".join(lines) + "\n"


def _stops(settings: Settings, found: Elsewhere, name: str) -> None:
    if settings.stop:
        found.generate[name] = list(settings.stop)
        found.missing.append("The stop string itself: there the text ends before it, here with it.")


def _threshold(settings: Settings) -> float:
    """The draft's probability below which it stops guessing; 0 unless the length policy has one."""
    return float(length_options(settings).threshold) if settings.length_policy == "confidence" else 0.0


def _rule(settings: Settings, found: Elsewhere, program: str, how: str) -> None:
    """How guesses are judged there, unless it makes no difference: at temperature 0 all lossless rules agree, and of
    fixed guesses speculative sampling and token matching write the same."""
    if not rule_class(settings.rule).lossless:
        found.missing.append(no_rule(settings, program))
    elif settings.temperature > 0 and (settings.rule, settings.proposer) not in SAME:
        found.missing.append(f"rule = {settings.rule}: {program} keeps a guess {how}.")


def _finish(settings: Settings, found: Elsewhere, program: str, rule_there: str | None) -> Elsewhere:
    """What no program but ours has."""
    if settings.no_repeat_ngram_size:
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: {program} has no such ban."
        )
        found.changed.append("no n-gram is banned")
    if found.config and settings.length_policy not in (
        "fixed",
        "confidence" if program != SGLANG else "fixed",
    ):
        found.missing.append(no_policy(settings))
    common(settings, found, rule_there)
    return found


def _flags(found: Elsewhere) -> list[str]:
    return [f"{name} {shlex.quote(str(value))}" for name, value in (found.config or {}).items()]


def _wrapped(parts: Sequence[str]) -> str:
    """The program with its model, then one flag a line."""
    return " \\\n    ".join([" ".join(parts[:2]), *parts[2:]])


def _comment(request: Any) -> str:
    return f"# {json.dumps(request)}"
