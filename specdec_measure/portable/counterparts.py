"""Each proposer in other programs: what asks for it in transformers' `generate` and in vLLM's `speculative_config`.

A proposer without an entry has no counterpart there. The names are those of transformers 5.24 and vLLM 0.32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specdec_core.proposers import proposer_class
from specdec_core.settings import Settings


@dataclass(slots=True)
class Counterpart:
    """The equivalent proposer of another program.

    Attributes:
        arguments: how it is requested there: arguments of `generate`, or vLLM's `speculative_config`.
        missing: sentences on what cannot be expressed there.
        drafts: whether a model drafts there, so that the draft length is set on the draft.
        tokenizers: whether `generate` needs both models' tokenizers (transformers).
        rule: the acceptance rule there above temperature 0; None where nothing is judged.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    drafts: bool = False
    tokenizers: bool = False
    rule: str | None = "speculative-sampling"


def in_transformers(settings: Settings, layers: int | None = None) -> Counterpart | None:
    """The settings' proposer in `generate`; None where there is none. `layers`: the target's, if known."""
    if settings.proposer == "early-exit":
        return _early_exit(settings, layers)
    make = _IN_TRANSFORMERS.get(settings.proposer)
    return make(settings) if make else None


def in_vllm(settings: Settings, draft: str | None = None) -> Counterpart | None:
    """The settings' proposer in vLLM; None where there is none. `draft` is the draft model's name, if known."""
    make = _IN_VLLM.get(settings.proposer)
    return make(settings, draft) if make else None


def _plain(settings: Settings, draft: str | None = None) -> Counterpart:
    return Counterpart(rule=None)


def _options(settings: Settings) -> Any:
    return proposer_class(settings.proposer).read_options(settings)


def _early_exit(settings: Settings, layers: int | None) -> Counterpart:
    layer = _options(settings).layer
    found = Counterpart({"assistant_early_exit": layer or max(1, (layers or 3) // 3)}, drafts=True)
    if not layer and layers is None:
        found.missing.append("A third of the layers: put that number in place of assistant_early_exit.")
    return found


def _lookup(settings: Settings) -> Counterpart:
    options = _options(settings)
    found = Counterpart(
        {"prompt_lookup_num_tokens": settings.draft_length, "max_matching_ngram_size": options.max_ngram},
        rule="token-matching",
    )
    if options.match != "first":
        found.missing.append(
            f"match = {options.match}: transformers takes the first match in the text and copies what follows it."
        )
    return found


def _other_tokenizer(greedy: bool, words: str) -> Callable[[Settings], Counterpart]:
    """A draft with another tokenizer, with what differs at temperature 0, or above it."""

    def make(settings: Settings) -> Counterpart:
        differs = (settings.temperature == 0) == greedy
        return Counterpart(drafts=True, tokenizers=True, missing=[words] if differs else [])

    return make


_IN_TRANSFORMERS: dict[str, Callable[[Settings], Counterpart]] = {
    "none": _plain,
    "draft-model": lambda _: Counterpart(drafts=True),
    "prompt-lookup": _lookup,
    "shared-tokens": _other_tokenizer(
        True, "Drafting by shared tokens at temperature 0: transformers then splits the draft's text anew."
    ),
    "text-draft": _other_tokenizer(
        False,
        "Drafting by text at a temperature: transformers then guesses tokens that both vocabularies have.",
    ),
}


def _draft_model(settings: Settings, draft: str | None) -> Counterpart:
    found = Counterpart(
        {
            "method": "draft_model",
            "model": draft or "the draft model",
            "num_speculative_tokens": settings.draft_length,
        }
    )
    if settings.temperature > 0 and settings.rule != "token-matching":
        found.arguments["draft_sample_method"] = "probabilistic"
    elif settings.temperature > 0:
        found.missing.append(
            "Drawn guesses: here the draft draws its tokens; there it takes the most likely, and vLLM's rule is "
            "token matching."
        )
    return found


def _shared_tokens(settings: Settings, draft: str | None) -> Counterpart:
    found = _draft_model(settings, draft)
    found.arguments["use_heterogeneous_vocab"] = True
    if found.arguments.pop("draft_sample_method", None):  # vLLM does not start with both
        found.missing.append(
            "Drawn guesses: of a draft with another vocabulary vLLM takes the most likely ones."
        )
    return found


def _parallel_draft(settings: Settings, draft: str | None) -> Counterpart:
    arguments = {
        "method": "draft_model",
        "model": draft or "the draft model",
        "num_speculative_tokens": settings.draft_length,
        "parallel_drafting": True,
    }
    return Counterpart(arguments)


def _n_gram(settings: Settings, draft: str | None) -> Counterpart:
    options = _options(settings)
    found = Counterpart(
        {
            "method": "ngram",
            "num_speculative_tokens": settings.draft_length,
            "prompt_lookup_max": options.max_ngram,
            "prompt_lookup_min": 1,
        }
    )
    if options.match != "first":
        found.missing.append(
            f"match = {options.match}: vLLM copies what follows the first of the longest matches from the left."
        )
    return found


def _suffix(settings: Settings, draft: str | None) -> Counterpart:
    options = _options(settings)
    found = Counterpart(
        {
            "method": "suffix",
            "num_speculative_tokens": options.nodes,
            "suffix_decoding_max_spec_factor": options.factor,
            "suffix_decoding_min_token_prob": options.least,
        }
    )
    if not options.earlier:
        found.arguments["suffix_decoding_max_cached_requests"] = 0  # else it searches earlier answers too
    found.missing.append("It needs the package arctic-inference (0.1.1 with vLLM 0.32).")
    if options.shape == "chain":
        found.missing.append("shape = chain: vLLM guesses another token than this decoder in some rounds.")
    if options.shape == "tree":
        found.missing.append("shape = tree: vLLM proposes the most frequent continuation, a chain.")
    if options.earlier:
        found.missing.append("earlier: vLLM searches the answers of the requests it has served before.")
    return found


def _medusa(settings: Settings, draft: str | None) -> Counterpart:
    return Counterpart(
        {"method": "medusa", "model": "path/to/medusa-heads", "num_speculative_tokens": 4},
        [
            "The tree: vLLM checks a chain of each head's first guess; set as many tokens as heads.",
            "Medusa heads as they ship here: vLLM 0.32 wants hidden_size, medusa_fc_bias and original_lm_head in "
            "their config and the target's output matrix as lm_heads.0.weight; without it, it guesses noise.",
        ],
    )


def _head(method: str, model: str | None, *missing: str) -> Callable[[Settings, str | None], Counterpart]:
    """A head that grows a tree here; `model` is None where it is a part of the target's files."""

    def make(settings: Settings, draft: str | None) -> Counterpart:
        named = {} if model is None else {"model": model}
        arguments = {"method": method, **named, "num_speculative_tokens": _options(settings).depth}
        return Counterpart(arguments, ["top_k and nodes: vLLM checks a chain of guesses, no tree.", *missing])

    return make


_IN_VLLM: dict[str, Callable[[Settings, str | None], Counterpart]] = {
    "none": _plain,
    "draft-model": _draft_model,
    "parallel-draft": _parallel_draft,
    "shared-tokens": _shared_tokens,
    "prompt-lookup": _n_gram,
    "suffix": _suffix,
    "medusa": _medusa,
    "eagle": _head(
        "eagle",
        "path/to/eagle-head",
        "An EAGLE head as it ships here: vLLM 0.32 wants architectures in its config, drops fc.bias (with the key "
        "bias its guesses are noise) and has no place for norms or a smaller vocabulary. Train one without these.",
    ),
    "eagle3": _head("eagle3", "path/to/eagle3-head"),
    "mtp": _head(
        "mtp",
        None,
        "MTP modules in files of their own: vLLM has them only in the target's, of types that have them.",
    ),
}
