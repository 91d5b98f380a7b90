"""The seven lessons about who guesses: their facts against direct constructions, their pictures, their answers."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.course import progress
from app.course.drawing import rows
from app.course.facts import functions, proposers
from app.course.facts.recorded import trace
from app.course.files import reading
from app.course.files.words import Words
from app.course.live import measured, replay
from app.course.pictures.costs import by_text, length_surface, plane
from app.course.pictures.runs import heads, lookup, window
from specdec_core.proposers.heads.medusa_tree import arranged

LESSONS = ("blind", "lookup", "lookahead", "draft-model", "early-exit", "medusa", "eagle")
ROOT = Path(__file__).resolve().parents[2]
WORDS = Words("en", reading.FOLDER)


@pytest.fixture(scope="module")
def card() -> dict:
    return json.loads((ROOT / "assets/models/measurements.json").read_text(encoding="utf-8"))


def lesson(key: str):
    found, problems = reading.read("en", key)
    assert not problems, [str(problem) for problem in problems]
    assert found is not None
    return found


# --- facts -------------------------------------------------------------------------------------------------------


def test_every_fact_is_offered_to_the_lessons() -> None:
    known = functions()
    assert all(known[name] is getattr(proposers, name) for name in proposers.__all__)


def test_the_measured_figures_are_those_of_the_file(card: dict) -> None:
    code = card["figures"]["groups"]["code"]["lanes"]["draft-model"]
    assert proposers.family_alpha("draft-model", "code") == code["alpha"]
    assert proposers.family_tokens("draft-model", "code") == code["tokens_per_pass"]
    assert proposers.family_speedup("draft-model", "code") == code["speedup"]
    cost = proposers.family_cost("draft-model", "code")
    assert code["tokens_per_pass"] / (1 + 4 * cost) == pytest.approx(code["speedup"])
    exits = card["figures"]["exits"]
    best = max(exits, key=lambda layer: exits[layer]["speedup"])
    assert proposers.exit_best() == int(best)
    assert proposers.exit_alpha(int(best)) == exits[best]["alpha"]
    assert 1 + 4 * proposers.exit_cost(int(best)) == pytest.approx(
        exits[best]["tokens_per_pass"] / exits[best]["speedup"]
    )
    assert proposers.family_million("draft-large") == card["parameters"]["draft-large"] / 1e6
    curve = card["figures"]["curves"]["usual"]
    times = dict(zip(curve["widths"], curve["seconds"], strict=True))
    assert proposers.width_ratio(5) == pytest.approx(times[5] / times[1])
    assert proposers.width_ratio(4) == pytest.approx((times[3] + times[5]) / 2 / times[1])
    config = json.loads((ROOT / "assets/models/specdec-target/config.json").read_text(encoding="utf-8"))
    assert proposers.exit_share(3) == 3 / config["num_hidden_layers"]


@pytest.mark.parametrize(
    ("change", "ask", "message"),
    [
        (
            lambda c: c["figures"]["groups"].pop("code"),
            lambda: proposers.family_best("code"),
            "no prompts “code”",
        ),
        (
            lambda c: c["figures"]["groups"]["code"]["lanes"].pop("draft-model"),
            lambda: proposers.family_alpha("draft-model", "code"),
            "no “draft-model” for “code”",
        ),
        (lambda c: None, lambda: proposers.family_alpha("medusa", "code"), "only chains have one"),
        (
            lambda c: c["figures"]["exits"].pop("3"),
            lambda: proposers.exit_cost(3),
            "no early exit after 3 layers",
        ),
        (
            lambda c: c["parameters"].pop("draft"),
            lambda: proposers.family_million("draft"),
            "knows no model “draft”",
        ),
        (lambda c: c["figures"]["curves"].clear(), lambda: proposers.width_ratio(5), "no width curve"),
        (lambda c: c.pop("figures"), lambda: proposers.family_best("code"), "is not as it should be"),
        (
            lambda c: c["figures"]["groups"]["code"]["lanes"]["medusa"].update(speedup=-1),
            lambda: proposers.family_best("code"),
            "is not as it should be",
        ),
    ],
)
def test_a_figure_that_is_missing_gets_a_sentence(
    card: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change, ask, message: str
) -> None:
    changed = json.loads(json.dumps(card))
    change(changed)
    path = tmp_path / "measurements.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    monkeypatch.setattr(measured, "MEASUREMENTS", path)
    with pytest.raises(ValueError, match=message) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_without_the_file_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MEASUREMENTS", tmp_path / "measurements.json")
    with pytest.raises(ValueError, match=r"measurements\.json is missing"):
        proposers.family_best("code")


def test_blind_rates_are_what_counting_the_text_gives() -> None:
    found = trace("none")
    assert proposers.blind_rate("uniform", "none") == 1 / found.header.vocabulary
    text = found.header.prompt_ids + found.token_ids
    begin = len(found.header.prompt_ids)
    for guess in ("repeat-last", "unigram"):
        accepted = judged = 0
        at = begin
        while at < len(text):  # plain rounds: guess four, keep those that agree, write one
            before = text[:at]
            commonest = min(set(before), key=lambda token: (-before.count(token), token))
            token = before[-1] if guess == "repeat-last" else commonest
            room = min(4, len(text) - at - 1)
            kept = 0
            while kept < room and text[at + kept] == token:
                kept += 1
            accepted, judged = accepted + kept, judged + kept + (kept < room)
            at += kept + 1
        assert proposers.blind_rate(guess, "none") == pytest.approx(accepted / judged), guess


def counted(first: list[int]) -> int:
    """Passes of a target that counts on from 6, by hand: row by row, each place from the one before it."""
    row, passes, certain = first, 0, 0
    while certain < len(row):
        new = [7, *(value + 1 for value in row[:-1])]
        same = 0
        while same < len(row) and row[same] == new[same]:
            same += 1
        row, passes, certain = new, passes + 1, min(len(row), same + 1)
    assert row == [7 + at for at in range(len(row))]
    return passes


def test_jacobi_passes_are_those_counted_by_hand() -> None:
    for size in (2, 5, 8):
        right = [7 + at for at in range(size)]
        half = [5 if at % 2 else token for at, token in enumerate(right)]
        assert proposers.jacobi_passes("count", "wrong", size) == counted([5] * size) == size
        assert proposers.jacobi_passes("count", "half", size) == counted(half)
        assert proposers.jacobi_passes("count", "right", size) == counted(right) == 1
    assert proposers.jacobi_passes("list", "half") < proposers.jacobi_passes("list", "wrong") <= 5
    for pattern, guess, positions in (("rhyme", "wrong", 5), ("count", "lucky", 5), ("count", "wrong", 0)):
        with pytest.raises(ValueError, match="Rows are of count, list"):
            rows.rows(pattern, guess, positions)


def test_the_window_s_mask_is_the_published_one() -> None:
    for levels, columns in ((2, 5), (4, 3)):
        for level in range(levels):
            for column in range(columns):
                lit = rows.seen(level, column, columns, levels)
                for row in range(levels):
                    for at in range(columns):
                        base = row == 0 and at <= column
                        own = at == column and row <= level
                        assert lit[row][at] == (base or own), (level, column, row, at)
                assert proposers.window_sees(level, column, columns, levels) == column + 1 + level
    with pytest.raises(ValueError, match="no cell"):
        rows.seen(2, 0, 5, 2)


def children_of(example: str):
    """Per round {node: first child's token} of what the target saw, and the nodes, built from the JSON alone."""
    content = json.loads((ROOT / f"assets/traces/{example}.json").read_text(encoding="utf-8"))
    for row in content["rounds"]:
        nodes = row["nodes"]
        first: dict[int, int] = {}
        for at in range(len(nodes["token"])):
            if nodes["verdict"][at] not in ("pruned", "discarded"):
                first.setdefault(nodes["parent"][at], nodes["token"][at])
        first.pop(-1, None)
        yield first, nodes


@pytest.mark.parametrize("example", ["medusa", "eagle"])
def test_branches_alike_is_what_the_record_says(example: str) -> None:
    same = pairs = 0
    shapes = set()
    for first, nodes in children_of(example):
        for one in first:
            for other in first:
                beside = one < other and nodes["depth"][one] == nodes["depth"][other]
                if beside and nodes["token"][one] != nodes["token"][other]:
                    pairs, same = pairs + 1, same + (first[one] == first[other])
        sent = [at for at, verdict in enumerate(nodes["verdict"]) if verdict not in ("pruned", "discarded")]
        if sent:
            shapes.add(tuple(nodes["parent"][at] for at in sent))
    assert proposers.forks(example) == pairs > 10
    assert proposers.branches_alike(example) == same / pairs
    assert proposers.tree_shapes(example) == len(shapes)


def test_what_medusa_guesses_below_a_token_hangs_on_the_rank_alone() -> None:
    """The heads' tree in the core: a node's token is its head's guess of that rank, whatever stands above it."""
    for _, nodes in children_of("medusa"):
        by_choice: dict[tuple[int, ...], int] = {}
        ranks: dict[int, tuple[int, ...]] = {-1: ()}
        families: dict[int, int] = {}
        for at, parent in enumerate(nodes["parent"]):
            if nodes["verdict"][at] in ("pruned", "discarded"):
                continue
            ranks[at] = (*ranks[parent], families.get(parent, 0))
            families[parent] = families.get(parent, 0) + 1
            by_choice[ranks[at]] = nodes["token"][at]
        said = {}
        for choice in arranged(by_choice):
            assert said.setdefault((len(choice), choice[-1]), by_choice[choice]) == by_choice[choice]


# --- pictures ----------------------------------------------------------------------------------------------------


def test_a_text_written_again_follows_its_own_tokens() -> None:
    found = replay.written((3, 1, 2, 3), (1, 2, 9, 9), "prompt-lookup", 4, max_ngram=3)
    assert not found.audit()
    assert found.stats.tokens == 4
    assert found.stats.accepted == 2  # after 3 stood 1, 2


def test_lookup_finds_copies_that_are_really_there() -> None:
    for sample in ("edit", "code", "poem"):
        read, write = WORDS(f"lookup.read-{sample}"), WORDS(f"lookup.write-{sample}")
        found = lookup.run(read, write, 3, 8)
        words = [piece.strip() for piece in (*found.read, *found.written)]
        assert "".join(found.read) == read
        assert "".join(found.written) == write
        for copy in found.copies:
            assert (
                words[copy.source : copy.source + copy.passed]
                == words[copy.target : copy.target + copy.passed]
            )
            before = slice(copy.source - copy.matched, copy.source)
            assert words[before] == words[copy.target - copy.matched : copy.target]
        assert found.passes == len(found.written) - sum(copy.passed for copy in found.copies)
    assert not any(copy.passed for copy in found.copies)  # nothing in the poem stands in its prompt


def test_lookup_shows_text_as_text() -> None:
    found = lookup.run("<b>one two</b>", "<b>one two</b> <script>", 3, 8)
    assert "<b>" not in lookup.shown(found, WORDS)
    assert "<script" not in lookup.shown(found, WORDS)
    assert lookup.shown(found, WORDS).count("&lt;") == 5
    chart = lookup.arcs(found, WORDS, "exact")
    assert len(chart.figure.data) == len(found.copies)


def test_the_plane_s_dots_stand_where_they_were_measured(card: dict) -> None:
    given = plane.With(drafters=["draft-model", "exits", "blind uniform"])
    assert given.drafters[1:-1] == [f"exit {layer}" for layer in sorted(map(int, card["figures"]["exits"]))]
    found = [plane.dot(name, "code", 4) for name in given.drafters]
    for each in found[:-1]:
        # α and cost are measured; the formula with the counted tokens gives back the measured speedup.
        cell = card["figures"]["exits"].get(each.name.removeprefix("exit "))
        cell = cell or card["figures"]["groups"]["code"]["lanes"][each.name]
        assert each.alpha == cell["alpha"]
        assert cell["tokens_per_pass"] / (1 + 4 * each.cost) == pytest.approx(each.measured)
    assert found[-1].alpha == 1 / trace("blind").header.vocabulary
    chart = plane.chart(found, found[0], 4, WORDS)
    dots = [each for each in chart.figure.data if each.type == "scatter" and each.mode == "markers+text"]
    assert sum(len(each.x) for each in dots) == len(found)
    costs, rates, speeds = plane.surface(4, 0.5, 1.0)
    at, to = 30, 20
    alpha, cost = rates[at], costs[to]
    assert speeds[at][to] == pytest.approx((1 - alpha**5) / (1 - alpha) / (1 + 4 * cost))
    for cost, alpha in plane.alike(1.5, 4, 0.5, 1.0):
        assert sum(alpha**k for k in range(5)) / (1 + 4 * cost) == pytest.approx(1.5, abs=2e-3)
    assert len(plane.alike(1.5, 4, 0.5, 1.0)) == plane.STEPS + 1
    for name in given.drafters:
        assert plane.summary(plane.dot(name, "code", 4), 4, WORDS)


def test_the_texts_that_were_asked_about_are_the_ones_shown(card: dict) -> None:
    """Catches: a picture that answers for one text of four."""
    found = lesson("lookup")
    given = by_text.With.model_validate(found.front.watch.given)
    shown = by_text.bars(given, WORDS)
    above = {group: tokens_of(card, group) > given.level for group in given.groups}
    for group in given.groups:
        assert f"{tokens_of(card, group):.2f} {'▲' if above[group] else '▼'}" in shown
    assert len(above) == len(found.sections["predict"].items)
    (right,) = found.right["predict"]
    assert sum(above.values()) == 1 + list(found.sections["predict"].items).index(right)
    asked = re.findall(r"\(([A-D])\) [^,]*(edit|summar|stor|one|poem)", found.sections["predict"].prose)
    assert [letter for letter, _ in asked] == re.findall(r"\(([A-D])\) ", shown) == list("ABCD")
    assert given.groups == ["verbatim edits", "summary", "story", "poem, temperature 1"]
    assert "temperature one" in found.sections["predict"].prose and "temperature 1" in shown


def tokens_of(card: dict, group: str) -> float:
    return float(card["figures"]["groups"][group]["lanes"]["prompt-lookup"]["tokens_per_pass"])


@pytest.mark.parametrize("wrong", [{"drafters": ["medusas"]}, {"drafters": ["exit 99"]}, {"drafters": []}])
def test_the_plane_refuses_what_was_not_measured(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"no “medusas”|no early exit after 99|at least 1"):
        plane.With(**wrong)
    with pytest.raises(ValueError, match="does not guess in every round"):
        plane.With(drafters=["prompt-lookup"])
    with pytest.raises(ValueError, match="no prompts “prose”"):
        plane.With(drafters=["draft-model"], groups=["prose"])


def test_the_lists_below_medusa_s_guesses_begin_alike_and_eagle_s_do_not() -> None:
    beginnings = {}
    for example in ("medusa", "eagle"):
        found = trace(example)
        assert heads.forked(found)
        counts = [
            heads.beginnings(below)
            for at in heads.forked(found)
            for depth, below in heads.levels(found, found.rounds[at])
            if depth == 2
        ]
        beginnings[example] = max(counts)
        shown = heads.lists(found, found.rounds[heads.forked(found)[0]], example, WORDS)
        assert shown.count("<section") >= 2
    assert beginnings["medusa"] == 1 < beginnings["eagle"]
    with pytest.raises(ValueError, match="no tree of the example “draft-model”"):
        heads.With(examples=["draft-model"])


def test_the_window_shows_the_rows_and_the_mask() -> None:
    found = rows.rows("count", "wrong", 5)
    shown = window.table(found, WORDS)
    assert shown.count("<td class='certain'>") == sum(certain for _, certain in found)
    masked = window.mask(1, 3, 5, 2, WORDS)
    assert masked.count("<td class='seen'>") + masked.count("<td class='self'>") == 5
    assert masked.count("<td class='self'>") == 1


def test_every_name_that_the_pictures_show_is_in_the_catalogue() -> None:
    names = ["prompt-lookup", "draft-model", "draft-model, larger", "early-exit", "exit 3", "blind unigram"]
    assert all(plane.title(name, WORDS) for name in [*names, "blind uniform", "blind repeat-last"])
    assert measured.name("text", "verbatim edits", WORDS) != "verbatim edits"


# --- lessons -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", LESSONS)
def test_the_lesson_can_be_given(key: str) -> None:
    found = lesson(key)
    assert found.number.startswith("7")
    assert found.front.gallery
    assert len(found.right["check"]) == 1


def test_blind_guessing_is_judged_by_its_recording() -> None:
    rounds = {}
    for lane in ("blind-plain", "blind"):
        content = json.loads((ROOT / f"assets/traces/{lane}.json").read_text(encoding="utf-8"))
        stats = content["stats"]
        rounds[lane] = (stats["draft_s"] + stats["verify_s"] + stats["other_s"]) / stats["tokens"]
    speed = rounds["blind-plain"] / rounds["blind"]
    expected = "faster" if speed > 1.02 else "slower" if speed < 0.98 else "same"
    assert lesson("blind").right["predict"] == {expected}
    one_in = content["header"]["vocabulary"]
    assert lesson("blind").facts["slowed"] == pytest.approx(1 / 1.1, abs=1e-3)
    assert lesson("blind").facts["flat"] == pytest.approx(sum((1 / one_in) ** at for at in range(5)))


def test_lookup_is_right_where_the_card_says_so(card: dict) -> None:
    groups = card["figures"]["groups"]
    names = {
        "edits": "verbatim edits", "summaries": "summary", "stories": "story", "poems": "poem, temperature 1",
    }  # fmt: skip
    above = [groups[group]["lanes"]["prompt-lookup"]["tokens_per_pass"] > 2 for group in names.values()]
    assert above == sorted(above, reverse=True), "the tasks are asked about from the first on"
    assert lesson("lookup").right["predict"] == {list(names)[sum(above) - 1]}


def test_lookahead_s_worst_case_is_one_pass_a_place_and_its_mask_is_known() -> None:
    found = lesson("lookahead")
    assert found.facts["worst"] == 5
    assert found.right == {"predict": {"each"}, "check": {"own"}}
    assert found.front.check.mistakes["all"] == "M9"
    assert found.facts["sees"] == 2 + 1 + 1  # level 0 up to column 2, and itself


def test_the_better_draft_of_the_check_loses_and_the_prediction_follows_the_card(card: dict) -> None:
    found = lesson("draft-model")
    lanes = card["figures"]["groups"]["question"]["lanes"]
    ratio = lanes["draft-model"]["speedup"] / lanes["draft-model, larger"]["speedup"]
    expected = "small" if ratio > 1.03 else "large" if ratio < 1 / 1.03 else "same"
    assert found.right["predict"] == {expected}
    assert found.front.watch.given["groups"] == ["question"], "the texts that were asked about"
    assert found.right["check"] == {"cheaper"}
    assert found.front.check.mistakes == {"better": "M4b"}
    best = [
        max((1 - alpha ** (k + 1)) / (1 - alpha) / (1 + cost * k) for k in range(30))
        for alpha, cost in ((0.8, 0.05), (0.9, 0.4))
    ]
    assert [found.facts["one"], found.facts["other"]] == pytest.approx(best)
    assert f"{best[0]:.2f}" == "3.09"  # the table of teaching.md


def test_half_the_layers_reach_1_38_at_most() -> None:
    found = lesson("early-exit")
    best = max(range(1, 40), key=lambda k: (1 - 0.9 ** (k + 1)) / 0.1 / (1 + 0.5 * k))
    assert (best, found.facts["best"]) == (3, 3)
    assert found.facts["ceiling"] == pytest.approx((1 - 0.9**4) / 0.1 / 2.5)
    assert "1.38×" in found.sections["predict"].items["third"].note and found.right["predict"] == {"third"}
    watched = length_surface.With.model_validate(found.front.watch.given)
    assert "γ = 3: 1.38×" in length_surface.cut(watched.alpha, watched.cost, watched.slope, WORDS).alt
    assert found.facts["oracle"] == pytest.approx(1 / (1 - 0.9 + 0.9 * 0.5))
    assert found.right["check"] == {"less"}


def test_medusa_s_second_head_cannot_see_the_first_and_eagle_s_step_can() -> None:
    medusa, eagle = lesson("medusa"), lesson("eagle")
    assert medusa.right["predict"] == {"same"}
    assert medusa.right["check"] == {"blind"}
    assert medusa.front.check.mistakes["waits"] == "M7"
    assert eagle.right["predict"] == {"few"}
    assert eagle.right["check"] == {"feeds"}
    assert math.isclose(medusa.facts["alike"], 1.0) and eagle.facts["alike"] < 1.0


@pytest.mark.parametrize("key", LESSONS)
def test_every_step_of_the_lesson_is_drawn_once_something_is_predicted(key: str) -> None:
    at = AppTest.from_file(ROOT / "app" / "app_pages" / "course.py", default_timeout=60)
    at.query_params["lesson"] = key
    at.query_params["at"] = "change"
    at.run()
    assert not at.exception
    assert "You predicted" not in "".join(each.value for each in at.markdown)  # nothing is shown before
    kept = progress.CourseProgress()
    kept.of(key).predict = progress.answer(None, None)
    at.session_state[progress.STORE] = kept
    for step in ("watch", "change", "explain", "code", "check"):
        at.query_params["at"] = step
        at.run()
        assert not at.exception, step
        assert not at.error
    controls = [*at.slider, *at.select_slider, *at.button_group, *at.text_area]
    assert len(controls) <= 4


def test_the_answers_follow_other_figures(
    card: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured anew, another draft may win, lookup may reach poems, and a wide pass may cost nothing."""
    changed = json.loads(json.dumps(card))
    groups = changed["figures"]["groups"]
    groups["question"]["lanes"]["draft-model, larger"]["speedup"] = 9.0
    groups["poem, temperature 1"]["lanes"]["prompt-lookup"].update(speedup=1.5, tokens_per_pass=2.5)
    changed["figures"]["curves"]["usual"]["seconds"] = [0.004] * len(
        changed["figures"]["curves"]["usual"]["seconds"]
    )
    path = tmp_path / "measurements.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    (tmp_path / "specdec-target").symlink_to(ROOT / "assets/models/specdec-target")
    monkeypatch.setattr(measured, "MEASUREMENTS", path)
    reading._read.cache_clear()
    try:
        assert lesson("draft-model").right["predict"] == {"large"}
        assert lesson("lookup").right["check"] == {"everywhere"}
        assert "poems" in lesson("lookup").right["predict"]
        assert lesson("blind").right["check"] == {"costs"}
        assert all(lesson(key) for key in LESSONS)
    finally:
        reading._read.cache_clear()


def test_own_texts_can_be_typed_into_the_lookup() -> None:
    at = AppTest.from_file(ROOT / "app" / "app_pages" / "course.py", default_timeout=60)
    at.query_params["lesson"] = "lookup"
    at.query_params["at"] = "change"
    kept = progress.CourseProgress()
    kept.of("lookup").predict = progress.answer(["edits"], False)
    at.session_state[progress.STORE] = kept
    at.run()
    read, write = at.text_area
    assert read.value == WORDS("lookup.read-edit")
    read.set_value("one two three four five")
    write.set_value("two three four five two three four five").run()
    assert not at.exception
    assert any("8 tokens in" in each.value for each in at.markdown)
    at.text_area[1].set_value(" \n ").run()
    assert not at.exception
    assert WORDS("lookup.empty") in [each.value for each in at.info]


@pytest.mark.parametrize("text", ["!" * 900, "a " * 450, "ß 漢字 😀 <i>&amp;</i> " * 30, "x"])
def test_any_text_can_be_looked_up(text: str) -> None:
    found = lookup.run(text[: lookup.MAX_CHARS], text[: lookup.MAX_CHARS], 3, 8)
    assert found.passes <= len(found.written)
    assert lookup.shown(found, WORDS)
    assert lookup.summary(found, WORDS)
