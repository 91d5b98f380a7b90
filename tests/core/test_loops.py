"""Repeated text: by hand, against a definition written another way, and on recorded traces."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdec_core as sd
from specdec_measure import testing
from specdec_measure.records.repeats import RUN, Before, Loops, Span, find

ROOT = Path(__file__).resolve().parents[2]


def words(text: str) -> list[int]:
    """Token ids, one for each word and line break of a text."""
    table: dict[str, int] = {}
    return [table.setdefault(word, len(table)) for word in text.replace("\n", " \n ").split(" ") if word]


def spelled(ids: list[int]) -> list[str]:
    """A piece of text for each id, as a tokenizer would give."""
    return [f" w{id}" for id in ids]


def random_ids(count: int, seed: int, vocabulary: int = 5_000) -> list[int]:
    return random.Random(seed).choices(range(vocabulary), k=count)


def test_text_without_a_loop_has_no_span() -> None:
    """Catches: everything taken for a repeat, an error at the edges of short texts."""
    assert find(list(range(200))) == []
    for count in range(RUN + 1):
        assert find(list(range(count))) == []
    assert find([]) == []


def test_an_exact_loop_is_found_from_its_second_turn_on() -> None:
    """Catches: the first turn marked, a period that is a multiple of the true one, the end off by one."""
    turn = [7, 8, 9, 10, 11, 12]
    assert find(list(range(100, 120)) + turn * 15) == [Span(26, 110, 6)]
    assert find(turn * 15)[0].times == pytest.approx(15)


def test_one_token_repeated_is_a_loop_of_period_one() -> None:
    """Catches: a period of 1 that is not seen, or seen as 16."""
    assert find([1, 2, 3] + [9] * 60) == [Span(4, 63, 1)]
    assert find([1, 2, 3] + [9] * RUN) == []  # a separator line is none


def test_a_loop_that_ends_again_ends_there() -> None:
    """Catches: everything after a loop marked with it, a second loop that is merged into the first."""
    loop, more = [1, 2, 3, 4] * 10, list(range(50, 90))
    assert find(loop + more) == [Span(4, 40, 4)]
    assert find(loop + more + [5, 6] * 20) == [Span(4, 40, 4), Span(82, 120, 2)]


def test_a_long_turn_counts_before_it_has_ended() -> None:
    """Catches: repeats that are seen only once a whole long turn was said twice, which a short output never reaches."""
    turn = list(range(50))
    assert find(turn + turn[:30]) == [Span(50, 80, 50)]
    assert find(turn + turn[: RUN - 1]) == []


def test_changing_distances_are_no_period() -> None:
    """Catches: a period named where the distance to what is repeated changes."""
    one, other = list(range(20)), list(range(50, 70))
    [span] = find([*one, 90, *other, *one, *other])
    assert (span.start, span.end, span.period, span.times) == (41, 81, None, None)


def test_a_refrain_of_one_line_is_no_repeat() -> None:
    """Catches: verse and lists that share a phrase of less than RUN tokens taken for loops."""
    poem = words(
        "the rain came down upon the hill\nand all the birds were very still\noh rain go home and come no more\n"
        "the wind was high the night was deep\nand none of us could go to sleep\noh rain go home and come no more\n"
        "at dawn the sun looked over sea\nand shone on field and house and tree\noh rain go home and come no more\n"
    )
    assert find(poem) == []


def test_code_with_similar_lines_is_no_repeat() -> None:
    """Catches: methods that differ in a name taken for loops."""
    names = ["width", "height", "depth", "colour", "weight"]
    code = words(
        "\n".join(f"def get_ {name} ( self ) :\n return self . {name}\n" for name in names)
        + "\n".join(f"- a {name} is easy to find" for name in names)
    )
    assert find(code) == []


def test_a_copy_of_the_prompt_is_no_repeat() -> None:
    """Catches: a copy or an edit marked for what its prompt repeats; a loop over the prompt's text let pass."""
    verse, turn = list(range(100, 130)), list(range(20))
    original = [*turn, *verse, *turn, 99]
    prompt = "Copy:" + "".join(spelled(original)) + "\n"
    assert find(original, spelled(original), prompt) == []
    edited = [id if id != 110 else 7777 for id in original]
    assert find(edited, spelled(edited), prompt) == []
    assert find(original) == [Span(50, 70, 50)]  # without that prompt it repeats itself
    looped = turn * 5  # the prompt has it twice, not five times
    [span] = find(looped, spelled(looped), prompt)
    assert span.end == 100 and span.start <= 40


def test_the_prompt_is_compared_as_text() -> None:
    """Catches: a copy not recognised since its first token has a space that the prompt's line lacks; endless search
    for a text that is empty or nothing but spaces."""
    ids = list(range(RUN)) * 2
    texts = spelled(ids)
    line = "".join(texts[:RUN]).strip()
    assert find(ids, texts, f"{line}\n{line}") == []
    assert find(ids, texts, line) == [Span(RUN, 2 * RUN, RUN)]
    assert find([3] * 40, [""] * 40, "x") == [Span(1, 40, 1)]
    assert find([3] * 40, [" "] * 40, "a" + " " * 9) == [Span(1, 40, 1)]


def slow(ids: list[int]) -> set[int]:
    """The definition read word by word, with every pair of places compared."""
    marked = set()
    for later in range(len(ids) - RUN + 1):
        if any(ids[later : later + RUN] == ids[early : early + RUN] for early in range(later)):
            marked |= set(range(later, later + RUN))
    return marked


@given(
    st.lists(st.integers(0, 2), max_size=90),
    st.integers(1, 30),
    st.integers(0, 80),
    st.integers(0, 40),
)
def test_against_the_definition(ids: list[int], period: int, length: int, tail: int) -> None:
    """Catches: spans that overlap, touch or are out of order; any token marked that is none, or missed."""
    turn = list(range(10, 10 + period))
    text = ids + (turn * 81)[:length] + ids[:tail]
    spans = find(text)
    assert {at for span in spans for at in range(span.start, span.end)} == slow(text)
    assert all(a.end < b.start for a, b in pairwise(spans))
    for span in spans:
        if span.period is not None:
            assert text[span.start : span.end] == text[span.start - span.period : span.end - span.period]


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(RUN, 60), st.integers(0, 60))
def test_planted_loops_are_found_and_random_text_has_none(
    seed: int, period: int, repeated: int, after: int
) -> None:
    """Random text repeats 16 tokens of 5,000 with a chance below 1e-50. Catches: missed or shifted loops."""
    before, turn, rest = (
        random_ids(40, seed),
        random_ids(period, seed + 1),
        [5_000 + n for n in range(after)],
    )
    assert find(before + turn + rest) == []
    planted = before + (turn * 61)[: period + repeated] + rest
    spans = find(planted)
    assert len(spans) == 1
    assert (spans[0].start, spans[0].end) == (40 + period, 40 + period + repeated)


@given(st.lists(st.integers(0, 1), max_size=80))
def test_what_was_marked_stays_marked(ids: list[int]) -> None:
    """While a run goes on marks are only added. Catches: a mark that depends on what is written later."""
    marked: set[int] = set()
    for end in range(len(ids) + 1):
        now = {at for span in find(ids[:end]) for at in range(span.start, span.end)}
        assert marked <= now
        marked = now


def test_sentences() -> None:
    """Catches: a wrong count, "the last" of a span that is not, a period where there is none, τ without rounds."""
    assert Loops(128).sentence == "" and Loops(128).what == "" and Loops(0).share == 0.0
    assert Loops(128, (Span(38, 128, 6),)).sentence == "The last 90 of 128 tokens repeat the same 6 tokens."
    assert Loops(128, (Span(38, 127, 1),)).sentence == "89 of 128 tokens repeat the same token."
    long = Loops(94, (Span(51, 94, 51),), Before(45, 30))
    assert long.flatter(1.6) and not long.flatter(1.4), "repeats brought more tokens per pass, or fewer"
    assert Loops(128, (Span(38, 128, 6),)).flatter(1.0) and not Loops(128).flatter(9.0)
    assert long.sentence == (
        "The last 43 of 94 tokens repeat earlier text word for word. "
        "Before the first repeat: 1.50 tokens per pass."
    )
    two = Loops(200, (Span(20, 40, 6), Span(60, 80, None)))
    assert two.sentence == "40 of 200 tokens, in 2 places, repeat earlier text word for word."
    assert two.share == pytest.approx(0.2)


def looping(context: tuple[int, ...]) -> list[float]:
    """Seven letters: 0 to 5 in turn from 20 tokens on, before that a walk that never repeats 16 tokens."""
    at = len(context) - 1  # one token of prompt
    letter = (at * at * 3 + at // 3) % 7 if at < 20 else at % 6
    return [1.0 if token == letter else 0.0 for token in range(7)]


def wrong(context: tuple[int, ...]) -> list[float]:
    """A draft that is right only in the loop."""
    letter = (looping(context).index(1.0) + (1 if len(context) < 27 else 0)) % 7
    return [1.0 if token == letter else 0.0 for token in range(7)]


def test_a_trace_says_what_repeats_and_what_came_before() -> None:
    """Against the script. Catches: tokens of the loop in τ before it, a trace without rounds that invents one."""
    models = testing.scripted(looping, wrong)
    settings = sd.Settings(max_new_tokens=80, draft_length=4)
    trace = sd.decode(models, [0], settings)
    found = trace.loops()
    assert found.spans == (Span(26, 80, 6),)
    assert found.tokens == 80 and found.repeated == 54
    assert found.before is not None
    assert found.before.tokens_per_pass == 1.0  # the draft was wrong until then
    assert (trace.stats.tokens_per_pass or 0.0) > 2
    assert "Before the first repeat: 1.00 tokens per pass." in found.sentence
    again = sd.Trace.from_json(trace.to_json()).loops()
    assert again == found
    bare = sd.decode(models, [0], settings.but(record="off")).loops()
    assert bare.spans == found.spans and bare.before is None


@pytest.mark.parametrize(
    ("name", "spans"),
    [
        ("oracle", [(13, 56, 13)]),
        ("slower", [(17, 56, 17)]),
        ("wide-tree", [(17, 40, 17)]),
        ("welcome", []),
        ("prompt-lookup", []),
    ],
)
def test_recorded_traces(name: str, spans: list[tuple[int, int, int]]) -> None:
    """As read by a person. Catches: a copy of the prompt marked (prompt-lookup), loops of old traces missed."""
    trace = sd.Trace.from_json((ROOT / "assets" / "traces" / f"{name}.json").read_bytes())
    assert [(span.start, span.end, span.period) for span in trace.loops().spans] == spans
