"""Markdown of lessons as HTML for plain pages. Formulas in running text become plain signs, and icons are left out."""

from __future__ import annotations

import re
from functools import lru_cache

from markdown_it import MarkdownIt

SIGNS = {
    "alpha": "α", "gamma": "γ", "sum": "Σ", "min": "min", "max": "max", "cdot": "·", "times": "×", "le": "≤", "ge": "≥",
    "tau": "τ", "infty": "∞", "approx": "≈", "to": "→", "sigma": "σ", "quad": " ", "ldots": "…", "dots": "…",
}  # fmt: skip
SPACED = frozenset("·×≤≥≈→")
LOW = str.maketrans("x01i", "ₓ₀₁ᵢ")
_FORMULA = re.compile(r"\$([^$\n]+)\$")
_ICON = re.compile(r":material/\w+:\s*")
_TINTED = re.compile(r":(?:green|red|blue|orange|violet|gray|grey)\[([^\]]*)\]")
_renderer = MarkdownIt("commonmark", {"html": False}).enable("table")


@lru_cache(maxsize=1024)
def html(text: str) -> str:
    """The text as HTML; markup in it is shown as text."""
    made: str = _renderer.render(_plainly(text))
    return made


@lru_cache(maxsize=1024)
def inline(text: str) -> str:
    """The same without the paragraph around it, for labels."""
    made: str = _renderer.renderInline(_plainly(text))
    return made


def _plainly(text: str) -> str:
    return _FORMULA.sub(lambda found: formula(found[1]), _TINTED.sub(r"\1", _ICON.sub("", text)))


def formula(tex: str) -> str:
    """A short formula in plain signs: of the kind that lessons have in a sentence."""
    tex = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", tex)
    tex = re.sub(r"\\(?:mathrm|text|operatorname)\{([^{}]*)\}", r"\1", tex)
    tex = re.sub(r"\\([a-zA-Z]+)", lambda found: _sign(found[1]), tex.replace(r"\,", " "))
    tex = re.sub(r"_\{?([x01i])\}?", lambda found: found[1].translate(LOW), tex)
    tex = re.sub(r"\^\{([^{}]{2,})\}", r"^(\1)", tex)  # without brackets it would be another number
    return re.sub(r"\s+", " ", re.sub(r"[{}]", "", tex)).strip()


def _sign(name: str) -> str:
    sign = SIGNS.get(name, name)
    return f" {sign} " if sign in SPACED else sign
