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
from app.decoding.loaded import Loaded
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.runs import Runs
from app.lanes import lane as core
from app.records import visitor
from app.text import plain
from specdec_core.models.assembling import assemble
from specdec_core.models.generation import Generation
from tests.app.conftest import OPERATOR, scripted_family
from tests.core.tiny import build, tokenizer

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
REAL = ModelChoice(defaults.REAL)
CHAT_PROMPTS = """title = "Questions"
description = "Short questions."
audience = "chat"
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


def verdicts(at: AppTest) -> str:
    """What is said beside a finished run's figures."""
    return "\n".join(block.value for block in at.markdown if "All of this is with" in block.value)


def authored(shelf: ModelCache, penalty: float | None) -> None:
    """Load the chat model, whose generation config sets that penalty."""
    family = shelf.get(REAL)
    assert isinstance(family, Loaded)
    family.models.generation = Generation({} if penalty is None else {"repetition_penalty": penalty})


def finished(at: AppTest) -> Any:
    """The page's run after Run was pressed."""
    at.button(key="go").click().run()
    assert not at.exception and not at.error, at.error
    run = services.runs().get(param(at, "run"))
    assert run is not None and run.wait(60)
    return run


def test_nothing_that_a_page_shows_changes_when_the_default_is_there(shelf: ModelCache) -> None:
    """Catches: an example, a proposer or options that are exchanged under the eyes of who looks at them."""

    def shown(at: AppTest) -> list[Any]:
        found = [
            (each.key, each.value) for each in [*at.selectbox, *at.slider, *at.text_area, *at.text_input]
        ]
        return sorted((key, str(value)) for key, value in found)

    lab, beside = page(tokens="8"), AppTest.from_file(MAIN, default_timeout=60)
    beside.switch_page("app_pages/compare.py").run()
    mine = page(tokens="8", prompt="my own words", gamma="7")
    before = [shown(each) for each in (lab, beside, mine)]
    shelf.get(REAL)
    assert [shown(each.run()) for each in (lab, beside, mine)] == before
    assert lab.text_area(key="prompt").value == "Where is the cat?"
    assert "Answers questions" in lab.selectbox(key="model").help
    run = finished(mine)
    assert run.request.choice == REAL and run.templated
    header = run.traces[0].header
    assert header.chat and "<user> my own words" in "".join(header.prompt_texts)


def test_run_waits_for_the_default(shelf: ModelCache) -> None:
    """Catches: an answer of the tiny models to a question that was meant for the chat model."""
    run = finished(page(tokens="8"))
    assert run.request.choice == REAL and run.traces[0].header.chat


def test_the_page_shows_what_a_chat_model_reads(shelf: ModelCache) -> None:
    """Catches: a template that is applied unseen, and a system line that does not reach the model."""
    shelf.get(REAL)
    at = page(tokens="8", system="Be brief.")
    assert at.text_area(key="prompt").value == "Where is the cat?"
    read = [block.value for block in at.code]
    assert "<system> Be brief.\n<user> Where is the cat?\n<assistant> " in read
    run = finished(at)
    assert run.traces[0].header.system == "Be brief."


def test_the_template_can_be_switched_off(shelf: ModelCache) -> None:
    """Catches: a link's chat=false that changes nothing."""
    shelf.get(REAL)
    run = finished(page(tokens="8", chat="false", prompt="the cat sat"))
    assert not run.templated and not run.traces[0].header.chat


@pytest.mark.parametrize("path", ["app_pages/lab.py", "app_pages/compare.py"])
@pytest.mark.parametrize("authors", [None, 1.1])
def test_an_example_and_the_same_prompt_of_one_s_own_run_under_the_same_settings(
    shelf: ModelCache, path: str, authors: float | None
) -> None:
    """Catches: a penalty that only one's own prompts have; one by the model's authors that nobody sees."""
    authored(shelf, authors)
    found = []
    for prompt in ({}, {"prompt": "Where is the cat?"}, {"prompt": "Where is the dog?"}):
        at = AppTest.from_file(MAIN, default_timeout=60)
        at.switch_page(path)
        for key, value in {"tokens": "8", **prompt}.items():
            at.query_params[key] = value
        at.run()
        words = plain("With a repetition penalty of 1.1, as the model's authors set it")
        assert (words in said(at)) == (authors is not None)
        run = finished(at)
        found.append((run.request.lanes, [trace.header.settings for trace in run.traces.values()]))
        at.run()
        assert ("repetition penalty of 1.1" in verdicts(at)) == (authors is not None)
    assert found[0] == found[1] == found[2]
    assert {lane["repetition_penalty"] for _, lanes in found for lane in lanes} == {authors}


def test_a_verdict_under_a_penalty_offers_the_race_without_it(shelf: ModelCache) -> None:
    """Catches: a loss whose cause is named nowhere."""
    shelf.get(REAL)
    at = page(tokens="8", repetition_penalty="1.3", prompt="Where is the cat?")
    before = finished(at)
    at.run()
    assert "repetition penalty of 1.3" in verdicts(at)
    at.button(key="without_penalty").click().run()
    run = services.runs().get(param(at, "run"))
    assert run is not None and run is not before and run.wait(60) and not at.exception
    assert {lane.repetition_penalty for lane in run.request.lanes} == {1}
    at.run()
    assert "repetition penalty" not in verdicts(at) and param(at, "repetition_penalty") == "1"


def test_an_empty_penalty_is_the_model_s_own(shelf: ModelCache) -> None:
    """Catches: a box that shows 1 while another penalty applies, and no way to have none."""
    authored(shelf, 1.2)
    at = page(tokens="8")
    box = at.number_input(key="repetition_penalty")
    assert box.value is None and box.placeholder == "1.2, the model's own"
    box.set_value(1.0).run()
    assert "repetition penalty of" not in said(at)
    assert finished(at).request.lanes[0].repetition_penalty == 1
    tiny = page(model="bundled", tokens="8")
    assert tiny.number_input(key="repetition_penalty").placeholder == "none"
    assert finished(tiny).request.lanes[0].repetition_penalty is None


def test_a_link_can_ask_for_the_tiny_models(shelf: ModelCache) -> None:
    """Catches: a teacher's link to the tiny family that opens with the default one."""
    shelf.get(REAL)
    at = page(model="bundled", tokens="8")
    assert at.text_area(key="prompt").value == "a fox" and "toy text" in at.selectbox(key="model").help
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
    lanes = core.usual([defaults.begins(defaults.REAL, "eagle"), core.Lane("medusa")])
    assert lanes[0].options["nodes"] < small and core.from_address([], lanes) == (list(lanes), [])


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
    assert defaults.proposers(defaults.REAL, there=lambda part: True)[0] == "draft-model"
    assert defaults.proposers(defaults.TINY)[0] == "draft-model"
    assert defaults.proposers("somebody/else")[0] == "draft-model"
    assert presets.kind("nobody's text") is None
