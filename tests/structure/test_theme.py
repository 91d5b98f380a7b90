"""Each colour is written once, in app/theme; it is used, and stands out from what it is drawn on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from app import theme
from app.theme import COLOURS, CSS, LANES, PAGE, PARTS, SOURCES, TEXT, mixed
from app.ui.chip import chip

ROOT = Path(__file__).resolve().parents[2]
THEME = ROOT / "app" / "theme" / "__init__.py"
FILES = {
    path: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "app").rglob("*"))
    if path.suffix in (".py", ".css", ".js") and path != THEME
}
LITERAL = re.compile(r"#(?:[\da-fA-F]{3,4}|[\da-fA-F]{6}|[\da-fA-F]{8})\b|\b(?:rgb|hsl)a?\(")
NAMED = re.compile(r"(?<=[ :,(])(?:white|black|gr[ae]y|red|orange|yellow|green|blue|purple)(?=[ ;,)])")
BESIDES = {"app/export/page.css": ["white", "black"]}  # paper and ink


def test_a_colour_is_written_in_the_theme_alone() -> None:
    """Catches: one more shade of blue, in a sheet of its own."""
    found = {}
    for path, text in FILES.items():
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        written = LITERAL.findall(code)
        if path.suffix == ".css":
            written += NAMED.findall(code)
        if written:
            found[str(path.relative_to(ROOT))] = written
    assert found == BESIDES


def test_hatching_names_the_space_it_is_mixed_in() -> None:
    """Catches: stripes of mixed colours that Firefox paints as nothing, or as one colour."""
    for path, text in FILES.items():
        for found in re.findall(r"repeating-linear-gradient\(\s*[^,]*,", text):
            assert found.endswith(" in srgb,"), (path, found)


def test_what_the_theme_names_is_used() -> None:
    """Catches: a colour that outlived what it was for."""
    code = "\n".join([*FILES.values(), CSS])
    defined = set(re.findall(r"--([a-z]+):", CSS))
    assert COLOURS.keys() < defined
    assert not {name for name in defined if f"var(--{name})" not in code}
    asking = [text for text in FILES.values() if "app.theme" in text]
    code = "\n".join([*asking, THEME.read_text(encoding="utf-8")])
    assert not [name for name in vars(theme) if name.isupper() and len(re.findall(rf"\b{name}\b", code)) < 2]


def test_a_property_that_is_used_is_defined() -> None:
    """Catches: a name that is misspelt or gone, which a browser passes over in silence."""
    code = "\n".join([*FILES.values(), CSS])
    used = set(re.findall(r"var\((--[a-z-]+)\)", code))
    assert {name for name in used if not re.search(rf"""{name}["']?[:,]""", code)} == set()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_streamlit_s_own_colours_are_those_of_the_theme(mode: str) -> None:
    told = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))["theme"][mode]
    ours = {name: getattr(pair, mode) for name, pair in COLOURS.items()}
    assert told == {
        "primaryColor": ours["accent"],
        "backgroundColor": ours["page"],
        "secondaryBackgroundColor": ours["panel"],
        "textColor": ours["text"],
        "borderColor": ours["border"],
        "linkColor": ours["accent"],
        "codeBackgroundColor": ours["panel"],
        "codeTextColor": ours["text"],
    }


def contrast(one: str, other: str) -> float:
    """WCAG's ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_stand_out() -> None:
    for name, pair in COLOURS.items():
        if name in ("page", "panel", "marked"):  # grounds of text
            assert min(map(contrast, TEXT, pair)) >= 4.5, name
        elif name != "border":
            assert min(map(contrast, pair, PAGE)) >= (3.0 if name == "lit" else 4.5), name
    drawn = {look.colour for look in LANES} | {look[0] for look in (*PARTS.values(), *SOURCES.values())}
    for colour in drawn:
        assert min(contrast(colour, page) for page in PAGE) >= 3.0, colour
        assert contrast(TEXT.light, mixed(colour, 0.2)) >= 4.5, colour
    for number in range(len(LANES)):
        letter = re.findall(r"color:(#\w+);background:(#\w+)", chip(number))
        assert [contrast(*pair) >= 4.5 for pair in letter] == [True]
