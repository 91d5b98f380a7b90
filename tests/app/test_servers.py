"""Running servers on the Library's page: what the operator allows, what is found, and servers that misbehave."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import config as policy
from app import services
from app.compare import whatif
from app.decoding.runs import Runs
from app.library import servers
from app.ui.state import State
from specdec_core.foundations.errors import SettingsError
from specdec_core.record.trace import Trace
from specdec_measure.analysis.whatif import on_clock
from specdec_measure.watching import asking, numbers, report
from specdec_measure.watching.cause import cause
from specdec_measure.watching.client import Server
from specdec_measure.watching.clock import ServedClock
from tests.core.watched_server import Handler, Planted, misbehave, served

from .kept import ANNA
from .library_page import page, param, words
from .tables import tables
from .test_whatif import opened

RATES = (0.8, 0.6, 0.5)


def allow(monkeypatch: pytest.MonkeyPatch, *urls: str, key: str = "") -> AppTest:
    """The Library's page of a server whose operator allows these."""
    operator = replace(services.operator(), endpoints=urls, watch_key=key)
    monkeypatch.setattr(services, "operator", lambda: operator)
    return page()


def watched(*planted: Planted) -> numbers.Watched:
    """What is found of the first server beside the others."""
    with ExitStack() as stack:
        legs = [
            asking.ask(Server(url), "x", asking.bodies(None)[:3], 60, time.monotonic() + 20)
            for url in [stack.enter_context(served(one)) for one in planted]
        ]
    return numbers.watched(legs[0], legs[1:])


def test_without_the_operators_word_nothing_is_there_but_a_sentence(saving: Runs) -> None:
    """Catches: an address that a visitor can type; the section shown on every server."""
    at = page()
    assert not any("Running servers" in one.label for one in at.expander)
    assert "to watch one here, its operator has to allow that" in words(at)
    assert not any(box.key in (State.server.key, State.beside.key) for box in at.selectbox)


def test_a_server_is_watched_and_its_cause_named(saving: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: another cause than the command line names, a table without numbers, draft lengths without times."""
    with ExitStack() as stack:
        main = stack.enter_context(served(Planted(rates=(0.01, 0.1, 0.1))))
        plain = stack.enter_context(served(Planted()))
        at = allow(monkeypatch, main, plain)
        at.selectbox(key=State.beside.key).set_value(plain).run()
        at.button(key="watch").click().run(timeout=60)
    assert not at.exception and not at.error
    assert "**The draft does not fit the model.**" in words(at)
    figures, lengths = tables(at)[-2:]
    assert {"a + b·k: a", "speedup", "accepted at position 3"} <= {row["measured"] for row in figures}
    assert lengths[3]["guesses a round"] == "3, as now" and lengths[4]["speedup, modelled"] == "unknown"
    found = at.session_state[State.watched.key][main]
    assert found.line is not None and found.plain_step_s is not None
    assert lengths[2]["speedup, modelled"] == f"{found.speedup_at(2):.2f}×"
    at.button(key="close-watched").click().run()
    assert "does not fit the model" not in words(at) and main in at.session_state[State.watched.key]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("stalls", "did not answer within 1"), ("drips", "did not answer within 1"),
        ("floods", "sends more than 8,000,000 bytes"), ("redirects", "is not followed"),
        ("lies", "contradict each other"), ("no page", "no page of vLLM"), ("refuses", "HTTP 401"),
        ("no HTTP", "could not be read"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("button", ["watch", "race-servers"])
def test_a_server_that_misbehaves_gets_one_sentence(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, odd: str, said: str, button: str
) -> None:
    """Catches: a page that hangs, fills the memory, follows a server elsewhere or shows a traceback."""
    monkeypatch.setattr(servers, "TIMEOUT", 1.0)
    with served(odd=odd) as url, served(Planted()) as other:
        at = allow(monkeypatch, url, other)
        at.selectbox(key=State.beside.key).set_value(other).run()
        began = time.monotonic()
        at.button(key=button).click().run(timeout=30)
        assert time.monotonic() - began < 12
    assert not at.exception and len(at.error) == 1 and said in at.error[0].value
    assert not services.library().runs_of(ANNA)
    assert servers._one_at_a_time.acquire(blocking=False), "still held after a failure"
    servers._one_at_a_time.release()


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("stalls", "did not answer within 1"), ("drips", "did not answer within 1"),
        ("floods", "sends more than 16,000,000 bytes"), ("one line", "sends more than 1,000,000 bytes"),
        ("redirects", "is not followed"), ("no page", "no token in it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("button", ["watch", "race-servers"])
def test_an_answer_that_misbehaves_gets_one_sentence(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, odd: str, said: str, button: str
) -> None:
    """Catches: a server with a good page of metrics whose answer stalls, floods or leads to another server."""
    monkeypatch.setattr(servers, "TIMEOUT", 1.0)
    monkeypatch.setattr(Handler, "do_POST", lambda handler: misbehave(handler, odd))
    with served() as url, served() as other:
        at = allow(monkeypatch, url, other)
        at.selectbox(key=State.beside.key).set_value(other).run()
        began = time.monotonic()
        at.button(key=button).click().run(timeout=30)
        assert time.monotonic() - began < 12
    assert not at.exception and len(at.error) == 1 and said in at.error[0].value
    assert not services.library().runs_of(ANNA) and not at.session_state[State.watched.key]


def test_the_operators_key_is_sent_and_never_shown(saving: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a key in the sentence of a server that repeats it."""
    heard: list[str] = []

    def refuse(handler: Any) -> None:
        heard.append(handler.headers["Authorization"])
        handler.send_response(403)
        handler.end_headers()
        handler.wfile.write(heard[-1].encode())

    monkeypatch.setattr("tests.core.watched_server.Handler.do_GET", refuse)
    with served() as url:
        at = allow(monkeypatch, url, key="sesame-open")
        at.button(key="watch").click().run(timeout=30)
    assert heard == ["Bearer sesame-open"] and "HTTP 403" in at.error[0].value
    assert "sesame" not in at.error[0].value


def test_only_one_visitor_measures_at_a_time(saving: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: two measurements that disturb each other."""
    with served() as url, servers._one_at_a_time:
        at = allow(monkeypatch, url)
        at.button(key="watch").click().run()
    assert [one.value for one in at.warning] == [servers.BUSY] and not at.error


def test_a_race_is_kept_and_opened(saving: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a baseline that is not the first lane, a race that counts as measured here, a lost guess."""
    planted = Planted(rates=RATES, detailed=True)
    with served(planted) as url, served(Planted()) as plain:
        at = allow(monkeypatch, url, plain)
        assert at.button(key="race-servers").disabled
        at.selectbox(key=State.beside.key).set_value(plain).run()
        at.button(key="race-servers").click().run(timeout=60)
    assert not at.exception and not at.error
    (saved,) = services.library().runs_of(ANNA)
    assert param(at, "run") == saved.id and saved.origin == "imported" and saved.prompt == asking.PROMPTS[0]
    assert [lane.plain for lane in saved.lanes] == [True, False] and saved.lanes[1].speedup is not None
    assert [lane.problem for lane in saved.lanes] == [None, None]
    data = services.library().trace(saved.id, 1, ANNA)
    assert data is not None and Trace.from_json(data).stats.accepted == sum(
        min(kept, written) for _, kept, written in planted.log
    )


def test_rounds_on_a_servers_clock_take_its_times(race_traces: list[Trace]) -> None:
    """Catches: drafting that is counted twice, a pass wider than any that is known given a time, a wrong width."""
    found = watched(Planted(rates=(0.8,) * 4, plain_s=0.004, guess_s=0.001), Planted(plain_s=0.004))
    clock = ServedClock(found)
    drafted = race_traces[1]
    result = on_clock(drafted, clock, clock.costs())
    times = [found.pass_s(row.width - 1) for row in drafted.rounds]
    tokens = len(drafted.token_ids)
    assert result.seconds == pytest.approx(sum(times)) and result.draft_s == 0  # type: ignore[arg-type]
    assert result.speedup == pytest.approx(tokens * found.pass_s(0) / sum(times))  # type: ignore[operator, arg-type]
    small = ServedClock(watched(Planted(rates=(0.8,), plain_s=0.004), Planted(plain_s=0.004)))
    with pytest.raises(SettingsError, match="is unknown: it was watched with up to 1 guesses a pass"):
        on_clock(drafted, small, small.costs())
    (said,) = whatif.results_of([drafted], small, small.costs())
    assert isinstance(said, str) and "is unknown" in said


def test_compare_offers_the_servers_that_were_watched(
    race_traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a machine that is not offered, one that is offered without times, a page that breaks on it."""
    found = watched(Planted(rates=(0.8,) * 4, plain_s=0.004), Planted(plain_s=0.004))
    timeless = replace(found, line=None)
    assert list(whatif.watched([timeless, found])) == ["watched.2"]
    assert "which does not exist" in whatif.nonsense({"machine": "watched.1"})[0]
    assert not whatif.nonsense({"machine": "watched.1"}, [found])
    at = opened(race_traces)
    at.session_state[State.watched.key] = {"x": found}
    at.run()
    assert not at.exception
    at.selectbox(key="machine").set_value("watched.1").run()
    assert not at.exception and not at.warning
    clock = ServedClock(found)
    result = on_clock(race_traces[1], clock, clock.costs())
    text = " ".join(one.value for one in at.markdown).replace("\\", "")
    assert f"{result.speedup:.2f}× there (modelled from recorded pass times)" in text
    assert tables(at)[-1][0]["drafting, modelled"] == "in its passes"


def test_a_file_of_the_command_line_is_read_for_this_session(saving: Runs) -> None:
    """Catches: numbers that are refused as no trace, kept as a run, or taken although they lie."""
    found = watched(Planted(rates=RATES, plain_s=0.004), Planted(plain_s=0.004))
    content = report.as_json(found, cause(found))
    at = AppTest.from_function(_importing, default_timeout=30)
    at.session_state["file"] = json.dumps(content, indent=1).encode()
    at.run()
    assert not at.exception and at.session_state["said"][0] is True
    assert at.session_state[State.watched.key] == {"w.json": found}
    at.session_state["file"] = json.dumps(content | {"step_s": -1}).encode()
    at.run()
    sound, said = at.session_state["said"]
    assert not sound and "what specdec watch writes: a share is not" in said.replace("\\", "")
    assert not services.library().runs_of(ANNA)


def _importing() -> None:
    import streamlit as st

    from app import services
    from app.library import imports

    st.session_state["said"] = imports._take("w.json", st.session_state["file"], services.library())


def test_addresses_are_the_operators_and_have_to_be_some() -> None:
    """Catches: a misspelled address that only a visitor would meet."""
    found = policy.read({"SPECDEC_LIBRARY": "", "SPECDEC_ENDPOINTS": " http://a:1/, https://b ,http://a:1"})
    assert found.endpoints == ("http://a:1", "https://b")
    assert policy.read({"SPECDEC_LIBRARY": ""}).endpoints == ()
    for wrong in ("ftp://x", "http://user:word@x", "http://x:99999"):
        with pytest.raises(ValueError, match=r"^SPECDEC_ENDPOINTS has to name servers by their addresses: "):
            policy.read({"SPECDEC_LIBRARY": "", "SPECDEC_ENDPOINTS": wrong})
    assert "sesame" not in repr(policy.read({"SPECDEC_LIBRARY": "", "SPECDEC_WATCH_KEY": "sesame"}))
