"""What the room's pages make of words and numbers, run without a browser."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.course.files import reading
from app.course.files.words import Words
from app.records import examples
from app.room import lesson_plan

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "app" / "room" / "static"
PICTURES = ROOT / "app" / "course" / "pictures"
NODE = ROOT / ".venv" / "bin" / "node"
STAND_IN = """
const words = %s;
globalThis.document = {
  getElementById: (id) =>
    (id === "data" ? { textContent: JSON.stringify({ words, language: "%s", languages: [] }) } : null),
};
globalThis.location = { pathname: "%s" };
"""


def ran(script: str, language: str = "de", path: str = "/r/CODE34") -> Any:
    """What a module's script gives, as the page would in that language."""
    stand_in = STAND_IN % (json.dumps(lesson_plan.words(language)), language, path)
    modules = "".join(
        f'const {name} = await import("{(STATIC / name).as_uri()}.js");\n'
        for name in ("room", "answers", "component", "run", "bars")
    )
    whole = f"{stand_in}{modules}console.log(JSON.stringify({script}));"
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", whole], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_numbers_are_written_and_read_as_one_writes_them() -> None:
    """Catches: an English decimal on a German page; 3,9 taken for 39, or a word for a number."""
    said = 'room.say("dots", { low: 1, high: 5.5, answer: "3,69 (3,4 bis 3,98 gilt als richtig)" })'
    assert ran(f"[{said}, room.number(0.30000000000000004), room.number(1234.5)]") == [
        "Antworten, von 1 bis 5,5; richtig ist 3,69 (3,4 bis 3,98 gilt als richtig)",
        "0,3",
        "1234,5",
    ]
    assert ran("room.number(2.5)", "en") == "2.5"
    typed = ["3,9", " 3.9 ", "-1", "−1", ".5", "4.", "3,9,1", "1e3", "abc", "", "-", "٣"]
    read = ran(f"{json.dumps(typed)}.map(answers.parsed)")
    assert read == [3.9, 3.9, -1, -1, 0.5, 4, *[None] * 6]


@pytest.mark.parametrize("typed", ["AB?CDE", "AB#CDE", "AB%3FCD", "ÄÖÜ"])
def test_a_code_stays_one_part_of_an_address(typed: str) -> None:
    """Catches: a code with a sign in it that asks for another address, and never learns that there is no such room."""
    path = "/r/" + "".join(
        f"%{byte:02X}" if byte > 127 or chr(byte) in "?#%" else chr(byte) for byte in typed.encode()
    )
    assert ran("[room.code, decodeURIComponent(room.here)]", path=path) == [typed, typed]
    assert ran("room.code", path="/r/AB%CDE") == "AB%CDE"


def test_what_nobody_could_see_has_a_sign() -> None:
    """Catches: a vote on an empty line."""
    guesses = [["\n\n"], [" "], [" Anna"], []]
    script = f"{json.dumps(guesses)}.map((guesses) => run.asked({{ guesses }}))"
    assert [each.split("“")[1].split("”")[0] for each in ran(script, "en")] == ["⏎⏎", "␣", "Anna", "␣"]


def test_the_room_s_sheet_leaves_pictures_alone() -> None:
    """Catches: a rule for the room's own bars, notes or strips that also takes hold of a picture's."""
    classed = re.compile(r"\.([a-z][\w-]*)")
    selectors = re.compile(r"([^{}]+)\{")
    taken: set[str] = set()
    for path in PICTURES.rglob("*.css"):
        if path.stem == "tree_builder":  # in a shadow root
            continue
        taken.update(classed.findall(" ".join(selectors.findall(path.read_text(encoding="utf-8")))))
    for path in PICTURES.rglob("*.py"):
        for listed in re.findall(r"class='([^'{]*)", path.read_text(encoding="utf-8")):
            taken.update(listed.split())
    sheet = re.sub(r"/\*.*?\*/", "", (STATIC / "room.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    alone = {
        first[1:]
        for listed in selectors.findall(sheet)
        for first in re.findall(r"(?:^|,)\s*(\.[\w-]+)(?=[\s,>]|$)", listed)
    }
    assert {"bar", "strip", "note"} < taken
    assert alone & taken == set()


def test_a_player_s_cursor_is_no_reason_to_draw_anew() -> None:
    script = '[component.drawing(0), component.drawing([["p", { cursor: {} }], ["a", [1]], ["b", null]])]'
    assert ran(script) == [[], [["a", [1]], ["b", None]]]


def test_a_choice_of_examples_is_in_each_language() -> None:
    """Catches: an English title on a German button; a lesson or a claim with an example that has no title."""
    offered = {
        example
        for path in (reading.FOLDER / "en").rglob("*.md")
        for listed in re.findall(r"\bexamples: \[([^\]]*,[^\]]*)\]", path.read_text(encoding="utf-8"))
        for example in listed.split(", ")
    }
    assert len(offered) > 4
    for example in offered:
        english, german = (Words(one, reading.FOLDER)(f"examples.{example}") for one in ("en", "de"))
        found = examples.find(example)
        assert found is not None
        assert found.title == english != german
