"""Options of every proposer, rule and length policy on the page: drawn from the core's tables, kept in the address."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field

from app.choosing import controls, defaults, form, lane_form, options
from app.decoding.runs import Runs
from app.lanes import lane
from app.metrics import numbers
from app.text import plain
from specdec_core.engine.choice import check
from specdec_core.foundations.options import OptionSet, fields
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.proposers.lookup.prompt_lookup import PromptLookup
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES, lossy
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.settings import Settings

from .test_page import finish, page, param, press, words

pytestmark = pytest.mark.usefixtures("prompts")
LOSSY = [name for name, rule in RULES.items() if not rule.lossless]


class Everything(OptionSet):
    """One option of each kind, for tests that must not depend on which proposers there are."""

    steps: int = Field(3, ge=1, le=16, description="How many.")
    many: int = Field(2000, ge=1, description="Without an upper bound.")
    share: float = Field(0.5, gt=0.0, le=1.0, description="How much.")
    tiny: float = Field(0.001, ge=0.0, le=1.0, description="A default no coarse slider can show.")
    cost: float | None = Field(None, ge=0.0, description="Measured if left out.")
    eager: bool = Field(True, description="Whether.")
    way: Literal["first", "last-one"] = Field("first", description="Which.")
    paths: list[list[int]] = Field(default_factory=list, description="Where.")
    name: str = Field("", description="What.")


class Lookup(PromptLookup):
    """Prompt lookup with every kind of option, which it ignores."""

    name = "test-lookup"
    title = "Test lookup"

    class Options(PromptLookup.Options, Everything):
        pass


class Bent(SpeculativeSampling):
    """A rule that calls itself lossy."""

    name = "test-bent"
    title = "Bent rule"
    summary = "Bends the distribution. It is for tests."
    lossless = False


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new proposer and a new rule: one entry in the core's tables each, and nothing else."""
    monkeypatch.setitem(PROPOSERS, Lookup.name, Lookup)
    monkeypatch.setitem(RULES, Bent.name, Bent)


def lane_of(at: Any, runs: Runs) -> Settings:
    run = runs.get(param(at, "run"))
    assert run is not None
    return run.request.lanes[1]


def test_a_new_proposer_s_options_are_on_the_page_without_a_line_of_the_app(fresh: Runs, own: None) -> None:
    """Catches: an option that gets no widget, the wrong one, or is not handed to the core."""
    at = page(proposer="test-lookup", tokens="6", prompt="abcabc")
    key = "o.test-lookup.{}".format
    assert at.slider(key=key("steps")).max == 16
    at.slider(key=key("steps")).set_value(5)
    at.number_input(key=key("many")).set_value(7)
    at.number_input(key=key("share")).set_value(0.25)
    at.number_input(key=key("tiny")).set_value(0.002)
    at.number_input(key=key("cost")).set_value(1.5)
    at.toggle(key=key("eager")).set_value(False)
    at.selectbox(key=key("way")).set_value("last-one")
    at.text_area(key=key("paths")).set_value("[[0], [0, 1]]")
    at.text_input(key=key("name")).set_value("x y").run()
    assert not at.exception
    press(at, "go")
    finish(at, fresh)
    wanted = {"steps": 5, "many": 7, "share": 0.25, "tiny": 0.002, "cost": 1.5, "eager": False, "way": "last-one",
              "paths": [[0], [0, 1]], "name": "x y"}  # fmt: skip
    assert lane_of(at, fresh).options == wanted
    link = {key: param(at, key) or "" for key in at.query_params if key.startswith("o.")}
    again = page(proposer="test-lookup", tokens="6", prompt="abcabc", **link)
    assert not again.warning
    press(again, "go")
    assert lane_of(again, fresh).options == wanted


def test_an_option_s_number_out_of_range_reaches_the_page_which_refuses_it(fresh: Runs, own: None) -> None:
    """Catches: a box with bounds, which Streamlit sends only if it fits: the run would take the number before."""
    at = page(proposer="test-lookup", tokens="6", prompt="abcabc")
    box = at.number_input(key="o.test-lookup.many")
    assert not (box.proto.has_min or box.proto.has_max)
    box.set_value(-1).run()
    press(at, "go")
    assert param(at, "run") is None
    (refused,) = at.error
    assert refused.value == plain("Many (Test lookup) has to be a whole number from 1, not -1.")
    assert any(refused.value in line.value for line in at.markdown)


def test_defaults_leave_the_address_clean(fresh: Runs) -> None:
    at = page(**{"proposer": "prompt-lookup", "o.max_ngram": "3"})
    assert not [key for key in at.query_params if "." in key]
    at.slider(key="o.prompt-lookup.max_ngram").set_value(4).run()
    assert param(at, "o.max_ngram") == "4"
    at.slider(key="o.prompt-lookup.max_ngram").set_value(3).run()
    assert "o.max_ngram" not in at.query_params


def test_an_option_comes_back_when_its_proposer_does_and_never_goes_to_another(
    fresh: Runs, own: None
) -> None:
    """Catches: options lost on a look at another proposer, and one that leaks because the name is the same."""
    at = page(**{"proposer": "prompt-lookup", "o.max_ngram": "6"})
    at.selectbox(key="proposer").set_value("test-lookup").run()
    assert "o.max_ngram" not in at.query_params
    assert at.slider(key="o.test-lookup.max_ngram").value == 3
    at.selectbox(key="proposer").set_value("prompt-lookup").run()
    assert at.slider(key="o.prompt-lookup.max_ngram").value == 6
    assert param(at, "o.max_ngram") == "6"


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        ("o.steps", "99", "Steps (Test lookup) has to be a whole number from 1 to 16; the link says “99”, so 3"),
        ("o.steps", "2.5", "has to be a whole number"),
        ("o.share", "0", "a number above 0 up to 1"),
        ("o.share", "nan", "a number above 0"),
        ("o.eager", "perhaps", "true or false"),
        ("o.way", "second", "one of first, last-one"),
        ("o.paths", "[[", "a list such as"),
        ("o.paths", '[["a"]]', "a list such as"),
        ("o.paths", "[" * 3_000, "a list such as"),
        ("o.cost", "-1", "so it is left out"),
        ("o.colour", "red", "Test lookup has no option “colour”"),
        ("r.threshold", "1", "Speculative sampling has no option “threshold”"),
        ("l.x", "1", "has no option “x”"),
    ],
)  # fmt: skip
def test_a_link_with_a_wrong_option_gets_a_sentence_and_the_rest_holds(
    own: None, key: str, text: str, sentence: str
) -> None:
    found, complaints = lane.read({"proposer": ["test-lookup"], "o.many": ["12"], key: [text]})
    assert len(complaints) == 1 and sentence in complaints[0]
    assert found == lane.Lane(proposer="test-lookup", options={"many": 12})
    assert lane.write(found) == {"o.many": ["12"]}
    check(found.settings(Settings()))


def test_the_page_says_what_is_wrong_with_a_link_s_option_and_corrects_the_address(
    fresh: Runs, own: None
) -> None:
    at = page(**{"proposer": "test-lookup", "o.many": "12", "o.steps": "99"})
    assert "the link says “99”, so 3 is used" in words(at).replace("\\", "")
    assert at.number_input(key="o.test-lookup.many").value == 12
    assert "o.steps" not in at.query_params and param(at, "o.many") == "12"
    press(at, "go")
    assert not at.error


def test_a_list_that_cannot_be_read_is_said_beside_run_and_stays(fresh: Runs, own: None) -> None:
    at = page(proposer="test-lookup")
    at.text_area(key="o.test-lookup.paths").set_value("[0,").run()
    assert "Paths (Test lookup) has to be a list" in words(at).replace("\\", "")
    press(at, "go")
    assert "Paths (Test lookup) has to be a list" in at.error[0].value.replace("\\", "")
    assert at.text_area(key="o.test-lookup.paths").value == "[0,"
    assert sum(fresh.counts().values()) == 0


def test_a_title_that_an_option_had_before_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser sends what the chosen option was called, also when it is called otherwise now. Catches: a form that
    cannot be closed, or loses its choice, after the proposer was changed."""
    held = {
        "lane1.proposer": "lookahead",
        "lane1.length": "Fixed γ",
        "last_picked": {"lane1.length": "confidence"},
    }
    monkeypatch.setattr(form.st, "session_state", held)
    found, why_not = form.read("lane1", lane.Lane())
    assert (found.proposer, found.length, why_not) == ("lookahead", "confidence", None)


def test_what_does_not_go_together_is_said_before_a_run(fresh: Runs) -> None:
    at = page(rule="exact-match", temperature="0.5")
    with pytest.raises(Exception) as refused:  # noqa: PT011 (the core's own sentence is what the page has to show)
        check(Settings(rule="exact-match", temperature=0.5))
    assert str(refused.value) in words(at).replace("\\", "")
    at.slider(key="temperature").set_value(0.0).run()
    assert str(refused.value) not in words(at).replace("\\", "")


def test_a_lossy_rule_is_labelled_everywhere_and_promises_no_equal_texts(fresh: Runs, own: None) -> None:
    """Catches: a list, a page or a result that shows a lossy rule as if it were none."""
    at = page(rule="test-bent", tokens="24")
    assert "lossy: Bent rule" in at.selectbox(key="rule").options
    assert "no longer follows the target model's own distribution" in words(at)
    press(at, "go")
    finish(at, fresh)
    run = fresh.get(param(at, "run"))
    assert run is not None
    assert run.request.labels[1] == "Draft model, γ = 4, lossy"
    shown = words(at).replace("\\", "")
    assert "Lossy: Bent rule changes the target's distribution." in shown
    assert "speculation changed the time, not the text" not in shown
    assert "measured · lossy rule" in shown


def test_lossless_rules_are_not_called_lossy(race_traces: list[Trace]) -> None:
    assert not any(lossy(trace) for trace in race_traces)
    for name, rule in RULES.items():
        assert lane_form.rule_title(name).startswith("lossy: ") == (not rule.lossless)


def test_the_length_policy_and_its_options_reach_the_core(fresh: Runs) -> None:
    name = next(name for name, kind in LENGTH_POLICIES.items() if kind.Options.model_fields)
    kind = LENGTH_POLICIES[name]
    field = next(field for field in fields(kind.Options).values() if field.kind in ("whole", "number"))
    value = field.high if field.high is not None else field.low
    at = page(**{"length": name, f"l.{field.name}": f"{value:g}", "tokens": "4", "memory": "64"})
    press(at, "go")
    lane = lane_of(at, fresh)
    assert (lane.length_policy, lane.length_options) == (name, {field.name: value})
    assert lane.memory_budget_mb == 64
    assert controls.label(lane) == "Draft model, γ up to 4"


def test_overlap_is_offered_only_where_the_proposer_can(fresh: Runs) -> None:
    at = page(proposer="prompt-lookup", overlap="true", tokens="4")
    assert at.toggle(key="overlap").disabled
    assert any("cannot do this" in (one.help or "").replace("\\", "") for one in at.markdown)
    press(at, "go")
    assert lane_of(at, fresh).overlap is False
    able = next((name for name, kind in PROPOSERS.items() if kind.can_overlap), None)
    if able is not None:
        at = page(proposer=able, overlap="true", tokens="4")
        assert not at.toggle(key="overlap").disabled
        press(at, "go")
        assert lane_of(at, fresh).overlap is True


def test_every_proposer_rule_and_policy_of_the_core_can_be_drawn_and_is_said_to_fit_or_not(
    fresh: Runs,
) -> None:
    """Catches: an option whose widget fails, e.g. a default outside what a slider can show."""
    at = page()
    for key, table in (("proposer", PROPOSERS), ("rule", RULES), ("length", LENGTH_POLICIES)):
        default = at.selectbox(key=key).value
        for name in table:
            at.selectbox(key=key).set_value(name).run()
            assert not at.exception, (key, name)
            assert param(at, key) == (None if name == default else name)
        at.selectbox(key=key).set_value(default).run()


def test_plain_decoding_stands_last_and_the_usual_proposer_first() -> None:
    offered = list(lane_form.proposers())
    assert offered[0] == defaults.proposers(defaults.REAL)[0]  # the family of who chose none
    assert offered[-1] == "none"
    assert set(offered) == set(PROPOSERS)


def test_the_formula_is_kept_to_the_lanes_it_holds_for() -> None:
    """Catches: a modelled speedup for a tree, a changing γ, or overlapped drafting."""
    assert numbers.unmodelled(Settings()) is None
    assert numbers.unmodelled(Settings(length_policy="confidence")) is not None
    assert numbers.unmodelled(Settings(overlap=True)) is not None
    for name, kind in PROPOSERS.items():
        lane = Settings(proposer=name)
        if "tree" in kind.drafts(lane):
            assert numbers.unmodelled(lane) is not None


def test_options_in_a_link_are_read_for_their_owner_only(own: None) -> None:
    """Catches: an option that is taken for another owner's because the name is the same."""
    found, complaints = lane.read({"o.steps": ["4"], "l.steps": ["4"], "prompt": ["a"]}, "test-lookup")
    assert (found.options, found.length_options) == ({"steps": 4}, {})
    assert len(complaints) == 1 and "has no option “steps”" in complaints[0]


def test_every_option_of_the_core_has_a_text_that_reads_back() -> None:
    """Catches: a default that a link cannot say, and an option without a description for its help."""
    for table in (PROPOSERS, RULES, LENGTH_POLICIES):
        for kind in table.values():
            for field in fields(kind.Options).values():
                assert field.help, (kind.name, field.name)
                if field.default is not None:
                    assert field.read(field.write(field.default)) == field.default, (kind.name, field.name)


def test_a_slider_is_drawn_only_where_it_can_hold_every_value() -> None:
    known = fields(Everything)
    assert options._slides(known["steps"], 1)
    assert not options._slides(known["many"], 1)
    assert not options._slides(known["share"], 0.01)  # its lower bound does not belong to the range
    assert not options._slides(known["tiny"], 0.01)


def test_a_value_that_cannot_be_used_gives_way_to_the_one_that_is_said() -> None:
    """Catches: “so 16 is used” of a tree whose usual size here is 8."""
    usual = {"nodes": 8}
    found, complaints = lane.read({"o.nodes": ["abc"], "o.depth": ["x"]}, "eagle", lambda proposer: usual)
    assert found.options == usual
    assert "so 8 is used" in complaints[0] and "so 5 is used" in complaints[1]
