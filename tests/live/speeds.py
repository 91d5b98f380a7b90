"""`python -m tests.live.speeds [chromium]`: the live page's engine in node against the decoder, in turn, one thread
each; or the page itself in Chromium.

Tokens a second exclude prefill and recording, and are over all tokens of three shipped prompts of each family, 64 new
ones each, greedy, γ = 4; of each prompt the fastest of four runs counts, two in Chromium, as other programs only slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

from app.live.page import make
from specdec_measure.sweep import cases
from tests.chromium import chromium
from tests.live.engine import lane, node

FAMILIES, PROMPTS, TOKENS, ROUNDS, TIMES = ("code", "arithmetic", "story"), 3, 64, 2, 2
PROPOSERS = ("none", "draft-model")
Found = dict[str, list[float]]  # "code none 2" → tokens of the third prompt, and the fewest seconds


def prompts() -> list[tuple[str, str]]:
    """Each with its key."""
    found = cases.shipped(FAMILIES, PROMPTS)
    return [(f"{case.family} NAME {at % PROMPTS}", case.prompt) for at, case in enumerate(found)]


def core() -> Found:
    """The decoder in this process."""
    import specdec_core as sd

    models, found = sd.load_models(device="cpu"), Found()
    settings = {name: sd.Settings(proposer=name, max_new_tokens=TOKENS) for name in PROPOSERS}
    for _ in range(TIMES):
        for key, prompt in prompts():
            for name in PROPOSERS:
                trace = sd.decode(models, prompt, settings[name])
                add(found, key.replace("NAME", name), json.loads(trace.to_json())["stats"])
    return found


def add(found: Found, key: str, stats: dict[str, Any]) -> None:
    seconds = stats["draft_s"] + stats["verify_s"] + stats["other_s"]
    found[key] = [stats["tokens"], min(seconds, found.get(key, [0, seconds])[1])]


def in_node() -> Found:
    import specdec_core as sd

    lanes = [lane(sd.Settings(proposer=name, max_new_tokens=TOKENS)) for name in PROPOSERS]
    asked = [
        (key.replace("NAME", one["proposer"]), prompt, one) for key, prompt in prompts() for one in lanes
    ]
    found = Found()
    for _ in range(TIMES):
        runs = [{"prompt": prompt, "lanes": [one]} for _, prompt, one in asked]
        for (key, _, _), run in zip(asked, node("runs", build="relaxed", runs=runs), strict=True):
            add(found, key, run["traces"][0]["stats"])
    return found


def in_chromium(file: Path) -> tuple[Found, list[float], dict[str, Any]]:
    """Tokens and seconds, the seconds from opening the file to the first token, and what passes cost."""
    from playwright.sync_api import sync_playwright

    found = Found()
    opened: list[float] = []
    curve: dict[str, Any] = {}
    kept = """window.kept = []; const Own = Worker; window.Worker = class extends Own {
      set onmessage(take) { super.onmessage = (event) => {
        kept.push({...JSON.parse(event.data), at: performance.now()}); take(event); }; } }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        for key, prompt in prompts() * TIMES:
            page = browser.new_page()
            page.add_init_script(kept)
            page.goto(
                f"{file.as_uri()}#{urlencode({'prompt': prompt, 'tokens': TOKENS})}", wait_until="commit"
            )
            page.locator("#curve table").wait_for()
            said = page.evaluate("kept")
            opened.append(next(one["at"] for one in said if one["type"] == "step") / 1000)
            for one in said:
                if one["type"] == "finished":
                    record = one["record"]
                    add(found, key.replace("NAME", record["header"]["settings"]["proposer"]), record["stats"])
                elif one["type"] == "curve" and (
                    not curve or sum(one["curve"]["seconds"]) < sum(curve["seconds"])
                ):
                    curve = one["curve"]
            page.close()
        browser.close()
    return found, opened, curve


def speed(rounds: list[Found], family: str, name: str) -> float:
    keys = [f"{family} {name} {at}" for at in range(PROMPTS)]
    return sum(rounds[0][key][0] for key in keys) / sum(min(one[key][1] for one in rounds) for key in keys)


def show(title: str, rounds: list[Found]) -> None:
    for family in FAMILIES:
        plain, draft = (speed(rounds, family, name) for name in PROPOSERS)
        print(
            f"{title:20} {family:11} plain {plain:5.0f}  draft {draft:5.0f}  {draft / plain:.2f}×", flush=True
        )


def passes(given: dict[str, Any]) -> None:
    first = given["seconds"][0]
    row = ", ".join(f"{1000 * one:.2f} ({one / first:.2f})" for one in [*given["seconds"], given["draft"]])
    print(f"ms of passes over {given['widths']} tokens, and the draft's (of one): {row}", flush=True)


def against_the_decoder() -> None:
    command = [sys.executable, "-m", "tests.live.speeds", "core"]
    rounds: dict[str, list[Found]] = defaultdict(list)
    for _ in range(ROUNDS):
        rounds["engine in node"].append(in_node())
        for title, kernels in (("decoder, torch", "0"), ("decoder, kernels", "1")):
            here = {**os.environ, "OMP_NUM_THREADS": "1", "SPECDEC_KERNELS": kernels}
            done = subprocess.run(command, env=here, capture_output=True, text=True, check=True)
            rounds[title].append(json.loads(done.stdout.splitlines()[-1]))
    for title, found in rounds.items():
        show(title, found)
    passes(node("curve", build="relaxed"))


def of_the_page() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "live.html"
        file.write_text(make(), encoding="utf-8")
        found, opened, curve = in_chromium(file)
    show("page in Chromium", [found])
    passes(curve)
    every = [round(one, 2) for one in sorted(opened)]
    print(f"seconds from opening to the first token: {median(opened):.2f}, {every}")


if __name__ == "__main__":
    if sys.argv[1:] == ["core"]:
        print(json.dumps(core()))
    elif sys.argv[1:] == ["chromium"]:
        of_the_page()
    else:
        against_the_decoder()
