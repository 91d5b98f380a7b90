"""Repeated text in the ribbon: the marks are those of the core, at every place of the cursor, live and replayed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from specdec_measure.records.repeats import find
from tests.player.conftest import COMMITTED, SERIALISED, Server, open_player, stop_at
from tests.player.samples import NUMBERS, Plan, plain_trace, spec_trace
from tests.player.test_live import _steps

pytestmark = pytest.mark.browser

# For every length of a text: which of its tokens repeat, how many, and whether `first` leaves out no change.
MARKED = """async ([ids, texts, prompt]) => {
  const { createRepeats } = await import("/player/model/repeats.js");
  const found = createRepeats(prompt);
  ids.forEach((id, at) => found.add(id, texts[at]));
  const at = (length) => ids.slice(0, length).map((_, token) => found.marked(token, length));
  const all = [...ids.keys(), ids.length].map(at);
  const counts = all.map((_, length) => found.count(length));
  const missed = all.some((one, length) => all.some((other, further) => {
    const first = one.findIndex((marked, token) => token < other.length && marked !== other[token]);
    return first >= 0 && first < found.first(length, further);
  }));
  return { all, counts, missed };
}"""
AGAIN = "() => [...shadow.querySelectorAll('.leads .tok')].map(token => token.classList.contains('again'))"
TURN = [" The", " quick", " fox", " add", " cat", " mat"]


def looping_plans() -> list[Plan]:
    """Seven words, then the same six ones again and again; the last round is the first of another text."""
    first = Plan([("def", 0.1, 0.8, 0.7)], "(a")
    words = ["return", ".", "\\n"]
    turn = Plan([(word, 0.9, 0.5, 0.1) for word in TURN[:5]], TURN[5])
    end = Plan([(", b", 0.9, 0.5, 0.1)], "):")
    middle = [Plan([], word) for word in (" \\n", *words[:2], ", b")]
    return [first, *middle, *[turn] * 6, end]


def marked(ids: list[int], texts: list[str], prompt: str) -> list[bool]:
    found = [False] * len(ids)
    for span in find(ids, texts, prompt):
        found[span.start : span.end] = [True] * span.size
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_player_finds_what_the_core_finds(page: Page, seed: int) -> None:
    """At every length of hard texts. Catches: two definitions that differ; a mark that is not taken back."""
    rng = random.Random(seed)
    turn = [rng.randrange(6) for _ in range(rng.choice([1, 2, 5, 17, 30]))]
    ids = rng.choices(range(3), k=30) + turn * (70 // len(turn)) + rng.choices(range(9), k=9) + turn * 3
    texts = [f" w{id}" for id in ids]
    prompt = "".join(texts[30:75]) if seed % 2 else ""
    found = page.evaluate(MARKED, [ids, texts, prompt])
    for length, tokens in enumerate(found["all"]):
        expected = marked(ids[:length], texts[:length], prompt)
        assert tokens == expected, length
        assert found["counts"][length] == sum(expected)
    assert any(found["all"][-1]) and not found["missed"]


def test_repeated_tokens_are_marked_named_and_counted(page: Page, server: Server) -> None:
    """Catches: the first turn marked, a mark by colour alone, a label in the committed text, a mark that stays when
    another run is shown."""
    trace = spec_trace(looping_plans())
    server.files["/traces/spec.json"] = trace.to_json()
    expected = marked(trace.output.ids, trace.output.texts, trace.header.prompt)
    assert sum(expected) == 30 and len(expected) == 43
    open_player(page)
    assert page.evaluate(AGAIN) == expected
    assert page.evaluate(COMMITTED, 1) == trace.text
    note = page.locator(".leads .loop")
    expect(note).to_have_count(1)
    assert "repeats itself word for word" in (note.get_attribute("aria-label") or "")
    after = "() => shadow.querySelector('.leads .loop + *').matches('.tok.again, .spot:has(.again)')"
    assert page.evaluate(after)
    line = "() => getComputedStyle(shadow.querySelector('.leads .again')).textDecorationLine"
    assert page.evaluate(line) == "overline"
    expect(page.locator(".leads .repeated")).to_have_text("30 of 43 repeat")
    expect(page.locator(".lane:not(.leads) .repeated")).to_have_text("")
    expect(page.locator(".speedup-words")).to_contain_text("; 30 of 43 tokens repeat")
    expect(page.locator(".legend [data-verdict=again]")).to_be_visible()
    server.files["/traces/other.json"] = spec_trace().to_json()
    open_player(page, traces=[{"label": "Other", "url": "/traces/other.json"}])
    expect(page.locator(".lanes").locator(".loop, .again")).to_have_count(0)
    expect(page.locator(".speedup-words")).not_to_contain_text("repeat")
    expect(page.locator(".legend [data-verdict=again]")).to_be_hidden()


def test_marks_come_and_go_with_the_cursor(page: Page, server: Server) -> None:
    """Forth and back, by jumps too. Catches: a mark known only from what comes later, one that is left behind, a page
    that depends on the way to it."""
    trace = spec_trace(looping_plans())
    server.files["/traces/spec.json"] = trace.to_json()
    ends = [0]
    for row in trace.rounds:
        ends.append(ends[-1] + len(row.committed.token))
    open_player(page, cursor={"round": 0, "node": None})
    seen = []
    for stop, end in enumerate(ends):
        stop_at(page, stop)
        ids, texts = trace.output.ids[:end], trace.output.texts[:end]
        assert page.evaluate(AGAIN) == marked(ids, texts, trace.header.prompt), stop
        seen.append(page.evaluate(SERIALISED))
    jumps = [3, 11, 0, 9, 10, 8, 9, 12, *reversed(range(len(ends)))]
    for stop in jumps:
        stop_at(page, stop)
        assert page.evaluate(SERIALISED) == seen[stop], f"stop {stop}"


def test_a_live_run_is_marked_as_its_replay_is(page: Page, server: Server) -> None:
    """Catches: a run that is marked only once it is over, steps whose ids are lost."""
    trace = spec_trace(looping_plans())
    server.files["/traces/spec.json"] = trace.to_json()
    started: dict[str, Any] = {
        "type": "started", "lane": 0, "proposer": "draft-model", "rule": "speculative-sampling", "prompt_tokens": 3,
        "prefill_s": 0.01, "label": "Draft model",
    }  # fmt: skip
    said = [started, *_steps(0, trace)]
    server.streams["/runs/a/events"] = lambda last: list(enumerate(said))[last + 1 :]
    open_player(page, mode="live", events="/runs/a/events", traces=[], prompt=trace.header.prompt)
    expect(page.locator(".lane .again")).to_have_count(30)
    expect(page.locator(".lane .repeated")).to_have_text("30 of 43 repeat")
    assert not page.evaluate(
        "() => shadow.querySelector('.lane').closest('.player').matches(':not(.is-live)')"
    )


def test_a_copy_of_the_prompt_is_not_marked(page: Page, server: Server) -> None:
    """Catches: copies and edits marked as loops."""
    trace = spec_trace(looping_plans())
    trace.header.prompt = "Say: " + "".join(TURN) * 6
    server.files["/traces/spec.json"] = trace.to_json()
    open_player(page)
    assert page.evaluate(AGAIN) == [False] * 43


def test_a_text_without_its_rounds_is_counted(page: Page, server: Server) -> None:
    """Catches: a loop that is not named where only the text was recorded."""
    trace = plain_trace()
    words = [NUMBERS[word] for word in TURN * 5]
    trace.rounds = []
    trace.output.ids, trace.output.texts = words, TURN * 5
    trace.output.text = "".join(TURN * 5)
    trace.output.offsets = [len("".join((TURN * 5)[:at])) for at in range(30)]
    server.files["/traces/bare.json"] = trace.to_json()
    open_player(page, traces=[{"label": "Plain", "url": "/traces/bare.json"}])
    expect(page.locator(".repeated")).to_have_text("24 of 30 repeat")
