"""How long does a step of the player's cursor take in Chromium, on 256 tokens with the usual trees and with 64 nodes?

    python -m tests.load.player [--trace FILE] [--width PX] [--most STEPS] [--json FILE]

Records each trace with the bundled target and its EAGLE head beside a plain lane, at temperature 1 with the first seed
whose story is long enough, opens both in the player and steps through them by keys, by event and by round, forward and
back. A step is the key's handler and the layout it forces; its median and worst are printed, and the processor time of
the page's thread, which a busy machine affects less.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, Route, sync_playwright

from app.theme import CSS
from specdec_core.proposers import PROPOSERS

from ..chromium import chromium

STATIC = Path(__file__).resolve().parents[2] / "app" / "player" / "static"
HOST = "http://player.invalid/"  # answered from disk by `_serve`, never resolved
TYPES = {".js": "text/javascript", ".css": "text/css"}
PROMPT = "Once upon a time, there was a little girl named Lily. She"
TREES: dict[str, dict[str, int]] = {"usual": {}, "64 nodes": {"nodes": 64, "top_k": 10, "depth": 6}}
TOKENS = 256
SEEDS = 64

OPEN = """async ([data, css]) => {
  const { mount } = await import("/player.js");
  const shadow = document.getElementById("host").attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = css;
  const root = document.createElement("div");
  shadow.append(style, root);
  window.player = mount(root, data);
  window.shadow = shadow;
}"""

# One key press after the other, each with the layout it forces, and a frame in between as on a real screen.
WALK = """async ([key, most]) => {
  const box = shadow.querySelector(".player");
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
  const seen = () => shadow.querySelector(".where").textContent;
  const times = [];
  box.focus();
  for (let step = 0; step < most; step += 1) {
    const before = seen();
    const began = performance.now();
    box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    box.getBoundingClientRect();
    shadow.querySelector(".panels").getBoundingClientRect();
    times.push(performance.now() - began);
    if (seen() === before) break;
    await frame();
  }
  return times;
}"""


def record(tree: dict[str, int]) -> list[dict[str, Any]]:
    """A plain lane and an EAGLE lane of 256 tokens, as parsed JSON; `tree`: the head's options.

    Raises SystemExit where no seed gives a story that long.
    """
    import specdec_core as sd

    models = sd.load_models()
    lanes: list[dict[str, Any]] = []
    for proposer, chosen in (("none", {}), ("eagle", tree)):
        for seed in range(SEEDS):
            settings = sd.Settings(
                proposer=proposer, options=chosen, max_new_tokens=TOKENS, temperature=1.0, seed=seed
            )
            trace = sd.decode(models, PROMPT, settings)
            if len(trace.output.ids) == TOKENS:
                lanes.append(json.loads(trace.to_json()))
                break
        else:
            raise SystemExit(f"No seed below {SEEDS} gave {proposer} a text of {TOKENS} tokens; use --trace.")
    return lanes


def _serve(route: Route) -> None:
    name = route.request.url.removeprefix(HOST)
    if name == "":
        body = f'<!doctype html><meta charset="utf-8"><style>{CSS}</style><div id="host"></div>'
        route.fulfill(content_type="text/html", body=body)
    elif (file := STATIC / name).is_file():
        route.fulfill(content_type=TYPES[file.suffix], body=file.read_text(encoding="utf-8"))
    else:
        route.fulfill(status=404, body="")


def _thread_ms(session: CDPSession) -> float:
    metrics = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
    return 1000 * float(metrics["TaskDuration"])


def show(page: Page, traces: list[dict[str, Any]], note: str = "benchmark", **cursor: int) -> None:
    """Open the player alone on the traces, at a cursor; `note` says where they come from."""
    css = "\n".join(sheet.read_text(encoding="utf-8") for sheet in sorted(STATIC.glob("style/*.css")))
    data = {
        "mode": "replay",
        "traces": [
            {"label": PROPOSERS[trace["header"]["settings"]["proposer"]].title, "trace": trace}
            for trace in traces
        ],
        "cursor": cursor,
        "provenance": "recorded",
        "provenance_note": note,
    }
    page.route(f"{HOST}**", _serve)
    page.goto(HOST)
    page.evaluate(OPEN, [data, css])
    page.locator(".lane").first.wait_for()


def measure(page: Page, traces: list[dict[str, Any]], most: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step by what it does: `median`, `worst`, `steps`, and `thread` (processor time on average)."""
    show(page, traces, round=0)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    found = {}
    for title, key in (
        ("event on", "ArrowRight"),
        ("round back", "ArrowUp"),
        ("round on", "ArrowDown"),
        ("event back", "ArrowLeft"),
    ):
        before = _thread_ms(session)
        times = page.evaluate(WALK, [key, most])
        found[title] = {
            "steps": len(times),
            "median": statistics.median(times),
            "worst": max(times),
            "thread": (_thread_ms(session) - before) / len(times),
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", type=Path, action="append", help="a recorded trace instead, one per lane")
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--most", type=int, default=4_000, help="steps of each kind")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    given = [json.loads(file.read_text(encoding="utf-8")) for file in arguments.trace or []]
    cases = {"given": given} if given else {name: record(tree) for name, tree in TREES.items()}
    found: dict[str, dict[str, dict[str, float]]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, traces in cases.items():
            sizes = [len(row["nodes"]["token"]) for row in traces[-1]["rounds"]]
            print(
                f"{name}: {len(traces[-1]['output']['ids'])} tokens in {len(sizes)} rounds of up to {max(sizes)} nodes"
            )
            with browser.new_page(viewport={"width": arguments.width, "height": 900}) as page:
                found[name] = measure(page, traces, arguments.most)
            print(
                f"{'ms per step':14}{'steps':>8}{'median':>10}{'worst':>10}{'thread':>10}   wanted: ≤ 16, ≤ 50"
            )
            for title, row in found[name].items():
                print(
                    f"{title:14}{row['steps']:8}{row['median']:10.1f}{row['worst']:10.1f}{row['thread']:10.1f}"
                )
        browser.close()
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
