"""Which models the page runs: the default once it is there, what is usual for it, the chat template, its prompts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import config as policy
from app import services
from app.choosing import defaults, presets
from app.compare import sweeps
from app.decoding.loaded import Loaded
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.runs import Runs
from app.lanes import lane as core
from app.records import visitor
from app.text import plain
from specdec_core.models.assembling import assemble
from tests.app.conftest import OPERATOR, scripted_family
from tests.core.tiny import build, tokenizer

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
REAL = ModelChoice(defaults.REAL)
CHAT_PROMPTS = """title = "Questions"
description = "Short questions."
audience = "chat"
repetition_penalty = 1.2
[[prompt]]
name = "The cat"
text = "Where is the cat?"
look_for = "Cats sit."
"""


def chat_models() -> Any:
    """A random model with a chat template."""
    words = copy.deepcopy(tokenizer())
    words.chat_template = (
        "{% for turn in messages %}<{{ turn.role }}> {{ turn.content }}\n{% endfor %}<assistant> "
    )
    return assemble(words, build("llama", vocab_size=300, max_position_embeddings=512))


@pytest.fixture
def shelf(fresh: Runs, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelCache]:
    """A server whose default family is the chat model, which is not loaded yet."""
    (prompts / "chat-question.toml").write_text(CHAT_PROMPTS, encoding="utf-8")
    built = {ModelChoice(): scripted_family(), REAL: Loaded(chat_models())}
    shelf = ModelCache(lambda choice: built[choice], lambda *asked: None)
    shelf.get(ModelChoice())
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: visitor.of_session())
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    operator = policy.read({**OPERATOR, "SPECDEC_DEFAULT_MODELS": defaults.REAL})
    monkeypatch.setattr(services, "operator", lambda: operator)
    # the model here has no heads, whatever ships
    untrained = partial(defaults.proposers, there=lambda part: False)
    monkeypatch.setattr(defaults, "proposers", untrained)
    yield shelf
    runs.close()


def page(**params: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=60)
    for key, value in params.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def param(at: AppTest, key: str) -> str | None:
    value = at.query_params.get(key)
    return value[-1] if isinstance(value, list) else value


def said(at: AppTest) -> str:
    return "\n".join(element.value for element in [*at.caption, *at.markdown])


def finished(at: AppTest) -> Any:
    """The page's run after Run was pressed."""
    at.button(key="go").click().run()
    assert not at.exception and not at.error, at.error
    run = services.runs().get(param(at, "run"))
    assert run is not None and run.wait(60)
    return run


def test_the_tiny_models_run_until_the_default_is_there_and_then_the_next_run_uses_it(
    shelf: ModelCache,
) -> None:
    """Catches: a page that waits for the default, or one that keeps the tiny models, or loses what was typed."""
    at = page(tokens="8")
    assert "Toy text" in at.selectbox(key="model").help and "is being prepared" in said(at)
    assert [group.options for group in at.get("button_group") if group.key == "family"] == [
        ["Stories", "Code"]
    ]
    at.text_area(key="prompt").input("my own words").run()
    shelf.get(REAL)
    at.run()
    assert not at.exception
    assert at.text_area(key="prompt").value == "my own words"
    assert (
        "is ready: your next run uses it" in said(at)
        and "Answers questions" in at.selectbox(key="model").help
    )
    assert at.selectbox(key="proposer").value == "prompt-lookup"  # what these models can do
    run = finished(at)
    assert run.request.choice == REAL and run.templated
    header = run.traces[0].header
    assert header.chat and header.prompt == "my own words"
    assert "<user> my own words" in "".join(header.prompt_texts)


def test_a_lane_that_somebody_is_at_work_on_stays_when_the_default_is_there(shelf: ModelCache) -> None:
    """Catches: γ moved, and then a proposer without γ; the larger draft chosen, and then no draft; a lane's form that
    closes under the hand."""
    lab, beside, drafting = page(tokens="8"), page(), page(tokens="8")
    drafting.selectbox(key="o.draft-model.draft").set_value("larger").run()
    lab.slider(key="gamma").set_value(7).run()
    beside.switch_page("app_pages/compare.py").run()
    beside.button(key="lane1.change").click().run()
    lanes = [box.value for box in beside.selectbox if box.key == "lane1.proposer"]
    assert lanes == ["draft-model"]
    shelf.get(REAL)
    assert (lab.run().selectbox(key="proposer").value, lab.slider(key="gamma").value) == ("draft-model", 7)
    assert beside.run().selectbox(key="lane1.proposer").value == "draft-model"
    assert drafting.run().selectbox(key="proposer").value == "draft-model"
    assert not lab.exception and not beside.exception


def test_the_example_that_the_page_opened_with_gives_way_and_one_that_was_chosen_stays(
    shelf: ModelCache,
) -> None:
    """Catches: a story's beginning left over for the chat model, and an example taken from who asked for it."""
    early, asking = page(tokens="8"), page(tokens="8", preset="story/the-fox")
    assert early.text_area(key="prompt").value == asking.text_area(key="prompt").value == "a fox"
    shelf.get(REAL)
    assert early.run().text_area(key="prompt").value == "Where is the cat?"
    assert asking.run().text_area(key="prompt").value == "a fox"
    assert not early.exception and not asking.exception


def test_the_recording_that_plays_first_stays_when_the_default_is_there(shelf: ModelCache) -> None:
    """Its models' own first proposer, from the start. Catches: a story exchanged under the eyes of who watches it."""
    at, chosen = page(tokens="8"), page(tokens="8", proposer="lookahead")
    first = at.session_state["example_shown"]
    assert first == "chat-prompt-lookup" and chosen.session_state["example_shown"] == "chat-lookahead"
    shelf.get(REAL)
    assert at.run().session_state["example_shown"] == first
    assert chosen.run().session_state["example_shown"] == "chat-lookahead"
    assert not at.exception and not chosen.exception


def test_the_page_shows_what_a_chat_model_reads(shelf: ModelCache) -> None:
    """Catches: a template that is applied unseen, and a system line that does not reach the model."""
    shelf.get(REAL)
    at = page(tokens="8", system="Be brief.")
    assert at.text_area(key="prompt").value == "Where is the cat?"
    read = [block.value for block in at.code]
    assert "<system> Be brief.\n<user> Where is the cat?\n<assistant> " in read
    run = finished(at)
    assert run.traces[0].header.system == "Be brief."
    assert run.request.lanes[0].repetition_penalty == 1.2  # of this kind of prompt
    assert plain("With a repetition penalty of 1.2") in said(at)


def test_the_template_and_the_usual_penalty_can_be_switched_off(shelf: ModelCache) -> None:
    """Catches: a link's chat=false or generation=false that changes nothing."""
    shelf.get(REAL)
    at = page(tokens="8", chat="false", prompt="the cat sat")
    run = finished(at)
    assert not run.templated and not run.traces[0].header.chat
    assert run.request.lanes[0].repetition_penalty is None
    at = page(tokens="8", generation="false", prompt="the cat sat")
    run = finished(at)
    assert run.templated and run.request.lanes[0].repetition_penalty == 1


def test_an_empty_penalty_is_the_usual_one_and_one_is_none(shelf: ModelCache) -> None:
    """Catches: a box that shows 1 while another penalty applies, and no way to have none."""
    shelf.get(REAL)
    at = page(tokens="8")
    box = at.number_input(key="repetition_penalty")
    assert box.value is None and box.placeholder == "1.2, the default here"
    box.set_value(1.0).run()
    assert "repetition penalty of" not in said(at)
    assert finished(at).request.lanes[0].repetition_penalty == 1
    tiny = page(model="bundled", tokens="8")
    assert tiny.number_input(key="repetition_penalty").placeholder == "none"
    assert finished(tiny).request.lanes[0].repetition_penalty is None


def test_an_example_without_the_usual_penalty_says_so_where_others_name_theirs(
    shelf: ModelCache, prompts: Path
) -> None:
    """Catches: two runs, one under 1.05 and one under none, and nothing on the page that tells them apart."""
    (prompts / "chat-question.toml").write_text(CHAT_PROMPTS.replace("= 1.2", "= 1.0"), encoding="utf-8")
    sweeps.sweeps.cache_clear()
    shelf.get(REAL)
    note = plain("No repetition penalty for this example; your own prompts get 1.05")
    at = page(tokens="8")
    assert note in said(at)
    at.text_area(key="prompt").input("mine").run()
    assert note not in said(at) and plain("With a repetition penalty of 1.05") in said(at)
    at.text_area(key="prompt").input("Where is the cat?").run()
    at.number_input(key="repetition_penalty").set_value(1.0).run()
    assert note not in said(at)
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page("app_pages/compare.py")
    at.query_params["tab"], at.query_params["tokens"] = "Prompts", "8"
    at.run()
    assert note in said(at)
    run = finished(at)
    at.run()
    assert run.request.lanes[0].repetition_penalty == 1
    assert any(line.value.endswith("each, with a repetition penalty of 1.05") for line in at.caption)
    assert "gets none by default: Questions" in said(at).replace("\\", "")
    sweeps.sweeps.cache_clear()


@pytest.mark.parametrize(
    ("asked", "raced", "swept"),
    [
        ({}, 1.2, 1.05),  # the example's kind has a usual penalty of its own
        ({"prompt": "Where am I?"}, 1.05, 1.05),
        ({"repetition_penalty": "1.2"}, 1.2, 1.2),  # the visitor's own, though it is the usual one
        ({"repetition_penalty": "1.5"}, 1.5, 1.5),
        ({"generation": "false"}, 1, 1),
    ],
)
def test_a_sweep_s_penalty_does_not_depend_on_the_prompt_in_the_box(
    shelf: ModelCache, asked: dict[str, str], raced: float, swept: float
) -> None:
    """Catches: one upload that is measured under 1.05 or 1.0, as an own prompt or an example was raced before it."""
    sweeps.sweeps.cache_clear()
    shelf.get(REAL)
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page("app_pages/compare.py")
    for key, value in {"tokens": "8", "tab": "Prompts", **asked}.items():
        at.query_params[key] = value
    at.run()
    run = finished(at)
    at.run()
    assert run.templated and {lane.repetition_penalty for lane in run.request.lanes} == {raced}
    words = "" if swept == 1 else f", with a repetition penalty of {swept:g}"
    assert any(note.value.endswith(f"up to 8 tokens each{words}") for note in at.caption)
    at.button(key="sweep_start").click().run()
    assert not at.exception
    job = sweeps.sweeps().get(param(at, "sweep"), visitor.of_session())
    assert job is not None and {lane.repetition_penalty for lane in job.order.lanes} == {swept}
    assert job.wait(60)
    at.run()
    assert swept == 1 or any(f"their repeats{words}" in note.value for note in at.caption)
    sweeps.sweeps.cache_clear()


def test_a_link_can_ask_for_the_tiny_models(shelf: ModelCache) -> None:
    """Catches: a teacher's link to the tiny family that opens with the default one."""
    shelf.get(REAL)
    at = page(model="bundled", tokens="8")
    assert at.text_area(key="prompt").value == "a fox" and "Toy text" in at.selectbox(key="model").help
    run = finished(at)
    assert run.request.choice == ModelChoice() and not run.templated
    assert param(at, "model") == "bundled"


def test_picking_models_takes_an_untouched_example_along_and_leaves_own_words(shelf: ModelCache) -> None:
    """Catches: a story's beginning sent to a chat model as a message, or somebody's text replaced."""
    shelf.get(REAL)
    at = page()
    at.selectbox(key="model").select("bundled").run()
    assert at.text_area(key="prompt").value == "a fox"
    at.selectbox(key="model").select("default").run()
    assert at.text_area(key="prompt").value == "Where is the cat?"
    at.text_area(key="prompt").input("mine").run()
    at.selectbox(key="model").select("bundled").run()
    assert not at.exception and at.text_area(key="prompt").value == "mine"


def test_a_proposer_begins_with_the_options_that_suit_the_models(shelf: ModelCache) -> None:
    """Catches: the tiny family's tree for a target whose passes cost more, and a link that cannot name the default."""
    shelf.get(REAL)
    small = defaults.options(defaults.REAL, "eagle")["nodes"]
    at = page(proposer="eagle")
    nodes = at.number_input(key="o.eagle.nodes")
    assert nodes.value == small != 16 and param(at, "o.nodes") is None
    nodes.set_value(16).run()
    assert not at.exception and param(at, "o.nodes") == "16"
    again = page(**{"proposer": "eagle", "o.nodes": "16"})
    assert again.number_input(key="o.eagle.nodes").value == 16 and not again.warning
    assert page(model="bundled", proposer="eagle").number_input(key="o.eagle.nodes").value == 16
    lanes = core.usual({"eagle": defaults.options(defaults.REAL, "eagle"), "medusa": {}})
    assert lanes[0].options["nodes"] == small and core.from_address([], lanes) == (list(lanes), [])


def test_a_link_with_the_options_of_the_usual_proposer_names_it(shelf: ModelCache) -> None:
    """Catches: options in the address that the next visitor's page takes for another proposer's."""
    shelf.get(REAL)
    at = page(**{"o.max_ngram": "2"})
    assert not at.warning and at.selectbox(key="proposer").value == "prompt-lookup"
    at.run()
    assert param(at, "proposer") == "prompt-lookup" and param(at, "o.max_ngram") == "2"


def test_what_a_link_says_wrongly_about_the_template_is_said(shelf: ModelCache) -> None:
    """Catches: a value that no widget can hold, which would end the page in an error."""
    at = page(chat="perhaps", system="x" * 600)
    assert len(at.warning) == 1
    assert (
        "chat template is used has to be true or false" in at.warning[0].value.replace("\\", "")
        and "500" in at.warning[0].value
    )


def test_only_what_can_run_is_offered_first() -> None:
    """Catches: a default proposer whose trained part does not ship, so that the first Run is refused."""
    assert defaults.proposers(defaults.REAL, there=lambda part: False)[0] == "prompt-lookup"
    assert defaults.proposers(defaults.REAL, there=lambda part: True)[0] == "eagle"
    assert defaults.proposers(defaults.TINY)[0] == "draft-model"
    assert defaults.proposers("somebody/else")[0] == "draft-model"
    assert presets.kind("nobody's text") is None
