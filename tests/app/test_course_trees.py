"""Trees in the course: what a node sees and a tree is worth, by direct construction; the builder; lists brought in."""

from __future__ import annotations

import json
from itertools import combinations, product
from math import prod

import pytest
from pydantic import ValidationError

from app.course.drawing import growing
from app.course.facts import recorded, trees
from app.course.files import reading
from app.course.files.lesson import Lesson
from app.course.files.words import Words
from app.course.pictures.runs import tree_builder
from app.records import examples

from .course_page import page, predict, press, sent

TREE = [[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]]
WORDS = Words("en", reading.FOLDER)
TABLE = ((0.5, 0.2, 0.1), (0.4, 0.1, 0.05))


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    found, problems = reading.read("en", "trees")
    assert found is not None, problems
    return found


def seen(tree: list[list[int]], node: list[int]) -> list[tuple[int, ...]]:
    """The root and every node whose path begins the node's, found by comparing lists."""
    return [(), *(tuple(other) for other in tree if node[: len(other)] == other)]


def test_what_a_node_sees_is_what_begins_its_path() -> None:
    for node in TREE:
        assert trees.cells_seen(TREE, node) == len(seen(TREE, node))
        assert trees.place_in_text(TREE, node) == len(node)


def test_guesses_and_paths_are_counted_by_hand() -> None:
    """Six nodes; the four leaves are the nodes of length two; apart they would be four times two guesses."""
    assert (trees.tree_guesses(TREE), trees.tree_paths(TREE), trees.apart_guesses(TREE)) == (6, 4, 8)
    assert trees.apart_guesses([[0], [1], [0, 0]]) == 1 + 2


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_chain_and_bush_have_closed_forms(rate: float) -> None:
    """A chain of n: (1 − α^(n+1))/(1 − α); a bush: 2 − (1 − α)^n, as at most one of its guesses is right."""
    chain, bush = [[0] * depth for depth in range(1, 9)], [[rank] for rank in range(8)]
    assert trees.tree_tokens(chain, rate) == pytest.approx((1 - rate**9) / (1 - rate))
    assert trees.tree_tokens(bush, rate) == pytest.approx(2 - (1 - rate) ** 8)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_no_tree_of_that_size_is_better_than_the_grown_one(rate: float) -> None:
    """Every tree of three nodes with up to three levels and ranks, by brute force."""
    nodes = [node for depth in (1, 2, 3) for node in product(range(3), repeat=depth)]
    worth = {node: prod(rate * (1 - rate) ** rank for rank in node) for node in nodes}
    best = max(
        sum(worth[node] for node in tree)
        for tree in combinations(sorted(nodes, key=len), 3)
        if all(len(node) == 1 or node[:-1] in tree for node in tree)
    )
    assert trees.grown_tree_tokens(3, rate) == pytest.approx(1 + best)


def test_the_lesson_and_its_answers(lesson: Lesson) -> None:
    """Three cells: the root, a child, itself. Six guesses, as eight only without sharing."""
    assert lesson.answer == 3 == len(seen(TREE, [1, 0]))
    assert lesson.right["check"] == {"shared"}
    assert "M8" in lesson.front.check.mistakes.values()
    facts = lesson.facts
    assert facts["chain_high"] > facts["bush_high"] and facts["chain_low"] < facts["bush_low"]
    assert facts["best_high"] > facts["chain_high"] and facts["best_low"] > facts["bush_low"]


def test_the_answer_is_not_in_the_page_before_the_prediction(lesson: Lesson) -> None:
    """The still tree brings no mask, no sentence about what is seen, no figure of a node."""
    at = page(lesson="trees")
    said = sent(at)
    assert "Node 5" not in said and "tokens of the tree:" not in said
    shown = growing.still(TREE, WORDS)
    assert shown["mask"] is None and shown["positions"] is None and shown["worth"] == []
    assert {(node["sentence"], node["chance"]) for node in shown["nodes"]} == {("", "")}


# --- the builder ---------------------------------------------------------------------------------------------------


def test_free_places_are_next_siblings_and_first_children() -> None:
    free = growing.slots([(0,), (1,), (0, 0)], TABLE, 8)
    assert set(free) == {(2,), (1, 0), (0, 1)}  # (0, 0, 0) would need a third level
    assert growing.slots([(0,), (1,), (2,)], TABLE, 8) == [(0, 0), (1, 0), (2, 0)]
    assert growing.slots([(1,)], TABLE, 8) == [(0,), (1, 0)]
    assert growing.slots([(0,), (1,)], TABLE, 2) == []


@pytest.mark.parametrize(
    ("act", "left"),
    [
        ({"do": "add", "path": [1]}, [(0,), (0, 0), (1,)]),
        ({"do": "add", "path": [0, 1]}, [(0,), (0, 0), (0, 1)]),
        ({"do": "add", "path": [2]}, [(0,), (0, 0)]),
        ({"do": "add", "path": [0, 0, 0]}, [(0,), (0, 0)]),
        ({"do": "remove", "path": [0]}, []),
        ({"do": "remove", "path": [0, 0]}, [(0,)]),
        ({"do": "remove", "path": []}, [(0,), (0, 0)]),
        ({"do": "add", "path": ["1"]}, [(0,), (0, 0)]),
        ({"do": "add", "path": [0] * 500}, [(0,), (0, 0)]),
        ({"do": "burn", "path": [0]}, [(0,), (0, 0)]),
        ({"do": "add", "path": {"0": 1}}, [(0,), (0, 0)]),
        ("add", [(0,), (0, 0)]),
        (None, [(0,), (0, 0)]),
    ],
)
def test_only_what_makes_a_tree_changes_it(act: object, left: list[tuple[int, ...]]) -> None:
    assert growing.after([(0,), (0, 0)], act, TABLE, 4) == left


def test_rows_stand_apart_and_follow_the_ranks() -> None:
    """No two places share a cell; a first child stands beside its parent; later siblings stand lower."""
    places = [tuple(node) for node in TREE] + [(2,), (0, 0, 0)]
    rows = growing.laid_out(places)
    cells = [(len(place), rows[place]) for place in [(), *places]]
    assert len(set(cells)) == len(cells)
    for place in places:
        if place[-1] == 0:
            assert rows[place] == rows[place[:-1]]
        else:
            assert rows[place] > rows[(*place[:-1], place[-1] - 1)]


def test_the_scene_s_mask_is_the_relation_of_ancestors() -> None:
    tree = [(0,), (1,), (0, 0), (0, 1), (1, 0)]
    shown = growing.drawn(tree, TABLE, 8, WORDS)
    order = [tuple(node["path"]) for node in shown["nodes"]]
    assert shown["mask"] == [[row[: len(column)] == column for column in order] for row in order]
    assert shown["positions"] == [len(node) for node in order]
    last = shown["nodes"][order.index((1, 0))]
    assert (
        last["chance"] == f"{0.2 * 0.4:.0%}"
        and "3 tokens" in last["sentence"]
        and "node 2" in last["sentence"]
    )
    json.dumps(shown)  # it goes to the browser


def test_presets_fit_the_budget_and_the_heads() -> None:
    assert growing.preset("chain", TABLE, 8) == [(0,), (0, 0)]
    assert growing.preset("bush", TABLE, 2) == [(0,), (1,)]
    assert growing.preset("best", TABLE, 3) == [(0,), (1,), (0, 0)]
    assert growing.preset("empty", TABLE, 3) == []


def test_an_empty_tree_is_compared_with_no_other() -> None:
    def names(tree: list[tuple[int, ...]]) -> list[str]:
        meters = tree_builder.modelled(tree, TABLE, 0.5, WORDS)["meters"]
        return [one["label"] for one in meters]

    assert names([]) == ["Your tree"]
    assert names([(0,)]) == ["Your tree", "Best tree of 1"]


def test_why_a_chain_of_heads_is_short_is_said(lesson: Lesson) -> None:
    """Catches: a chain of 4 under the task of spending 8 nodes, without a word."""
    at = predict(page(lesson="trees"), lesson)
    press(at, "course-next")
    levels = len(tree_builder.accuracies("heads", 8))
    assert f"These heads guess {levels} tokens ahead" in sent(at)
    at.button_group(key="course-trees-change-guesser").set_value("0.6").run()
    assert "tokens ahead" not in sent(at)


def test_a_chain_on_the_record_is_counted_by_hand() -> None:
    """Where the recorded text goes on with the first node of a round's tree, a tree of that node brings two tokens."""
    trace = recorded.trace("medusa")
    found = trees.on_record("medusa", ((0,),))
    assert found is not None
    rounds = [row for row in trace.rounds if row.nodes.token]
    for row, replayed in zip(rounds, found, strict=True):
        right = row.committed.token[0] == row.nodes.token[0] and len(row.committed.token) > 1
        assert replayed.tokens == (2 if right else 1) and replayed.decided


def test_what_a_lesson_may_not_ask_of_it() -> None:
    for wrong in (
        {"budget": 99},
        {"guessers": [1.5]},
        {"example": "nothing"},
        {"still": [[0, 0]]},
        {"colour": 1},
    ):
        with pytest.raises(ValidationError):
            tree_builder.With.model_validate(wrong)


def test_a_list_is_brought_along_and_a_wrong_one_gets_a_sentence(lesson: Lesson) -> None:
    """Through the page: a published list fills the tree, what is no list leaves it as it was and says why."""
    at = predict(page(lesson="trees"), lesson)
    press(at, "course-next")
    key = "course-trees-change-"
    press(at, f"{key}start-best")
    grown = at.code[0].value
    assert len(json.loads(grown)) == lesson.facts["budget"]
    at.text_area(key=f"{key}pasted").set_value("[(0,), (0, 0), (1,)]").run()
    press(at, f"{key}load")
    assert at.code[0].value == "[[0], [1], [0, 0]]" and not at.error
    assert "2 of" not in sent(at) and "3 of 8" in sent(at)
    at.text_area(key=f"{key}pasted").set_value("[[0, 0]]").run()
    press(at, f"{key}load")
    assert at.code[0].value == "[[0], [1], [0, 0]]" and "without [0]" in at.error[0].value.replace("\\", "")
    example = examples.find("medusa")
    assert example is not None and example.machine in sent(at)


def test_every_string_it_shows_is_in_the_catalogue() -> None:
    for kind in growing.PRESETS:
        WORDS(f"tree_builder.{kind}")
    growing.said(WORDS)
    tree_builder.modelled([(0,)], TABLE, 0.5, WORDS)
    assert tree_builder.on_record([(0,)], "medusa", WORDS)[0]["meters"]
    assert tree_builder.on_record([(0,)], "eagle", WORDS) == []
