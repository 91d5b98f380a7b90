"""From token ids to text: pieces that join, characters split over tokens, names for everything."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.models.tokens.tokenizer import HubCodec, Pieces

from .tiny import tokenizer

TEXTS = [
    "the cat sat on the mat",
    "😀 and 👩‍👩‍👧‍👦!",
    "مرحبا بالعالم",
    "你好，世界。",
    "naïve café — “quoted” … ₂",
    "  leading and trailing  ",
    "a\n\n\tb\r\n",
    "�",
]


def _pieces(codec: HubCodec, prompt: list[int], ids: list[int]) -> list[str]:
    """The pieces of `ids` after `prompt`, as the loop collects them."""
    pieces = Pieces(codec, prompt)
    texts = [pieces.push(token) for token in ids]
    if texts:
        texts[-1] += pieces.rest()
    return texts


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("prompt", ["", "the dog", "é"], ids=ascii)
def test_pieces_join_to_the_text(text: str, prompt: str) -> None:
    """Token by token, with a tokenizer that splits emoji, Arabic and Chinese over up to four tokens. Catches: broken
    characters, lost leading spaces, a character shown twice."""
    codec = HubCodec(tokenizer())
    ids = codec.encode(text)
    assert "".join(_pieces(codec, codec.encode(prompt), ids)) == text
    if any(ord(character) > 0x7F for character in text):
        assert len(ids) > len(text), "the tokenizer splits no character, so this proves nothing"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.text(max_size=20))
def test_pieces_of_any_text_join_to_it(text: str) -> None:
    """As above, for any text that UTF-8 can hold."""
    codec = HubCodec(tokenizer())
    assert "".join(_pieces(codec, [], codec.encode(text))) == text


def test_pieces_of_random_tokens_join_to_their_decoding() -> None:
    """A model may write bytes that are no character at all; the pieces still join to what the tokenizer makes of the
    whole. Catches: a piece that waits for ever, or text that changes after it was shown."""
    codec = HubCodec(tokenizer())
    rng = random.Random(1)
    for _ in range(300):
        ids = [rng.randrange(2, len(tokenizer())) for _ in range(rng.randrange(1, 12))]
        assert "".join(_pieces(codec, [], ids)) == codec.decode(ids)


def test_the_piece_waits_for_the_last_byte_of_a_character() -> None:
    """😀 is four bytes: three empty pieces, then the character."""
    codec = HubCodec(tokenizer())
    ids = codec.encode("😀")
    assert len(ids) == 4
    assert _pieces(codec, [], ids) == ["", "", "", "😀"]


def test_an_unfinished_character_shows_its_mark_at_the_end() -> None:
    """The length limit can fall inside a character; its bytes must not vanish without a trace."""
    codec = HubCodec(tokenizer())
    assert _pieces(codec, [], codec.encode("a😀")[:3])[-1].startswith("�")


def test_names_of_tokens() -> None:
    """Text, bytes, special tokens, and ids without text. Catches: an empty label on screen."""
    codec = HubCodec(tokenizer())
    first_byte = codec.encode("😀")[0]
    known = len(tokenizer())
    space_the = codec.encode("x the")[-1]
    names = codec.names([space_the, first_byte, 0, 1, known, known + 500])
    assert names == [" the", "⟨0xF0⟩", "<s>", "</s>", f"⟨{known}⟩", f"⟨{known + 500}⟩"]
    assert codec.names([]) == []
    assert all(codec.names(range(known)))


def test_special_tokens_are_no_text() -> None:
    """The text of a run that ends with its end token ends before it."""
    codec = HubCodec(tokenizer())
    ids = [*codec.encode("the end"), 1]
    assert codec.decode(ids) == "the end"
    assert "".join(_pieces(codec, [], ids)) == "the end"
