"""Does every text survive the tokenizer, and are digits and indentation cut as promised?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data.tokenizer import load_tokenizer
from training.shapes import EOS_ID, EOS_TOKEN, VOCAB_SIZE

SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "models" / "specdec-target"
TOKENIZER = load_tokenizer(SHIPPED)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=80).filter(lambda text: EOS_TOKEN not in text))
def test_any_unicode_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids, skip_special_tokens=False) == text


def test_digits_stand_alone() -> None:
    tokens = TOKENIZER.encode("year 2026, price 1234.5").tokens
    assert [token for token in tokens if any(mark.isdigit() for mark in token)] == list("202612345")


def test_indentation_is_one_token() -> None:
    assert len(TOKENIZER.encode("\n        return").tokens) == 2
    assert len(TOKENIZER.encode("\n            return").tokens) == 2


def test_vocabulary_and_end_mark() -> None:
    assert TOKENIZER.get_vocab_size() == VOCAB_SIZE
    assert TOKENIZER.encode(EOS_TOKEN).ids == [EOS_ID]


def test_a_folder_without_tokenizer_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"No tokenizer at .*run the `tokenizer` stage first"):
        load_tokenizer(tmp_path)
