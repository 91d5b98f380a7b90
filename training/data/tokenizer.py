"""How is text cut into tokens? Trains, saves and loads the byte-level BPE both models share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training.shapes import EOS_ID, EOS_TOKEN, MAX_POSITIONS, VOCAB_SIZE


def train_tokenizer(texts: Iterable[str], vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """Train a byte-level BPE on `texts` (str documents); returns a tokenizer with ids 0 to vocab_size - 1.

    Digits are separate tokens, so numbers of equal length have equally many tokens. Runs of spaces (and a
    newline with its indentation) stay whole before merging, so Python indentation becomes single tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, loadable with `AutoTokenizer`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": EOS_TOKEN,
        "eos_token": EOS_TOKEN,
        "pad_token": EOS_TOKEN,
        "clean_up_tokenization_spaces": False,
        "model_max_length": MAX_POSITIONS,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer saved in `folder`; a clear error where there is none or its EOS is not id 0."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"No tokenizer at {path}: run the `tokenizer` stage first.")
    tokenizer = Tokenizer.from_file(str(path))
    if tokenizer.token_to_id(EOS_TOKEN) != EOS_ID:
        raise ValueError(
            f"{path} has no {EOS_TOKEN} with id {EOS_ID}: it is not a tokenizer of this project."
        )
    return tokenizer
