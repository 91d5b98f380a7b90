"""What is on screen follows from the trace up to the cursor and from nothing else: neither from the way there nor from
what comes later. Held for every bundled trace: the way there and back for each of its events."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.player.conftest import Server, data, open_player
from tests.player.samples import plain_trace, spec_trace

pytestmark = pytest.mark.browser

TRACES = Path(__file__).resolve().parent.parent.parent / "assets" / "traces"
POISON = 999_999
Record = dict[str, Any]

SHARES = 6  # tests over which the traces are spread, so that one that fails names few

# Walks by keys through all events and back, and through all rounds and back; says where the page was not what it had
# been. Pages are compared by a hash, as thousands of them would not fit into the memory of a small machine. The player
# scrolls once per frame, and a frame comes when we say so: at each round, where the text has changed; laying out the
# text at each event as well would take most of the time. How the lanes stand is compared as well then.
WALK = """most => {
  const box = shadow.querySelector(".player");
  const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const real = window.requestAnimationFrame;
  let frames = [];
  window.requestAnimationFrame = (action) => frames.push(action);
  const frame = () => frames.splice(0).forEach((action) => action());
  const hash = (text) => {
    let [low, high] = [0xdeadbeef, 0x41c6ce57];
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      low = Math.imul(low ^ code, 2654435761);
      high = Math.imul(high ^ code, 1597334677);
    }
    return `${text.length} ${low} ${high}`;
  };
  const end = () => ` ${shadow.querySelector(".slider").value}`;
  const padding = / style="block-size: \\d+px;"/g; // below the text, from the last frame
  const event = () => hash(box.outerHTML.replaceAll(padding, "") + end());
  const round = () => {
    frame();
    return hash(`${box.outerHTML}${end()} ${[...shadow.querySelectorAll(".pane")].map((pane) => pane.scrollTop)}`);
  };
  const unseen = document.createElement("style"); // lays out nothing but the lanes: nothing else scrolls with the text
  unseen.textContent = ".player .stage > :not(.lanes) { display: none }";
  shadow.append(unseen);
  const differ = [];
  const where = () => shadow.querySelector(".where").textContent;
  const check = (look, seen, way) => look() === seen || differ.push(`${way}: ${where()}`);
  const walk = (on, back, look, pass) => {
    press("Home");
    const seen = [look()];
    pass(seen[0]);
    while (seen.length <= most) {
      press(on);
      const now = look();
      if (now === seen.at(-1)) break;
      seen.push(now);
      pass(now);
    }
    for (let at = seen.length - 1; at >= 0; at -= 1) {
      check(look, seen[at], `${back} to ${at}`);
      press(back);
    }
    press("End");
    check(look, seen.at(-1), "End");
    press("Home");
    check(look, seen[0], "Home");
    return seen.length;
  };
  const known = new Set();
  const events = walk("ArrowRight", "ArrowLeft", event, (seen) => known.add(seen));
  const rounds = walk("ArrowDown", "ArrowUp", round, () =>
    known.has(event()) || differ.push(`no event looks like a round: ${where()}`));
  unseen.remove();
  window.requestAnimationFrame = real;
  return { events, distinct: known.size, rounds, differ };
}"""
# The player's elements once it has scrolled, which it does in a frame.
PAGE = "() => new Promise(requestAnimationFrame).then(() => shadow.querySelector('.player').outerHTML)"


def bundled() -> list[str]:
    """The bundled traces by name, without the plain lanes that were recorded beside them."""
    return [path.stem for path in sorted(TRACES.glob("*.json")) if not path.stem.endswith("-plain")]


def lanes_of(name: str) -> list[Record]:
    """A bundled trace behind its plain lane, where it has one."""
    files = [TRACES / f"{name}-plain.json", TRACES / f"{name}.json"]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]


def moments(lane: Record, number: int) -> int:
    """How many events round `number` has, counted from the record."""
    verdicts = lane["rounds"][number]["nodes"]["verdict"]
    judged = sum(verdict in ("accepted", "rejected") for verdict in verdicts)
    if lane["header"].get("judging") == "longest":
        judged = min(judged, 1)
    return (1 if verdicts else 0) + 1 + judged + 1


def show(page: Page, lanes: list[Record], **cursor: int | None) -> None:
    traces = [
        {"label": f"{at} {lane['header']['settings']['proposer']}", "trace": lane}
        for at, lane in enumerate(lanes)
    ]
    open_player(page, traces=traces, cursor={"round": None, "node": None, **cursor})


@pytest.mark.parametrize("share", range(SHARES))
def test_every_event_looks_the_same_there_and_back(page: Page, share: int) -> None:
    """Catches: a view that keeps something of where it came from, an event without its own picture, one too few."""
    page.set_default_timeout(60_000)
    for name in bundled()[share::SHARES]:
        lanes = lanes_of(name)
        for lead, lane in enumerate(lanes):  # the plain lane is a bundled trace too
            show(page, lanes, lead=lead)
            rounds = 1 + len(lane["rounds"])  # the prompt is where they begin
            events = 1 + sum(moments(lane, number) for number in range(rounds - 1))
            walked = page.evaluate(WALK, events + 2)
            later = walked["rounds"] - rounds  # one more where another lane ends later
            assert later in (0, 1), (name, lead)
            assert walked["events"] == walked["distinct"] == events + later, (name, lead)
            assert walked["differ"] == [], (name, lead)


def poisoned(lanes: list[Record], number: int, step: int | None) -> list[Record]:
    """The same lanes with another future, as seen from event `step` of the last lane's round `number` (from 0).

    Every token, verdict, probability and coin that had not come by then is another one; how many rounds there are,
    how large, and how long they took, stays.
    """
    lanes = copy.deepcopy(lanes)
    lead = lanes[-1]
    row = lead["rounds"][number]
    size = moments(lead, number)
    whole = step is None or step >= size - 1
    clock = sum(row[part] for part in ("start_s", "draft_s"))
    if whole or (step or 0) >= (1 if row["nodes"]["token"] else 0):
        clock += row["verify_s"]
    if whole:
        clock += row["judge_s"] + row["commit_s"]
    for lane in lanes:
        done = 0
        for index, other in enumerate(lane["rounds"]):
            parts = ("start_s", "draft_s", "verify_s", "judge_s", "commit_s")
            past = index <= number if lane is lead else sum(other[part] for part in parts) <= clock + 1e-9
            if not past:
                _spoil(other, range(len(other["nodes"]["token"])), committed=True, proposed=True)
            elif lane is lead and index == number and not whole:
                _spoil_moment(lane, other, step or 0)
            if past and not (lane is lead and index == number and not whole):
                done += len(other["committed"]["token"])
        pieces = lane["output"]["texts"]
        lane["output"]["texts"] = [
            *pieces[:done],
            *["POISON" + "☠" * (at % 3) for at in range(len(pieces) - done)],
        ]
        lane["texts"][str(POISON)] = "POISON"
        lane["stats"] = {}
        if done < len(pieces):
            lane["end"] = "cancelled"
    return lanes


def _spoil_position(position: Record, unchecked: bool) -> Record:
    """A place of which the token, the residual and the draw are not known yet, and before the check nothing of p."""
    strange = {"id": [POISON], "prob": [0.5], "tail": 0.5}
    hidden = {
        "token": POISON,
        "source": "plain",
        "residual": None if position["residual"] else strange,
        "draw": 0.123,
    }
    if unchecked:
        hidden |= {"p": strange, "model_p": strange, "entropy_p": 0.123, "overlap": 0.123}
    return {**position, **hidden}


def _spoil_moment(lane: Record, row: Record, step: int) -> None:
    """Another outcome of a round of which `step` events have been seen."""
    nodes = row["nodes"]
    verdicts = nodes["verdict"]
    judged = [at for at, verdict in enumerate(verdicts) if verdict in ("accepted", "rejected")]
    judged.sort(key=lambda at: (nodes["depth"][at], at))
    first = 2 if verdicts else 1
    seen = (
        judged
        if lane["header"].get("judging") == "longest" and step >= first
        else judged[: max(0, step - first + 1)]
    )
    hidden = [at for at in range(len(verdicts)) if at not in seen]
    row["committed"]["token"] = [POISON for _ in row["committed"]["token"]]
    # A place that is reached is known to be: q's distribution there from the start, p's from the check on.
    reached = {-1, *(at for at in seen if verdicts[at] == "accepted")}
    row["positions"] = [
        _spoil_position(item, step < first - 1) for item in row["positions"] if item["at"] in reached
    ]
    if row.get("block_mass"):
        row["block_mass"] = [0.123 for _ in row["block_mass"]]
    for name in ("coin", "threshold"):
        if nodes.get(name):
            nodes[name] = [
                0.987 if at in hidden and value is not None else value for at, value in enumerate(nodes[name])
            ]
    if step < (1 if verdicts else 0):
        for name in ("p", "model_p", "rank", "entropy", "p_max", "p_entropy", "recursive"):
            if nodes.get(name):
                nodes[name] = [
                    3 if name == "rank" else 0.123 if value is not None else None for value in nodes[name]
                ]
    other = {"accepted": "rejected", "rejected": "accepted"}
    for at in hidden:
        verdicts[at] = other.get(verdicts[at], verdicts[at])


def _spoil(row: Record, hidden: range, *, committed: bool, proposed: bool) -> None:
    nodes = row["nodes"]
    if proposed:
        nodes["token"] = [POISON for _ in nodes["token"]]
    nodes["verdict"] = ["pruned" if at % 2 else "rejected" for at in hidden]
    for name in ("p", "q", "model_p", "model_q", "coin", "threshold"):
        if nodes.get(name):
            nodes[name] = [None if value is None else 0.123 for value in nodes[name]]
    if committed:
        row["committed"]["token"] = [POISON for _ in row["committed"]["token"]]
        row["committed"]["source"] = ["plain" for _ in row["committed"]["source"]]
    row["positions"] = []
    row["note"] = {}
    row["riders"] = 7


def events_of(lane: Record) -> list[tuple[int, int | None]]:
    """Events to look at: of the round with the most to hide one of each kind."""
    richest = max(range(len(lane["rounds"])), key=lambda at: moments(lane, at))
    size = moments(lane, richest)
    steps = dict.fromkeys(step for step in (0, 1, size // 2) if step < size - 1)
    return [*((richest, step) for step in steps), (richest, None)]


@pytest.mark.parametrize("share", range(SHARES))
def test_another_future_changes_nothing_on_screen(page: Page, share: int) -> None:
    """Catches: any text, verdict, probability or coin that is in the page before its event, wherever it stands.

    The page of a trace must be, character by character, that of a trace with another future.
    """
    page.set_default_timeout(60_000)
    for name in bundled()[share::SHARES]:
        lanes = lanes_of(name)
        for number, step in events_of(lanes[-1]):
            show(page, lanes, round=number + 1, step=step)
            truth = page.evaluate(PAGE)
            show(page, poisoned(lanes, number, step), round=number + 1, step=step)
            other = page.evaluate(PAGE)
            at = next(
                (at for at, pair in enumerate(zip(truth, other, strict=False)) if pair[0] != pair[1]), None
            )
            said = "" if at is None else f"{truth[at - 120 : at + 80]!r} became {other[at - 120 : at + 80]!r}"
            assert truth == other, f"{name}, round {number + 1}, event {step}: {said}"


def test_the_poison_is_seen_once_it_is_reached(page: Page) -> None:
    """Catches: a poison that would go unnoticed, so that the test above could not fail."""
    lanes = [json.loads(plain_trace().to_json()), json.loads(spec_trace().to_json())]
    for number, step, later in ((2, 0, 1), (2, 1, 2), (2, 2, 4), (2, None, None)):
        spoiled = poisoned(lanes, number, step)
        after = {"round": number + 2, "step": None} if later is None else {"round": number + 1, "step": later}
        show(page, lanes, **after)
        truth = page.evaluate(PAGE)
        show(page, spoiled, **after)
        assert page.evaluate(PAGE) != truth, (number, step)


def test_an_address_opens_the_same_page_as_walking_there(page: Page, server: Server) -> None:
    """Catches: a cursor that the address cannot name, and one out of range that is not moved into it."""
    open_player(page, cursor={"round": 2, "node": None})
    page.locator(".player").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.evaluate("shadow.activeElement?.blur()")
    walked = page.evaluate(PAGE)
    open_player(page, cursor={"round": 3, "step": 2, "node": None})
    assert page.evaluate(PAGE) == walked
    for cursor, where in (
        ({"round": 99, "step": 4}, "The end: every lane has finished"),
        ({"round": -3}, "The prompt, before round 1"),
        ({"round": 3, "step": 99}, "Round 3 of 12"),
        ({"round": 3, "step": -1}, "Round 3 of 12: proposed"),
        ({"round": 3, "step": 0, "lead": 77}, "Round 3 of 12: proposed"),
        ({"round": 3, "lead": 0}, f"Round 3 of {len(plain_trace().rounds)}"),
        ({"round": "3", "step": 1.5, "view": "constructor"}, "Round 1 of 12"),  # none: the most telling one
    ):
        page.evaluate("data => open_player(data)", data(cursor=cursor))
        page.wait_for_function("where => shadow.querySelector('.where')?.textContent === where", arg=where)
