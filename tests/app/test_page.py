"""The lab page, run in process: both themes, a whole run, bad input, and what a link carries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest

from app import services
from app.config import Policy
from app.decoding.api import DecoderLost
from app.decoding.loaded import Loaded
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.needs import Needs
from app.decoding.run import Request, Run
from app.decoding.runs import CurrentRun, Runs
from app.lanes import page_settings
from app.metrics.numbers import measured_speedup
from app.records import examples as recorded
from app.records import visitor
from app.running import flow
from app.text import plain
from app.ui import address, quirks
from specdec_core.engine.events import Ended
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace

from .conftest import OPERATOR, scripted_family

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"

pytestmark = pytest.mark.usefixtures("prompts")


def page(**params: str) -> AppTest:
    """The page after its first run."""
    at = AppTest.from_file(MAIN, default_timeout=30)
    for key, value in params.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def param(at: AppTest, key: str) -> str | None:
    """A parameter of the page's address."""
    value = at.query_params.get(key)
    return value[-1] if isinstance(value, list) else value


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception
    return at


def finish(at: AppTest, runs: Runs) -> AppTest:
    """Wait for the page's run, then let the page see that it ended."""
    run = runs.get(param(at, "run"))
    assert run is not None
    assert run.wait(20)
    at.run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    return "\n".join(
        element.value for kind in (at.error, at.warning, at.caption, at.markdown, at.info) for element in kind
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_renders_in_both_themes(fresh: Runs, theme: str) -> None:
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.context["theme"] = theme
    at.run()
    assert not at.exception
    assert at.title[0].value == "Specdec Lab"
    assert at.text_area(key="prompt").value == "a fox"
    assert at.button(key="stop_run").disabled


def test_a_run_ends_in_headline_numbers_and_charts(fresh: Runs) -> None:
    at = page(tokens="24")
    press(at, "go")
    finish(at, fresh)
    labels = [metric.label for metric in at.metric]
    assert labels == [
        "Measured speedup",
        "Modelled speedup",
        "Acceptance rate α",
        "Tokens per pass τ",
        "Target passes saved",
    ]
    assert all(metric.help for metric in at.metric)
    run = fresh.get(param(at, "run"))
    assert run is not None
    stats = run.traces[1].stats
    shown = {metric.label: metric.value for metric in at.metric}
    assert shown["Acceptance rate α"] == f"{stats.acceptance_rate:.0%}"
    assert shown["Tokens per pass τ"] == f"{stats.tokens_per_pass:.2f}"
    assert shown["Target passes saved"] == f"{stats.tokens - stats.target_passes} of {stats.tokens}"
    # The chart beside it counts the passes that were needed: the same figures.
    sources = [note.value for note in at.caption]
    said = f"measured · {stats.target_passes} passes for {stats.tokens} tokens"
    assert any(source.startswith(said) for source in sources)
    assert run.traces[0].stats.target_passes == stats.tokens
    assert "speculation changed the time, not the text" in words(at).replace("\\", "")
    assert len(at.get("plotly_chart")) == 2
    assert at.button(key="stop_run").disabled


def test_text_that_repeats_is_named_beside_every_figure(fresh: Runs) -> None:
    """The scripted target says the alphabet again and again. Catches: one figure of a loop that goes without the word,
    the word where nothing repeats."""
    at = page(tokens="40")
    press(at, "go")
    finish(at, fresh)
    assert [note.value.count("80% of the text repeats") for note in at.caption if "·" in note.value].count(
        1
    ) >= 5
    said = words(at).replace("\\", "")
    assert "The last 32 of 40 tokens repeat the same 8 tokens." in said
    at = page(tokens="40", proposer="none")
    press(at, "go")
    finish(at, fresh)
    assert "The last 32 of 40 tokens repeat the same 8 tokens." in words(at).replace("\\", "")
    at = page(tokens="20")
    press(at, "go")
    finish(at, fresh)
    assert "repeat" not in words(at)


def test_a_speedup_above_tokens_per_pass_is_not_shown_without_its_reason(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: 6.26× from 4.75 tokens per pass as a plain measurement, or a warning where nothing is wrong."""
    at = page(tokens="40")
    press(at, "go")
    finish(at, fresh)
    run = fresh.get(param(at, "run") or "")
    assert run is not None
    traces = run.traces
    for share, flagged in ((1.3, True), (0.7, False)):
        speed = share * (traces[0].stats.tokens_per_second or 0.0) * (traces[1].stats.tokens_per_pass or 0.0)
        changed = {**traces, 1: replace(traces[1], stats=replace(traces[1].stats, tokens_per_second=speed))}
        monkeypatch.setattr(Run, "traces", property(lambda run, changed=changed: changed))
        at.run()
        assert not at.exception
        said = words(at).replace("\\", "")
        assert ("above τ: timing noise" in said) == ("That cannot be" in said) == flagged


def test_above_temperature_0_the_page_says_that_the_texts_differ(fresh: Runs) -> None:
    at = page(tokens="16", temperature="0.8")
    press(at, "go")
    finish(at, fresh)
    assert "two different texts" in words(at).replace("\\", "")
    assert "measured · texts differ" in words(at)


def test_plain_decoding_alone_shows_no_speedup(fresh: Runs) -> None:
    at = page(tokens="8", proposer="none")
    press(at, "go")
    finish(at, fresh)
    assert "speedup" not in " ".join(metric.label for metric in at.metric)


def test_settings_come_from_the_address_and_go_back_to_it(fresh: Runs) -> None:
    at = page(
        gamma="7",
        temperature="0.5",
        proposer="prompt-lookup",
        rule="token-matching",
        seed="9",
        tokens="12",
        prompt="abc",
    )
    assert at.slider(key="gamma").value == 7
    assert at.selectbox(key="proposer").value == "prompt-lookup"
    assert at.text_area(key="prompt").value == "abc"
    at.text_area(key="prompt").set_value("abcd")
    at.slider(key="gamma").set_value(2).run()
    assert param(at, "prompt") == "abcd"
    press(at, "go")
    run = fresh.get(param(at, "run"))
    assert run is not None
    plain, lane = run.request.lanes
    assert run.request.prompt == "abcd"
    assert (plain.proposer, lane.proposer, lane.rule) == ("none", "prompt-lookup", "token-matching")
    assert (lane.draft_length, lane.temperature, lane.seed, lane.max_new_tokens) == (2, 0.5, 9, 12)
    assert plain.but(proposer=lane.proposer, rule=lane.rule) == lane


def test_settings_stay_while_other_pages_are_shown_and_the_way_back_has_those_of_its_address(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: what was set lost by a look at another page, which a shared link would then lose too; a setting of the
    other page in place of the default, back on a page whose address does not name it."""
    at = page(tokens="61")
    at.slider(key="temperature").set_value(0.5)
    at.slider(key="gamma").set_value(7).run()
    for name, drawn in (("library", {}), ("compare", {"tokens": "61", "temperature": "0.5"}),
                        ("lab", {"tokens": "61", "temperature": "0.5", "gamma": "7"})):  # fmt: skip
        at.query_params.clear()
        at.switch_page(f"app_pages/{name}.py").run()
        assert not at.exception
        assert {key: param(at, key) for key in at.query_params} == drawn
    assert at.number_input(key="tokens").value == 61 and at.slider(key="gamma").value == 7
    at.query_params.clear()
    at.query_params["tokens"] = "9"
    at.switch_page("app_pages/compare.py").run()
    monkeypatch.setattr(address, "came_by_history", lambda: True)
    monkeypatch.setattr(quirks, "came_by_history", lambda: True)
    at.query_params.clear()
    at.query_params["seed"] = "3"
    at.switch_page("app_pages/lab.py").run()
    assert {key: param(at, key) for key in at.query_params} == {"seed": "3"}
    assert at.number_input(key="tokens").value == 128 and at.slider(key="gamma").value == 4


def test_an_example_fills_the_prompt_and_the_own_text_comes_back(fresh: Runs) -> None:
    at = page(prompt="my own words")
    assert at.button_group(key="family").value == "own"
    at.button_group(key="family").set_value("code").run()
    assert at.text_area(key="prompt").value == "def add(a, b):"
    assert param(at, "preset") == "code/add"
    assert "prompt" not in at.query_params
    assert "Brackets are easy" in words(at)
    at.button_group(key="family").set_value("own").run()
    assert at.text_area(key="prompt").value == "my own words"


@pytest.mark.parametrize("address", [{}, {"prompt": "older words"}, {"preset": "code/add"}])
def test_what_was_typed_while_the_server_was_started_again_is_not_lost(
    fresh: Runs, address: dict[str, str]
) -> None:
    """Catches: a session that begins with an example, although the browser sends its visitor's words."""
    box = page().text_area(key="prompt").proto.id
    at = AppTest.from_file(MAIN, default_timeout=30)
    for key, value in address.items():
        at.query_params[key] = value
    at._run(WidgetStates(widgets=[WidgetState(id=box, string_value="my own words")]))
    assert at.text_area(key="prompt").value == "my own words"
    assert param(at, "prompt") == "my own words"
    assert param(at, "preset") is None


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("", "The prompt is empty"),
        ("  \n\t ", "The prompt is empty"),
        ("x" * 100_000, "The prompt has 100,000 characters; at most 20,000 are taken"),
    ],
)
def test_a_prompt_that_cannot_be_run_is_a_sentence_and_stays(fresh: Runs, prompt: str, sentence: str) -> None:
    at = page()
    at.text_area(key="prompt").set_value(prompt)
    press(at, "go")
    assert sentence in words(at).replace("\\", "")
    assert at.text_area(key="prompt").value == prompt
    assert fresh.counts() == {"loading": 0, "queued": 0, "running": 0, "asking": 0, "writing": 0, "done": 0}


@pytest.mark.parametrize(
    "prompt", ["🦊 abc 👩‍👩‍👧", "مرحبا abc بالعالم", "abc<script>alert(1)</script>", "$abc$ :red[a]"]
)
def test_any_text_is_taken_as_text(fresh: Runs, prompt: str) -> None:
    at = page(tokens="4", prompt=prompt)
    press(at, "go")
    finish(at, fresh)
    assert not at.error
    assert at.text_area(key="prompt").value == prompt
    run = fresh.get(param(at, "run"))
    assert run is not None
    assert run.request.prompt == prompt


def test_a_refusal_of_the_core_is_shown_and_nothing_is_lost(fresh: Runs) -> None:
    # no letter of the scripted alphabet: an empty prompt without a BOS token
    at = page(prompt="XYZ", tokens="4")
    press(at, "go")
    finish(at, fresh)
    assert len(at.error) == 1
    assert at.text_area(key="prompt").value == "XYZ"


NONSENSE = {
    "gamma": "-3", "temperature": "nan", "top_p": "-inf", "repetition_penalty": "0", "min_p": "2",
    "no_repeat_ngram_size": "1.5", "generation": "maybe", "seed": "99999999999999999999", "tokens": "0",
    "proposer": "magic", "rule": "<script>", "model": "../../etc", "device": "toaster", "colour": "red",
    "preset": "story/nope", "prompt": "x" * 30_000,
}  # fmt: skip


def test_an_address_that_makes_no_sense_is_a_sentence_for_each_value_and_the_rest_of_it_holds(
    fresh: Runs,
) -> None:
    """Catches: a value that no widget takes, which would end the page in an error; one that nobody hears of."""
    at = page(top_k="5", **NONSENSE)
    assert len(at.warning[0].value.splitlines()) == len(NONSENSE)
    assert at.number_input(key="top_k").value == 5
    assert at.text_area(key="prompt").value == "x" * page_settings.MAX_PROMPT
    assert {key for key in at.query_params if at.query_params[key]} == {"top_k", "colour"}
    press(at, "go")
    assert param(at, "run") is not None


@pytest.mark.parametrize(
    ("key", "typed", "said"),
    [
        ("tokens", 999_999, "The number of new tokens has to be a whole number from 1 to 1024, not 999,999."),
        ("tokens", 0, "not 0."),
        ("top_k", -1, "Top-k has to be a whole number from 0 to 1000, not -1."),
        ("repetition_penalty", 99.0, "The repetition penalty has to be a number from 0.5 to 2, not 99."),
        ("seed", 2**40, "The seed has to be"),
        ("memory", -5.0, "The memory budget has to be"),
    ],
)
def test_a_number_out_of_range_reaches_the_page_which_refuses_it(
    fresh: Runs, key: str, typed: float, said: str
) -> None:
    """Streamlit's own bounds keep it in the browser. Catches: a run with the number before, without a word; a number
    that is refused for ever."""
    at = page(prompt="once", tokens="8")
    box = at.number_input(key=key)
    assert not (box.proto.has_min or box.proto.has_max)
    usable = box.value
    box.set_value(typed).run()
    assert not at.exception
    said = plain(said)
    beside, below = [line.value for line in (*at.markdown, *at.caption) if said in line.value]
    assert ":material/block:" in beside and ":material/block:" in below
    press(at, "go")
    assert param(at, "run") is None and said in at.error[0].value
    at.number_input(key=key).set_value(usable).run()
    press(at, "go")
    assert param(at, "run") is not None


def test_an_unusable_option_leaves_the_other_controls_as_they_are(fresh: Runs) -> None:
    """Catches: choices that are named anew meanwhile, whose old titles the browser then sends: the page ended."""
    at = page(proposer="eagle")
    before = at.selectbox(key="length").options
    nodes = at.number_input(key="o.eagle.nodes")
    for typed in (999_999, nodes.value):
        at.number_input(key="o.eagle.nodes").set_value(typed).run()
        assert not at.exception and at.selectbox(key="length").options == before
    at.session_state["length"] = before[0]
    at.run()
    assert not at.exception and at.session_state["length"] == "fixed"


def test_penalties_of_a_link_reach_both_lanes_and_open_ones_stay_open(fresh: Runs) -> None:
    """Catches: a setting that is drawn and not asked for, a lane without it, a default that switches a model's own
    penalty off."""
    at = page(tokens="8", repetition_penalty="1.3", no_repeat_ngram_size="3")
    press(at, "go")
    finish(at, fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None
    for trace in run.traces.values():
        chosen = trace.header.settings
        assert (chosen["repetition_penalty"], chosen["no_repeat_ngram_size"], chosen["min_p"]) == (
            1.3,
            3,
            None,
        )


def test_what_the_model_asks_for_is_shown_and_can_be_switched_off(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a generation config that is followed in silence, or a switch that changes the words and not the run."""
    from specdec_core.models.generation import Generation

    loaded = services.shelf().get(ModelChoice())
    assert isinstance(loaded, Loaded)
    monkeypatch.setattr(loaded.models, "generation", Generation(requests={"repetition_penalty": 1.4}))
    at = page(tokens="8")
    assert "repetition_penalty = 1.4: applied" in words(at).replace("\\", "")
    at.toggle(key="generation").set_value(False).run()
    assert "repetition_penalty = 1.4: switched off" in words(at).replace("\\", "")
    press(at, "go")
    finish(at, fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None
    assert run.traces[1].header.settings["repetition_penalty"] == 1.0


def test_a_link_about_the_generation_config_that_makes_no_sense_is_a_sentence(fresh: Runs) -> None:
    assert "has to be true or false" in words(page(generation="maybe"))


@pytest.mark.parametrize("run_id", ["nope", "../../x", "<b>", "x" * 3_000])
def test_a_link_to_a_run_that_is_no_longer_kept_says_so(fresh: Runs, run_id: str) -> None:
    assert "no longer kept" in words(page(run=run_id)).replace("\\", "")


def test_a_model_that_does_not_exist_is_a_sentence(monkeypatch: pytest.MonkeyPatch, fresh: Runs) -> None:
    from specdec_core.foundations.errors import ModelError

    def load(choice: ModelChoice) -> object:
        raise ModelError("There is no model 'no/such': neither a folder here nor an id on the hub.")

    shelf = ModelCache(load, lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: visitor.of_session())
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    at = page(model="other", target="no/such")
    assert at.text_input(key="target").value == "no/such"
    press(at, "go")
    finish(at, runs)
    assert "There is no model" in words(at).replace("\\", "")
    at.text_input(key="target").set_value("../../etc/passwd")
    press(at, "go")
    assert "is not a model's name" in words(at).replace("\\", "")


def test_a_folder_below_the_root_is_loaded_and_then_known_to_the_page(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs, tmp_path: Path
) -> None:
    from specdec_measure import testing

    from .conftest import next_probs

    (tmp_path / "mine").mkdir()
    seen = []

    def load(choice: ModelChoice) -> Loaded:
        seen.append(choice.target)
        return Loaded(testing.scripted(next_probs))

    shelf = ModelCache(load, lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: visitor.of_session())
    monkeypatch.setattr(services, "operator", lambda: Policy(models="any", models_root=tmp_path.resolve()))
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    at = page(model="other", target="mine", tokens="4", proposer="prompt-lookup", prompt="abc")
    press(at, "go")
    finish(at, runs)
    assert seen == [str(tmp_path.resolve() / "mine")]
    assert at.metric[0].label == "Measured speedup"
    # Without a draft, the proposer that needs one says so where it is chosen.
    at.selectbox(key="proposer").set_value("draft-model").run()
    assert "needs a draft model" in words(at).replace("\\", "")


def test_only_the_bundled_models_are_offered_where_the_operator_wants_it(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs
) -> None:

    monkeypatch.setattr(services, "operator", lambda: Policy(models="bundled"))
    at = page(model="other", target="someone/else")
    assert at.selectbox(key="model").options == ["Bundled pair: two tiny models"]
    assert "does not exist here" in words(at).replace("\\", "")


def test_while_the_models_warm_up_the_page_says_so_a_race_plays_and_run_waits(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs
) -> None:
    import threading

    gate = threading.Event()
    shelf = ModelCache(lambda choice: gate.wait(20) and scripted_family(), lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: visitor.of_session())
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    shelf.warm()
    given = played(monkeypatch)
    link = {"tokens": "4", "seed": "11", "proposer": "prompt-lookup", "o.max_ngram": "5"}
    at = page(**link)
    assert "it begins as soon as they are there" in words(at)
    assert given[-1]["autoplay"] and len(given[-1]["traces"]) == 2, "a recorded race plays meanwhile, unasked"
    press(at, "go")
    assert not at.button(key="stop_run").disabled
    gate.set()
    finish(at, runs)
    assert at.metric[0].label == "Measured speedup"
    assert {key: param(at, key) for key in link} == link, "a link that is lost while models load"
    assert at.number_input(key="seed").value == 11 and at.slider(key="o.prompt-lookup.max_ngram").value == 5
    run = runs.get(param(at, "run"))
    assert run is not None and (run.request.lanes[1].seed, run.request.lanes[1].options) == (
        11,
        {"max_ngram": 5},
    )


FIRST_LINKS = {
    "lab": {"seed": "11", "proposer": "prompt-lookup", "o.max_ngram": "5", "prompt": "my own"},
    "compare": {"tokens": "24", "lane": ["branching;o.width=5", "draft-model;gamma=2"]},
    "course": {"lesson": "race"},
    "library": {"q": "abc", "sort": "speedup"},
}
FIRST_PAGES = """
import functools, importlib, json, pkgutil, sys
import app, app.web.server
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

# Once, as a server does: AppTest would search all installed packages for every page.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)
heavy = lambda: sorted({"torch", "transformers"} & set(sys.modules))
for module in pkgutil.walk_packages(app.__path__, "app."):
    # a page's script is drawn below; replicas are imported by Ray, which is an extra; to preload is to import torch
    apart = "app.main", "app.web.server", "app.decoding.on_ray.replica", "app.decoding.in_child.preload"
    if module.name not in apart and ".app_pages" not in module.name:
        importlib.import_module(module.name)
found = {"modules": heavy()}
for page, query in json.loads(sys.argv[2]).items():
    at = AppTest.from_file(sys.argv[1], default_timeout=60)
    if page != "lab":
        at.switch_page(f"app_pages/{page}.py")
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    drawn = [*at.slider, *at.selectbox, *at.text_area, *at.text_input, *at.number_input]
    found[page] = {
        "heavy": heavy(),
        "complaints": [each.value for each in [*at.exception, *at.error, *at.warning]],
        "address": {key: value for key, value in at.query_params.items() if value},
        "values": {each.key: each.value for each in drawn},
        "buttons": [each.key for each in at.button],
    }
print(json.dumps(found))
"""


def test_before_torch_is_imported_every_page_is_drawn_and_keeps_its_link() -> None:
    """Catches, in the first seconds of a server: an import in its own or the pages' modules that keeps visitors waiting
    (torch and transformers take seconds, and come with the first models), a page that needs them to draw a link's
    values, and a link that loses a part as long as nothing is loaded."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PAGES, str(MAIN), json.dumps(FIRST_LINKS)],
        capture_output=True,
        text=True,
        cwd=MAIN.parents[1],
        env={**os.environ, **OPERATOR},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("modules") == [], "a module of the app imports a heavy package"
    for name, query in FIRST_LINKS.items():
        shown = found[name]
        assert shown["heavy"] == [] and shown["complaints"] == [], name
        assert shown["address"] == query, name
    lab = found["lab"]["values"]
    assert (lab["seed"], lab["prompt"], lab["o.prompt-lookup.max_ngram"]) == (11, "my own", 5)
    assert found["compare"]["values"]["tokens"] == 24 and "go" in found["compare"]["buttons"]
    assert "course-lock" in found["course"]["buttons"]
    assert (found["library"]["values"]["q"], found["library"]["values"]["sort"]) == ("abc", "speedup")


def test_a_run_that_began_as_its_script_was_cut_short_is_shown_by_the_next(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs
) -> None:
    """Catches: a run that goes on unseen because a rerun came between its start and the note of it in the address."""
    from streamlit.runtime.scriptrunner_utils.exceptions import StopException

    start = CurrentRun.start

    def cut_short(desk: CurrentRun, request: Request) -> Run:
        start(desk, request)
        raise StopException

    monkeypatch.setattr(CurrentRun, "start", cut_short)
    at = page(tokens="6")
    at.button(key="go").click().run()
    assert "run" not in at.query_params
    at.run()
    finish(at, fresh)
    assert at.metric[0].label == "Measured speedup"


def test_an_old_result_says_so_once_the_settings_or_the_prompt_are_others(fresh: Runs) -> None:
    """Catches: a result under settings that did not make it, with no word about it; the word where it is not true."""
    at = finish(press(page(), "go"), fresh)
    assert "This is your last run" not in words(at)
    at.slider(key="gamma").set_value(7).run()
    assert "This is your last run\\: Draft model, γ \\= 4, on “a fox”" in words(at)
    at.slider(key="gamma").set_value(4).run()
    assert "This is your last run" not in words(at)
    at.text_area(key="prompt").set_value("").run()
    assert "This is your last run" in words(press(at, "go"))


def test_the_bundled_models_are_introduced_where_the_prompt_is_the_visitor_s_own(fresh: Runs) -> None:
    """Catches: a visitor who asks two tiny models for facts, unwarned."""
    assert "The bundled models are tiny" not in words(page())
    assert "The bundled models are tiny" in words(page(prompt="Who wrote Faust?"))
    assert "The bundled models are tiny" not in words(page(prompt="Who wrote Faust?", model="gpt2"))


def test_what_a_model_needs_of_the_memory_is_said_before_it_is_loaded(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a model whose size is known only when loading it fails; a look-up for models that are loaded."""
    from specdec_core.foundations.errors import ModelError

    asked: list[str | None] = []
    answered = threading.Event()

    def look(choice: ModelChoice) -> tuple[str, bool]:
        asked.append(choice.target)
        answered.wait(60)
        if choice.target == "no/such":
            raise ModelError("There is no model 'no/such'.")
        return f"{choice.target} needs about 9.0 GB, and cpu has 5.0 GB free.", choice.target != "too/large"

    needs = Needs(look)
    monkeypatch.setattr(services, "needs", lambda: needs)
    page()
    assert asked == []
    assert "Looking up how much memory" in words(page(model="other", target="some/model"))
    answered.set()
    for name, said in (
        ("some/model", "needs about 9.0 GB"),
        ("too/large", "needs about"),
        ("no/such", "no model"),
    ):
        while needs.of(ModelChoice(name)) is None:
            time.sleep(0.01)
        at = page(model="other", target=name)
        assert said in words(at).replace("\\", "") and not at.exception
        assert any(said in warning.value for warning in at.warning) == (name == "too/large")
    assert asked == ["some/model", "too/large", "no/such"]


def test_the_draft_length_is_offered_only_where_it_is_heeded(fresh: Runs) -> None:
    """Catches: a slider that moves and changes nothing."""
    for name, kind in PROPOSERS.items():
        uses_length = name != "none" and "length" in kind.uses
        assert page(proposer=name).slider(key="gamma").disabled is not uses_length, name


def test_a_length_policy_that_changes_nothing_is_said(fresh: Runs) -> None:
    """Catches: a policy that was chosen, is not used, and seems to have worked."""
    assert "changes nothing here" in words(page(proposer="prompt-lookup", length="confidence"))
    assert "changes nothing here" not in words(page(length="confidence"))


def played(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the player is given from now on."""
    given: list[dict[str, Any]] = []
    draw = flow.player
    monkeypatch.setattr(flow, "player", lambda **shown: given.append(shown) or draw(**shown))
    return given


def recorded_prompt(name: str) -> str:
    path = MAIN.parents[1] / "assets" / "traces" / f"{name}.json"
    return str(json.loads(path.read_text(encoding="utf-8"))["header"]["prompt"])


def test_before_a_run_the_chosen_proposer_s_recording_plays_and_says_that_it_is_one(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs
) -> None:
    """Catches: a draft model at temperature 0 under a form that asks for Medusa heads at temperature 1, unsaid."""
    given = played(monkeypatch)
    at = page(proposer="medusa", temperature="1")
    assert [lane["url"] for lane in given[-1]["traces"]] == [
        "/traces/medusa-plain.json",
        "/traces/medusa.json",
    ]
    assert given[-1]["provenance"] == "recorded"
    assert "A recording." in words(at)
    assert recorded.find("medusa").look_for in words(at).replace("\\", ""), "what to notice"  # type: ignore[union-attr]
    assert PROPOSERS["medusa"].summary in at.selectbox(key="proposer").help
    at.selectbox(key="proposer").set_value("none").run()
    assert [lane["url"] for lane in given[-1]["traces"]] == ["/traces/none.json"]
    assert "A recording." in words(at)


@pytest.mark.parametrize("after", [1, 2])
def test_what_a_run_wrote_before_its_decoder_died_stays(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Catches: a page that shows nothing of a run that was cut off, or the figures of the one lane that ended."""

    class Dying(Loaded):
        def race(self, *given: Any, **named: Any) -> Any:
            events = super().race(*given, **named)
            ends = 0
            while ends < after:  # dies right before a lane ends
                event = next(events)
                ends += isinstance(event, Ended)
                if ends < after:
                    yield event
            raise DecoderLost("The decoder stopped.")

    dying = Dying(scripted_family().models)
    monkeypatch.setattr(fresh, "_load", lambda choice, gone: dying)
    given = played(monkeypatch)
    at = finish(press(page(tokens="12"), "go"), fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None and run.error == "The decoder stopped." and run.failed_midway
    assert (given[-1]["mode"], given[-1]["events"]) == ("live", run.events_path)
    assert not at.metric and "Plain decoding alone" not in words(at)


def test_under_a_run_that_is_gone_a_recording_says_what_it_is(fresh: Runs) -> None:
    """Catches: a link to a run that is gone, and an unrelated race below as if it were that run."""
    at = page(run="gone", prompt=recorded_prompt("welcome"))
    assert "no longer kept" in words(at) and "A recording." in words(at)


def test_the_first_thing_shown_is_the_recorded_race_and_its_best_round_is_one_press_away(
    monkeypatch: pytest.MonkeyPatch, fresh: Runs
) -> None:
    """Catches: a finish that is not the recording's own; a step into another recording; a round without a rejection."""
    given = played(monkeypatch)
    at = page()
    plain_lane, lane = (
        Trace.from_json(recorded.files()[f"landing{end}"].read_bytes()) for end in ("-plain", "")
    )
    gain = measured_speedup(plain_lane.stats, lane.stats)
    shown = "".join(str(block.proto.body) for block in at.get("html"))
    assert f"{gain:.1f} times as fast, the same text." in shown and not given
    assert plain_lane.token_ids == lane.token_ids
    press(at, "step")
    assert [lane["url"] for lane in given[-1]["traces"]] == [
        "/traces/landing-plain.json",
        "/traces/landing.json",
    ]
    row = lane.rounds[given[-1]["cursor"]["round"] - 1]
    assert "rejected" in row.nodes.verdict and "accepted" in row.nodes.verdict
    assert "A recording." in words(at)


def test_another_recording_begins_anew(fresh: Runs) -> None:
    """Catches: the round at which one recording was left, in the next."""
    at = page(round="3", proposer="medusa")
    assert param(at, "round") == "3"
    at.selectbox(key="proposer").set_value("eagle").run()
    assert param(at, "round") is None


def test_a_preset_that_sets_the_temperature_leaves_no_warning_in_the_log(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a widget with a default whose value the page sets; Streamlit says so once, with a stack trace."""
    from streamlit.elements.lib import policies

    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    warned: list[str] = []
    monkeypatch.setattr(policies._LOGGER, "warning", lambda said, *given, **_: warned.append(said % given))
    at = page()
    at.switch_page("app_pages/compare.py").run()
    at.menu_button(key="ready_made").click("lossy").run()
    assert (
        not at.exception and at.slider(key="temperature").value == 0.8 and param(at, "temperature") == "0.8"
    )
    assert warned == []
