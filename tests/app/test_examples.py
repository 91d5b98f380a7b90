"""The recorded examples: the index, its checks, and that the lessons show what they are there to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.choosing import presets
from app.records import examples as recorded
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace


def test_every_proposer_has_an_example_and_everything_in_the_index_is_sound() -> None:
    found, problems = recorded.load()
    assert problems == []
    shown = {example.lanes[-1].proposer for example in found}
    assert shown == set(PROPOSERS), (
        f"no recorded example of {sorted(set(PROPOSERS) - shown)}: describe one in assets/traces/index.toml, then "
        "record it with `python -m scripts.record_traces ID`"
    )
    assert {example.kind for example in found} == {"proposer", "lesson"}
    assert set(recorded.files()) == {name for example in found for name in example.files}
    assert sum(path.stat().st_size for path in recorded.files().values()) < 5_200_000
    assert not any("{" in example.look_for or len(example.look_for) > 240 for example in found)


def test_the_lessons_show_what_they_are_there_to_show() -> None:
    found = {example.id: example for example in recorded.examples()}
    text = {name: Trace.from_json(path.read_bytes()).token_ids for name, path in recorded.files().items()}
    slower = found["slower"].lanes[-1].speedup
    assert slower is not None and slower < 1
    stats = {name: Trace.from_json(recorded.files()[name].read_bytes()).stats for name in found}
    assert stats["nothing-to-copy"].accepted < 0.25 * stats["nothing-to-copy"].proposed
    for name in ("wide-tree", "long-draft"):
        assert stats[name].accepted < 0.5 * (stats[name].proposed - stats[name].pruned)
    for name in ("lossy", "fork"):
        assert text[name] != text[f"{name}-plain"]
    assert found["lossy"].lanes[-1].lossy and not found["fork"].lanes[-1].lossy
    headers = {name: Trace.from_json(recorded.files()[name].read_bytes()).header for name in found}
    greedy = [
        example
        for name, example in found.items()
        if name != "lossy" and headers[name].settings["temperature"] == 0
    ]
    assert len(greedy) > 10
    for example in greedy:
        assert len({tuple(text[name]) for name in example.files}) == 1, example.id


def test_the_index_names_prompts_that_are_there() -> None:
    there = {family.name for family in presets.families()}
    there |= {preset.id for family in presets.families() for preset in family.presets}
    for recipe in recorded.recipes()[0]:
        assert set(recipe.prompts) <= there, recipe.id
        assert (recipe.shows is None) == (recipe.kind == "proposer"), recipe.id


INDEX = """[[example]]
id = "one"
kind = "proposer"
title = "One"
look_for = "{tokens} tokens."
prompts = ["story"]
settings = { proposer = "none" }
"""


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (INDEX.replace("kind = ", "kind: "), "index.toml cannot be read"),
        (INDEX.replace("[[example]]", "[[exemple]]"), "has to be a list of [[example]] entries"),
        (INDEX.replace('kind = "proposer"', 'kind = "joke"'), "example 1 (“one”): 'kind' has to be"),
        (INDEX.replace('title = "One"\n', ""), "example 1 (“one”): 'title' is missing"),
        (INDEX.replace("{tokens}", "{secret}"), "look_for: there is no fact “secret”"),
        (INDEX.replace("{tokens}", "{tokens.__class__}"), "there is no fact “tokens.__class__”"),
        (INDEX.replace("{tokens}", "{tokens:>9999}"), "there is no fact"),
        (INDEX.replace("{tokens}", "{tokens"), "example 1 (“one”):"),
        (INDEX.replace('"none"', '"none", draft_length = 0'), "draft_length"),
        (INDEX.replace('id = "one"', 'id = "../one"'), "'id' has to match"),
        (INDEX + INDEX, "example 2 (“one”): id: there is another example of that name"),
        (INDEX, "example “one”: one.json is missing"),
    ],
)
def test_a_broken_index_names_the_entry_and_the_field(tmp_path: Path, index: str, said: str) -> None:
    (tmp_path / "index.toml").write_text(index, encoding="utf-8")
    found, problems = recorded.load(tmp_path)
    assert found == () or said not in problems
    assert any(said in problem for problem in problems), problems


def test_a_damaged_trace_is_named_and_left_out(tmp_path: Path, race_traces: list[Trace]) -> None:
    (tmp_path / "index.toml").write_text(INDEX, encoding="utf-8")
    good = race_traces[0].to_json()
    (tmp_path / "one.json").write_text(good, encoding="utf-8")
    (example,), problems = recorded.load(tmp_path)
    assert problems == [] and example.look_for == "24 tokens."
    (tmp_path / "one.json").write_text(good[:-20], encoding="utf-8")
    found, problems = recorded.load(tmp_path)
    assert found == () and "example “one”" in problems[0] and "not complete JSON" in problems[0]
