"""The what-if view: its choices in the address, its charts and sentences against the core's own numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.charts import whatif as charts
from app.compare import whatif
from specdec_core.foundations.errors import SettingsError
from specdec_core.record.trace import Trace
from specdec_measure.analysis.whatif import replay
from specdec_measure.machines import batches
from specdec_measure.machines.model_sizes import SHAPES
from specdec_measure.machines.profiles import Modelled, Profile, RecordedProfile, read, shipped

from .tables import tables

LABELS = ["A · Plain decoding", "B · Draft model"]


@cache
def known() -> dict[str, Profile]:
    return shipped()[0]


def of_kind(kind: type) -> str:
    return next(name for name, one in known().items() if isinstance(one, kind))


CARD = "h100-sxm"
UNESCAPED = re.compile(r"(?<!\\)(<img|\[a\]|\$x)")  # what would be read as HTML, a link, a formula


def page() -> None:
    """What the comparison page does with the view; `traces` come from the test."""
    import streamlit as st

    from app.compare import whatif_view

    whatif_view.show(st.session_state.traces, st.session_state.labels)


def opened(
    traces: list[Trace], labels: list[str] = LABELS, typed: Mapping[str, str] | None = None, **address: str
) -> AppTest:
    """The view with an address, and with what was typed into its controls."""
    at = AppTest.from_function(page, default_timeout=30)
    at.session_state["traces"] = traces
    at.session_state["labels"] = labels
    for key, value in (typed or {}).items():
        at.session_state[key] = value
    for key, value in address.items():
        at.query_params[key] = value
    return again(at)


def again(at: AppTest) -> AppTest:
    at.run()
    assert not at.exception
    return at


def address(at: AppTest) -> dict[str, str]:
    """What the address holds."""
    return {key: value[0] if isinstance(value, list) else value for key, value in at.query_params.items()}


def words(at: AppTest) -> str:
    return " ".join(
        element.value.replace("\\", "") for element in (*at.markdown, *at.caption, *at.warning, *at.info)
    )


def test_a_link_brings_every_choice_back(race_traces: list[Trace]) -> None:
    """Catches: a control that is not in the address, or that mends what was right."""
    given = {"machine": CARD, "target_size": "3B", "draft_size": "135M", "batch": "32", "context": "2048"}
    at = opened(race_traces, **given)
    assert address(at) == given and not at.warning
    assert at.selectbox(key="machine").value == CARD and at.select_slider(key="batch").value == "32"
    measured = batches.read()
    assert f"measured · {measured.machine}" in " ".join(one.value for one in at.caption), (
        "a batch has its measurement"
    )
    result = replay(race_traces[1], known()[CARD], batch=32, context=2048, target="3B", draft="135M")
    assert f"{result.speedup:.2f}× there (modelled)" in words(at)


def test_a_link_of_before_has_the_same_choices_under_today_s_names(race_traces: list[Trace]) -> None:
    """Catches: an old link whose choices are lost, or stay beside the new ones."""
    old = {"wp": CARD, "wt": "3B", "wd": "135M", "wb": "32", "wc": "2048"}
    at = opened(race_traces, **old)
    assert not at.warning
    assert address(at) == {whatif.OLD_KEYS[key]: value for key, value in old.items()}


def test_a_size_of_ones_own_is_taken_and_a_wrong_one_is_explained(race_traces: list[Trace]) -> None:
    """Catches: only named sizes, a link that loses one's own, and a typed word that is dropped without a word."""
    given = {"machine": CARD, "target_size": "14B", "draft_size": "700M"}
    at = opened(race_traces, **given)
    assert address(at) == given and not at.warning
    result = replay(race_traces[1], known()[CARD], context=128, target="14B", draft="700M")
    assert f"{result.speedup:.2f}× there (modelled)" in words(at) and "14B with 700M" in words(at)
    for key, typed, said in (
        ("draft_size", "20B", "20B is not smaller than 14B"),
        ("target_size", "large", "no model size 'large'"),
        ("target_size", "0B", "from 10M"),
    ):
        at = opened(race_traces, typed={key: typed}, machine=CARD, target_size="14B")
        assert said in at.warning[0].value.replace("\\", "")
        assert at.selectbox(key=key).value != typed and typed not in address(at).values()


def test_choosing_writes_the_address_and_defaults_leave_it(race_traces: list[Trace]) -> None:
    at = opened(race_traces)
    assert address(at) == {}
    at.selectbox(key="machine").set_value(CARD)
    again(at)
    at.select_slider(key="batch").set_value("64")
    again(at)
    at.selectbox(key="target_size").set_value("0.5B")
    again(at)
    assert address(at) == {"machine": CARD, "batch": "64", "target_size": "0.5B"}
    assert at.selectbox(key="draft_size").value == "135M"  # the draft of 8B is none for 0.5B
    at.select_slider(key="batch").set_value("1")
    again(at)
    assert "batch" not in address(at)
    at.selectbox(key="machine").set_value(of_kind(RecordedProfile))
    again(at)
    assert "target_size" not in address(at) and not [
        one for one in at.selectbox if one.key in ("target_size", "draft_size")
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"machine": "../../etc/passwd"}, "machine"),
        ({"machine": CARD, "batch": "1e9"}, "batch"),
        ({"machine": CARD, "batch": "-1"}, "batch"),
        ({"machine": CARD, "context": "NaN"}, "context"),
        ({"machine": CARD, "target_size": "9X"}, "target size"),
        ({"machine": CARD, "target_size": "1B", "draft_size": "8B"}, "draft size"),
        ({"machine": "amd-epyc-2-cores", "target_size": "8B"}, "target size"),
        ({"machine": "amd-epyc-2-cores", "batch": "7"}, "batch"),
        ({"machine": "<img src=x onerror=alert(1)>" * 20}, "machine"),
    ],
)
def test_what_a_link_says_wrongly_is_reported_in_a_sentence_and_mended(
    race_traces: list[Trace], given: dict[str, str], said: str
) -> None:
    """Catches: a wrong link that silently shows something else, and a complaint that never goes away."""
    at = opened(race_traces, **given)
    assert len(at.warning) == 1
    assert said in at.warning[0].value and len(at.warning[0].value) < 400
    assert not UNESCAPED.search(at.warning[0].value)
    mended = address(at)
    assert not whatif.problems(known(), mended)
    again(at)
    assert len(at.warning) == 1  # a rerun for another reason does not take the words away
    at.selectbox(key="machine").set_value("l4")
    again(at)
    assert not at.warning


def test_every_offer_of_the_controls_is_sound(race_traces: list[Trace]) -> None:
    """Each value that a control offers is accepted by the core. Catches: a draft as large as its target."""
    for name, profile in known().items():
        for target in whatif.options(known(), {"machine": name}).get("target_size", {"": ""}):
            offered = whatif.options(known(), {"machine": name, "target_size": target})
            for draft in offered.get("draft_size", {"": ""}):
                for batch, context in zip(
                    offered["batch"], [*offered["context"]] * len(offered["batch"]), strict=False
                ):
                    choice = whatif.WhatIfChoice(
                        name, int(batch), int(context), target or None, draft or None
                    )
                    try:
                        costs = whatif.costs_of(profile, choice)
                    except SettingsError:  # the one reason there may be
                        assert isinstance(profile, Modelled) and too_large(profile, choice)
                    else:
                        assert costs.ratio(1) == 1.0


def too_large(profile: Modelled, choice: whatif.WhatIfChoice) -> bool:
    """Whether weights and KV memory of both models exceed the machine's memory, in 16 bits."""
    numbers = 0
    for name in (choice.target, choice.draft):
        assert name is not None
        numbers += SHAPES[name].parameters + choice.batch * choice.context * SHAPES[name].kv_numbers
    return 2 * numbers > profile.memory_bytes


def test_it_opens_with_a_machine_that_suits_the_rounds(race_traces: list[Trace]) -> None:
    """Catches: rounds of one model that open on times recorded of another, with nothing that says so."""
    timed = next(one for one in known().values() if isinstance(one, RecordedProfile))
    for name, kind in ((timed.target.name, RecordedProfile), ("another model", Modelled)):
        target = replace(race_traces[0].header.target, name=name)
        traces = [replace(one, header=replace(one.header, target=target)) for one in race_traces]
        chosen = opened(traces).selectbox(key="machine").value
        assert isinstance(known()[chosen], kind)


def test_what_does_not_fit_is_said_and_nothing_is_drawn(race_traces: list[Trace]) -> None:
    at = opened(race_traces, machine="rtx-4090", target_size="70B")
    assert "has 24 GB" in words(at)
    assert not at.get("plotly_chart") and not tables(at)


def test_measured_and_modelled_stand_apart_and_say_which_they_are(race_traces: list[Trace]) -> None:
    """Catches: one figure out of two clocks, a measured speedup under another machine's name."""
    at = opened(race_traces, machine=CARD)
    result = replay(race_traces[1], known()[CARD], context=128, target="8B", draft="1B")
    measured = race_traces[1].stats.tokens_per_second / race_traces[0].stats.tokens_per_second  # type: ignore[operator]
    row = tables(at)[0][0]
    assert [*row][1:3] == ["speedup, measured", "speedup, modelled"]
    assert (
        row["speedup, measured"] == f"{measured:.2f}×"
        and row["speedup, modelled"] == f"{result.speedup:.2f}×"
    )
    assert "measured ·" in words(at) and "modelled · roofline of NVIDIA H100 SXM (80 GB)" in words(at)
    assert "Peak figures" in words(at) and "data sheet" in words(at)


def test_without_a_plain_lane_nothing_is_called_measured(race_traces: list[Trace]) -> None:
    at = opened(race_traces[1:], LABELS[1:], machine=CARD)
    assert tables(at)[0][0]["speedup, measured"] == "—"
    assert "not measured" in words(at)
    alone = opened(race_traces[:1], LABELS[:1])
    assert "add a lane that guesses" in words(alone)


def test_a_profile_without_a_draft_says_which_lane_it_cannot_time(
    race_traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a speedup made up for a lane that the profile cannot time, an empty chart, a file that fails unsaid."""
    one = json.loads(
        next(
            profile for profile in known().values() if isinstance(profile, RecordedProfile)
        ).model_dump_json()
    )
    for curve in one["curves"]:
        curve |= {"draft_widths": [], "draft_s": [], "draft_median_s": []}
    alone = read(json.dumps(one | {"draft": None}), "alone")
    monkeypatch.setattr(whatif, "profiles", lambda: ({"alone": alone}, ["bad.json is not a profile: x."]))
    at = opened(race_traces)
    assert "the profile knows none" in words(at)
    assert "bad.json is not a profile" in words(at)
    bars, _ = (json.loads(chart.proto.spec) for chart in at.get("plotly_chart"))
    assert bars["data"] == [] and "does not apply to these lanes" in json.dumps(bars["layout"])
    assert not tables(at) and "× there" not in words(at)


def test_the_line_at_1_crosses_no_figure(race_traces: list[Trace]) -> None:
    """A figure stands at the end of its bar. Catches: a line through “0.93×”."""
    result = replay(race_traces[1], known()[CARD])
    figure = charts.clocks(["one", "two"], [0.93, 0.87], [result, result], "here").figure
    lines = [(shape.y0, shape.y1) for shape in figure.layout.shapes]
    assert len(lines) == 3 and {shape.x0 for shape in figure.layout.shapes} == {1.0}
    half = (1 - figure.layout.bargap) / 2
    for at in (0, 1):
        assert all(end <= at - half + 1e-9 or start >= at + half - 1e-9 for start, end in lines)


def test_a_marker_s_place_and_size_are_explained(race_traces: list[Trace]) -> None:
    result = replay(race_traces[1], known()[CARD])
    said = charts.widths(result.costs, ["b"], [1], [result], "there").provenance
    assert said.startswith("there · a marker at n: ") and "the larger, the more of its rounds" in said


def test_the_bars_are_the_speedups(race_traces: list[Trace]) -> None:
    result = replay(race_traces[1], known()[CARD], batch=8)
    chart = charts.clocks(["one", "two", "one"], [1.5, None, 2.0], [result, result, None], "a machine, today")
    here, there = chart.figure.data
    assert [*here.x] == [1.5, None, 2.0] and [*there.x] == [result.speedup, result.speedup, None]
    assert here.marker.pattern.shape != there.marker.pattern.shape
    assert here.name.startswith("measured") and there.name.startswith("modelled")
    assert len({*here.y}) == 3  # two lanes of one name keep a row each
    assert "1.50 times, measured" in chart.alt and "nothing under the profile" in chart.alt
    assert "modelled · roofline" in chart.provenance


def test_the_curve_is_marked_where_the_rounds_were(race_traces: list[Trace]) -> None:
    result = replay(race_traces[1], known()[CARD], batch=64)
    chart = charts.widths(result.costs, ["b"], [1], [result], result.provenance)
    line, marks = chart.figure.data
    for width, ratio in zip(line.x, line.y, strict=True):
        assert ratio == pytest.approx(result.costs.target(width) / result.costs.target(1))
    assert dict(zip(marks.x, marks.customdata, strict=True)) == {
        width: result.widths.count(width) for width in {*result.widths}
    }
    assert all(y == pytest.approx(result.costs.ratio(x)) for x, y in zip(marks.x, marks.y, strict=True))


def test_hostile_labels_reach_the_charts_and_the_page_as_text(race_traces: list[Trace]) -> None:
    label = "<img src=x onerror=alert(1)> [a](javascript:b) $x$"
    at = opened(race_traces, ["plain", label], machine=CARD)
    assert not any(UNESCAPED.search(element.value) for element in (*at.markdown, *at.caption))
    result = replay(race_traces[1], known()[CARD])
    for chart in (
        charts.clocks([label], [1.0], [result], "here"),
        charts.widths(result.costs, [label], [1], [result], "there"),
    ):
        assert "<img" not in json.dumps([one.to_plotly_json() for one in chart.figure.data], default=str)


def test_the_sentence_about_the_knee_is_the_roofline_s(race_traces: list[Trace]) -> None:
    profile: Any = known()[CARD]
    assert isinstance(profile, Modelled)
    for batch in (1, 32, 256):
        choice = whatif.WhatIfChoice(CARD, batch, 512, "8B", "1B")
        result = replay(race_traces[1], profile, batch=batch, context=512, target="8B", draft="1B")
        said = whatif.sentences(["B"], [1.2], [result], profile, choice)
        widest = max(result.widths)
        assert f"over {widest} tokens costs {result.costs.ratio(widest):.2f} plain passes" in said[0]
        assert f"{profile.knee(SHAPES['8B'], batch, 512):,}" in said[2] or "one token" in said[2]


def test_only_pass_times_are_called_recorded(race_traces: list[Trace]) -> None:
    """Catches: a computed speedup that is called recorded, in a sentence, a table, a legend or a chart's source."""
    how = "modelled from recorded pass times"
    at = opened(race_traces, machine="h200-8b")
    assert f"× there ({how})" in words(at) and f"{how} · plain decoding there" in words(at)
    assert "speedup, modelled" in tables(at)[0][0]
    assert not any("recorded" in column for column in tables(at)[0][0])
    chart = charts.clocks(["b"], [1.0], [replay(race_traces[1], known()["h200-8b"])], "here")
    assert chart.figure.data[1].name.startswith("modelled · ") and f"times, {how}." in chart.alt
    assert chart.provenance.partition("|")[2].strip().startswith(f"{how} · NVIDIA H200, ")


def test_the_sentence_names_the_fastest_lane(race_traces: list[Trace]) -> None:
    """Catches: the words of the lane that sends the widest pass, whatever its speed; a bound that is called fastest."""
    profile = known()[CARD]
    choice = whatif.WhatIfChoice(CARD, 1, 512, "8B", "1B")
    one = replay(race_traces[1], profile, target="8B", draft="1B")
    faster, slow = replace(one, plain_s=3 * one.seconds), replace(one, plain_s=0.8 * one.seconds)
    bound = replace(one, plain_s=4 * one.seconds, off_the_clock=True)
    said = whatif.sentences(["B", "C", "D"], [1.1] * 3, [slow, faster, bound], profile, choice)[1]
    assert said.startswith("Fastest is C: 3.00× there (modelled)")
    said = whatif.sentences(["B", "C"], [1.1] * 2, [slow, slow], profile, choice)[1]
    assert said.startswith(
        "None is faster than plain decoding there. The fastest is B: 0.80× there (modelled)"
    )
    assert whatif.sentences(["B"], [1.1], [faster], profile, choice)[1].startswith(
        "B: 3.00× there (modelled)"
    )


def test_two_speedups_on_one_machine_say_why_they_differ(race_traces: list[Trace]) -> None:
    """Catches: a measured and a recorded speedup under one machine's name, 1.23 and 1.86 times, and no word."""
    name = of_kind(RecordedProfile)
    profile: Any = known()[name]
    plain = race_traces[0]

    def on(machine: str, target: str) -> list[Trace]:
        there = replace(plain.header, machine=machine, target=replace(plain.header.target, name=target))
        return [replace(plain, header=there), race_traces[1]]

    (curve,) = (one for one in profile.curves if (one.batch, one.context) == (1, profile.contexts(1)[0]))
    here = sum(row.verify_s for row in plain.rounds) / len(plain.rounds)
    ratio = here / curve.target_s[curve.widths.index(1)]
    at = opened(on(profile.machine, profile.target.name), machine=name)
    assert f"takes {1e3 * curve.target_s[0]:.1f} ms in the profile" in words(at)
    assert f"took {1e3 * here:.1f} ms in this run" in words(at) and f"{ratio:.2f} times as long" in words(at)
    assert f"{profile.measurements} measurements of {profile.date[:10]}" in words(at)
    silent = [
        opened(on("another machine", profile.target.name), machine=name),
        opened(on(profile.machine, "another model"), machine=name),
        opened(on(profile.machine, profile.target.name), machine=CARD),
    ]
    assert not any("Both clocks are of" in words(one) for one in silent)
