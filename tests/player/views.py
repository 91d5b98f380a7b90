"""The odds and the proposer's own view alone on a page, at any moment of a trace; and sample traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from playwright.sync_api import Page

import specdec_core as sd
from specdec_core.models.bundle import HubModel

PROMPT = (
    "Once upon a time, there was a little girl named Nora. Nora had a yellow kite that she loved very much. "
    "One windy day, she went to the park to fly it."
)
Moment = tuple[int, int | None, int | None]
ALL = None  # the moment at which a round was committed

_STAGE = """async text => {
  const record = JSON.parse(text); // as one text: Playwright would take a trace apart, value by value
  const names = ["model/model", "model/state", "model/moments", "odds/odds_view", "proposer/proposer_view"];
  const [model, state, moments, odds, proposer] = await Promise.all(names.map(name => import(`/player/${name}.js`)));
  const box = document.createElement("div");
  box.className = "player";
  window.lane = model.laneOf(record, "Lane");
  window.views = { odds: new odds.OddsView(), window: proposer.createWindow() };
  window.views.window.wake(true);
  box.append(views.odds.root, views.window.root);
  window.shadow.lastElementChild.replaceChildren(box);
  window.phases = stop => moments.momentsOf(lane, lane.rounds[stop - 1]).map(({ phase, node }) => [phase, node]);
  window.showMoment = (stop, event, node) => {
    const selection = node === null ? null : { lane: 0, round: stop - 1, node };
    const view = state.visible([lane], { stop, event, selection, lead: 0 });
    for (const each of Object.values(views)) each.show(view, {});
    return box.outerHTML;
  };
}"""


def stage(page: Page, record: sd.Trace | dict[str, Any]) -> None:
    """Open both views on a trace; `show_moment` then moves to a moment of it."""
    page.evaluate(_STAGE, record.to_json() if isinstance(record, sd.Trace) else json.dumps(record))


def show_moment(page: Page, stop: int, event: int | None = ALL, node: int | None = None) -> str:
    """Show round `stop` (from 1) at one of its moments; the page's elements as text."""
    html: str = page.evaluate("at => showMoment(...at)", [stop, event, node])
    return html


_LOOK = """([moments, press, what]) => {
  const [look, button] = [eval(what), press && eval(press)];
  return moments.map(([stop, event, node]) => {
    window.showMoment(stop, event, node);
    button?.()?.click();
    return look();
  });
}"""


def look(page: Page, moments: Iterable[Moment], what: str, press: str | None = None) -> list[Any]:
    """What a function of the page sees at each moment (stop, event, node), in one call: thousands would take minutes.

    A button that another function, `press`, finds is pressed there first.
    """
    seen: list[Any] = page.evaluate(_LOOK, [list(moments), press, what])
    return seen


def phases(page: Page, stop: int) -> list[tuple[str, int | None]]:
    """The moments of a round: the phase, and the judged node."""
    return [(phase, node) for phase, node in page.evaluate("stop => phases(stop)", stop)]


@cache
def models() -> sd.Models:
    """The bundled family, loaded once."""
    models = sd.load_models()
    assert isinstance(models.draft, HubModel)
    models.draft.mask = 1  # any token: for parallel-draft, whose guesses need not be good
    return models


@cache
def recorded(proposer: str, options: str = "{}", **changes: Any) -> sd.Trace:
    """A decode of the bundled models; `options` as JSON."""
    settings = sd.Settings(
        proposer=proposer,
        options=json.loads(options),
        **{"max_new_tokens": 24, "temperature": 1.0, "seed": 3, **changes},
    )
    return sd.decode(models(), PROMPT, settings)
