"""What Python code hands over as loaded, where a name may have been meant."""

from __future__ import annotations

from specdec_core.foundations.errors import ModelError, kind_of


def check_loaded(tokenizer: object, target: object, *drafts: object) -> None:
    """Refuse what transformers has not loaded; of the drafts any may be None.

    Raises:
        ModelError: one sentence.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    models = (target, *(draft for draft in drafts if draft is not None))
    wanted = [
        ("tokenizer", tokenizer, PreTrainedTokenizerBase),
        *(("model", one, PreTrainedModel) for one in models),
    ]
    for what, given, kind in wanted:
        if not isinstance(given, kind):
            raise ModelError(
                f"A {what} is one that transformers has loaded, got {kind_of(given)}. load_models() takes names."
            )
