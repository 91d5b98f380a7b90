"""What an address may say, the prompts that ship, the words, and escaping."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.choosing import presets
from app.lanes import page_settings
from app.lanes.fields import NameField, NamesField, NumberField
from app.text import plain
from app.ui import glossary
from specdec_core.proposers import PROPOSERS
from specdec_measure.sweep.cases import CHAT_ORDER

PROPOSER = NameField(
    "proposer", titles=lambda: {"draft-model": "Draft model", "none": "Plain decoding"}, default="draft-model"
)
MODEL = NameField("model", titles=lambda: {"bundled": "Bundled pair", "other": "Another model…"})
TABLE = (MODEL, PROPOSER, page_settings.GAMMA, *page_settings.SHARED)


def problems(params: dict[str, str]) -> list[str]:
    """The sentences about an address."""
    return page_settings.read({key: [value] for key, value in params.items()}, TABLE)[1]


def test_a_clean_address_has_no_problems() -> None:
    params = {
        "gamma": "7",
        "temperature": "0.8",
        "proposer": "none",
        "prompt": "hello",
        "run": "x",
        "round": "3",
        "stop": "a",
        "hide": "settings,moon",  # of links that were given away before
    }
    assert problems(params) == []


def test_what_is_written_reads_back_and_defaults_are_left_out() -> None:
    """Catches: a setting whose text in the address means another value, and one that a shared link loses."""
    others = {"model": "other", "proposer": "none", "gamma": 7, "temperature": 0.75, "stop": ["a", "\\n"],
              "repetition_penalty": 1.0, "chat": False, "generation": False, "system": "Be brief", "seed": 5,
              "target": "a/b", "draft": "c", "device": "cpu", "dtype": "float16", "top_k": 20, "top_p": 0.9,
              "min_p": 0.05, "no_repeat_ngram_size": 3, "tokens": 17}  # fmt: skip
    assert others.keys() == {each.key for each in TABLE}
    said = page_settings.write(TABLE, others)
    assert said.keys() == others.keys() and page_settings.read(said, TABLE) == (others, [])
    assert page_settings.write(TABLE, {each.key: each.start() for each in TABLE}) == {}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"gamma": "-3"},
            "draft length γ has to be a whole number from 1 to 16; the link says -3, so 4 is used",
        ),
        ({"gamma": "2.5"}, "whole number"),
        ({"temperature": "nan"}, "temperature has to be a number from 0 to 2"),
        ({"temperature": "inf"}, "temperature"),
        ({"temperature": "hot"}, "“hot”"),
        ({"top_p": "0"}, "Top-p"),
        ({"seed": "1e99"}, "seed"),
        ({"tokens": "9" * 400}, "number of new tokens"),
        ({"proposer": "magic"}, "proposer “magic”, which does not exist here; “Draft model” is used"),
        ({"proposer": "draftmodel"}, "“Draft model” is used. Did you mean “draft-model”?"),
        (
            {"repetition_penalty": "0"},
            "repetition penalty has to be a number from 0.5 to 2; the link says 0, so the usual",
        ),
        ({"no_repeat_ngram_size": "1.5"}, "whole number from 0 to 20"),
        ({"device": "toaster"}, "device “toaster”, which does not exist here; “auto” is used"),
        ({"model": "someone/else"}, "model"),
        ({"chat": "perhaps"}, "has to be true or false; the link says “perhaps”, so true is used"),
        ({"generation": "1"}, "generation config is used has to be true or false"),
        ({"present": "yes"}, "begins with present=1; the link says “yes”"),
        ({"system": "x" * 501}, "longer than 500 characters"),
        (
            {"target": "Qwen/Qwen3-1.7B"},
            "names a target, and only model=other takes models by their ids; it is left",
        ),
        ({"target": "a/b", "draft": "a/c"}, "names a target and a draft, and only model=other"),
        ({"colour": "red"}, "does not know (“colour”); they are left out."),
        ({"temprature": "1"}, "Did you mean “temperature”?"),
        ({"prompt": "x" * 20_001}, "longer than 20,000"),
    ],
)
def test_what_an_address_says_wrongly_is_said_in_a_sentence(params: dict[str, str], words: str) -> None:
    (problem,) = problems(params)
    assert words in problem
    assert len(problem) < 300


def test_the_address_names_a_preset_or_holds_a_short_prompt() -> None:
    assert page_settings.address_of_prompt("a fox", "story/fox", "story/fox") == {}
    assert page_settings.address_of_prompt("a hen", "story/hen", "story/fox") == {"preset": ["story/hen"]}
    assert page_settings.address_of_prompt("mine", None, "story/fox") == {"prompt": ["mine"]}
    assert page_settings.address_of_prompt("x" * 2_001, None, "story/fox") == {}
    assert page_settings.address_of_prompt("", None, "story/fox") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0", 0),
        ("-1", -1),
        ("--1", None),
        ("٣", None),
        ("x", None),
        ("", None),
        (None, None),
        ("9" * 9, None),
    ],
)
def test_cursors_are_small_whole_numbers(text: str | None, value: int | None) -> None:
    assert page_settings.whole(text) == value


def test_prompts_are_read_in_teaching_order(prompts: Path) -> None:
    assert [family.name for family in presets.families()] == ["story", "code"]
    preset = presets.find("story/the-hen")
    assert preset is not None
    assert preset.text == "a hen"
    assert presets.matching("a hen") == preset
    assert presets.matching("a hen ") is None
    assert presets.find("story/nope") is None


@pytest.mark.parametrize(
    "content", ["not toml [", 'title = "x"', 'title = "x"\ndescription = "y"\nprompt = []', "title = 3"]
)
def test_a_prompt_file_that_breaks_the_format_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (tmp_path / "broken.toml").write_text(content, encoding="utf-8")
    assert presets.families(tmp_path) == ()
    assert "broken.toml is left out" in caplog.text


def test_the_prompts_that_ship_are_seven_families_and_six_for_chat_without_twins() -> None:
    families = presets.families()
    assert [family.name for family in presets.offered("text")] == list(presets.ORDER)
    assert [family.name for family in presets.offered("chat")] == list(CHAT_ORDER)
    assert len(families) == len(presets.ORDER) + len(CHAT_ORDER)
    texts = [preset.text for family in families for preset in family.presets]
    assert len(texts) == len(set(texts))
    ids = [preset.id for family in families for preset in family.presets]
    assert len(ids) == len(set(ids))


def test_every_word_of_the_design_is_explained() -> None:
    words = (
        "Target model|Draft model|Proposer|Proposal tree|Draft length γ|Acceptance rule|Round|Accepted|Rejected"
        "|Not reached|Corrected token|Bonus token|Committed token|Residual|Acceptance rate α|Prefill"
        "|Tokens per target pass τ|Cost ratio c|Width curve T(n)|Provenance|KV cache|Attention mask|Slot|Lane|Rollback"
    ).split("|")
    assert set(words) <= glossary.TERMS.keys()
    assert "block efficiency" in glossary.TERMS["Tokens per target pass τ"]
    assert {kind.title for kind in PROPOSERS.values()} <= glossary.TERMS.keys()
    assert list(glossary.search("eagle")) == ["EAGLE-4", "EAGLE head", "EAGLE-3 head"]
    assert all(meaning.endswith(".") and ".." not in meaning for meaning in glossary.TERMS.values())


def test_the_glossary_is_searched_by_terms_and_meanings() -> None:
    """Catches: a search that knows only the terms' names, one that is lost in case, and a list in another order."""
    assert glossary.search("  ") == glossary.TERMS
    assert next(iter(glossary.search("kv CACHE"))) == "KV cache" and "Slot" in glossary.search("kv cache")
    assert list(glossary.search("block efficiency")) == ["Tokens per target pass τ"]
    assert glossary.search("zebra") == {}


@pytest.mark.parametrize(
    "text",
    ["$x$ and <b>", ":red[a] :material/bolt:", "[a](http://b) `c` *d* _e_ # f", "a\n# b", "~~x~~ | &amp;"],
)
def test_escaped_text_reads_as_it_was_typed(text: str) -> None:
    from markdown_it import MarkdownIt

    html = MarkdownIt().render(plain(text))
    inline = html.removeprefix("<p>").rstrip().removesuffix("</p>")
    import html as entities

    assert entities.unescape(inline).replace("\u2060", "") == text.replace("\n", " ")
    assert ":material/" not in plain(text)
    assert ":red[" not in plain(text)


@pytest.mark.parametrize("text", ["http://e.com", "https://e.com/?a=1", "www.e.com", "WWW.e.com", "me@e.com"])
def test_an_address_in_a_visitors_text_is_no_link(text: str) -> None:
    """What makes a link of an address looks for it after the escapes are gone: it must be in two pieces then."""
    from markdown_it import MarkdownIt

    shown = MarkdownIt().render(plain(text))
    assert not re.search(r"://|www\.|@\w", shown, re.IGNORECASE)


@pytest.mark.parametrize("text", ["inf", "nan", "1e400", "-3", "99999999999999"])
@pytest.mark.parametrize("number", page_settings.NUMBERS, ids=lambda number: number.key)
def test_a_number_no_widget_can_take_is_not_taken(number: NumberField, text: str) -> None:
    """Catches: a value with which Streamlit's box or slider fails, so that the whole page does."""
    found, complaints = page_settings.read({number.key: [text]}, [number])
    assert found == {} and len(complaints) == 1
    assert page_settings.read({number.key: [f"{number.usual:g}"]}, [number])[1] == []


@pytest.mark.parametrize(("chosen", "texts"), [(["a", "b"], []), (["b"], ["b"]), ([], [""])])
def test_some_of_several_names(chosen: list[str], texts: list[str]) -> None:
    """Catches: all names where none was left, and those of other models' prompts."""
    field = NamesField("kinds", titles=lambda: {"a": "A", "b": "B"})
    assert field.write(chosen) == texts
    assert field.read(texts or ["a", "b", "elsewhere"]) == chosen
    # links that Streamlit wrote have the titles; such as name only what is elsewhere mean all
    assert field.read(["B"]) == ["b"] and field.read(["elsewhere"]) == ["a", "b"]


def test_too_many_or_too_long_stop_texts_get_a_sentence() -> None:
    assert page_settings.read({"stop": ["a", "b", "a", ""]}, [page_settings.STOP]) == (
        {"stop": ["a", "b"]},
        [],
    )
    for texts in ([str(number) for number in range(9)], ["x" * 65]):
        found, (said,) = page_settings.read({"stop": texts}, [page_settings.STOP])
        assert found == {} and "so none is used" in said
