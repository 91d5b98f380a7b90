"""The live page as one HTML file: the form, the player, the engine and the models in it. It makes no request."""

from __future__ import annotations

import json
import re
import tomllib
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import specdec_core
from app.export.linker import link
from app.export.served import PLAYER, texts
from app.theme import CSS
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_measure.sweep import cases
from specdec_measure.sweep.totals import MIN_TOKENS

from . import files

APP = Path(__file__).resolve().parents[1]
HERE = Path(__file__).with_name("page")
LARGEST_SEED = 2**53 - 1  # that JavaScript counts to
PIECE = 65_536  # signs of a piece of base64: WebKit's parser takes a minute for one of twenty megabytes
OFFERED = ("draft-model", "branching", "prompt-lookup", "you", "none")
JUDGING = ("speculative-sampling", "exact-match", "token-matching", "typical")
SENTENCE = re.compile(r"(>\s*)([^<>\s][^<>]*[^<>\s])(?=\s*<)")  # between two tags of page.html
FIRST = "story"  # the family whose first prompt the page opens with
TITLE = "Watch speculative decoding happen, live"


def make(navigation: str = "", language: str = "en") -> str:
    """The whole document, about 24 MB; `navigation`: links to put above it, as HTML; `language`: "en" or "de".

    Raises:
        LinkError: the modules cannot be linked.
        ValueError: one sentence, if the models are of another kind than the engine reads.
    """
    code, style = _code(language)
    words = _words(language)
    title = escape(words.get(TITLE, TITLE))
    policy = (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}' "
        "'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Specdec Lab">
<title>{title} · Specdec Lab</title>
<link rel="icon" href="data:,">
<style>{CSS}{HERE.joinpath("page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
{navigation}
{_body(words)}
<script type="text/plain" id="player-style">{style}</script>
<script type="application/json" id="about">{_json(_about() | {"words": words})}</script>
<script type="text/plain" id="worker">{_worker()}</script>
<script>{code}</script>
{_pieces()}
</body>
</html>
"""


def _words(language: str) -> dict[str, str]:
    """What the page says in another language, by its English."""
    file = HERE / f"{language}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _body(words: dict[str, str]) -> str:
    """The page as it is before anything runs, from page.html."""
    html = HERE.joinpath("page.html").read_text(encoding="utf-8")
    html = SENTENCE.sub(lambda found: found[1] + words.get(" ".join(found[2].split()), found[2]), html)
    millions = f"{len(files.weights(files.TARGET)) / 2e6:.1f}"
    prompts = cases.shipped()
    named = {case.prompt: f"{case.family}: {case.name}" for case in prompts}
    return Template(html).substitute(
        title=escape(words.get(TITLE, TITLE)),
        millions=millions.replace(".", ",") if words else millions,
        first=escape(next(case.prompt for case in prompts if case.family == FIRST)),
        proposers=_options({name: PROPOSERS[name].title for name in OFFERED}),
        rules=_options({name: RULES[name].title for name in JUDGING}),
        gamma=Settings().draft_length,
        largest=LARGEST_SEED,
        examples=_options(named),
    )


def _options(named: dict[str, str]) -> str:
    return "".join(
        f'<option value="{escape(value)}">{escape(title)}</option>' for value, title in named.items()
    )


def _about() -> dict[str, Any]:
    """What the page has to know: models without their weights, titles, sentences."""
    models = {
        role: {"name": name, "config": files.config(name)}
        for role, name in (("target", files.TARGET), ("draft", files.DRAFT))
    }
    return {
        **models,
        "vocabulary": files.vocabulary(),
        "version": specdec_core.__version__,
        "usual": Settings().model_dump(mode="json"),
        "titles": {name: PROPOSERS[name].title for name in OFFERED},
        "rules": {name: {"title": RULES[name].title, "lossless": RULES[name].lossless} for name in JUDGING},
        "proposers": {name: PROPOSERS[name].summary for name in OFFERED},
        "least": MIN_TOKENS,
    }


def _pieces() -> str:
    things = {
        "plain": (files.ENGINE / "plain.wasm").read_bytes(),
        "relaxed": (files.ENGINE / "relaxed.wasm").read_bytes(),
        "draft": files.weights(files.DRAFT),
        "target": files.weights(files.TARGET),
    }
    return "\n".join(_of(name, b64encode(content).decode()) for name, content in things.items())


def _of(name: str, text: str) -> str:
    parts: Iterable[str] = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    return "\n".join(f'<script type="text/plain" data-of="{name}">{part}</script>' for part in parts)


@cache
def _code(language: str) -> tuple[str, str]:
    """The page's code, with the player's texts of a language, and the player's style."""
    own = {f"player/static/{module}": file for module, file in texts(language).items()}
    sheets = [path.read_text(encoding="utf-8") for path in sorted(PLAYER.glob("style/*.css"))]
    return link(APP, "live/page/page.js", "openPage", own), "\n".join(sheets).replace("</", "<\\/")


@cache
def _worker() -> str:
    return link(APP, "live/page/worker.js", "listen")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
