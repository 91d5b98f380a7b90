"""The prompts of a sweep: what ships, and what a person's own file may hold."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import specdec_core as sd
from specdec_measure.sweep import cases
from specdec_measure.sweep.cases import Case

PROMPTS = Path(__file__).resolve().parents[2] / "assets" / "prompts"


def test_the_shipped_prompts_are_the_files() -> None:
    """Catches: a family or a prompt that is lost or changed on the way from its file."""
    everything = [*cases.shipped(), *cases.shipped(audience="chat")]
    found = {(case.family, case.name): case.prompt for case in everything}
    files = {
        (path.stem, item["name"]): item["text"]
        for path in PROMPTS.glob("*.toml")
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["prompt"]
    }
    assert found == files and len(files) > 20


def test_families_come_as_asked_and_no_more_of_each_than_asked() -> None:
    found = cases.shipped(["poem", "code", "poem"], most=2)
    assert cases.names(found) == ["poem", "code"] and len(found) == 4
    with pytest.raises(sd.PromptError, match=r"no family of prompts 'lyrics'\. Choose one of: story, code"):
        cases.shipped(["lyrics"])
    assert cases.shipped([]) == []


def test_own_prompts_are_read_line_by_line() -> None:
    lines = [
        '{"prompt": "one\\ntwo", "family": "tales", "name": "first", "more": [1]}',
        "",
        '{"prompt": " kept as it is "}',
        '  {"prompt": "=1+1", "family": "tales"}  \r',
    ]
    found = cases.from_jsonl(("\ufeff" + "\n".join(lines)).encode())
    assert found == [
        Case("tales", "first", "one\ntwo"),
        Case("own", "line 3", " kept as it is "),
        Case("tales", "line 4", "=1+1"),
    ]
    assert cases.from_jsonl("\n".join(lines)) == found


GOOD = '{"prompt": "a"}'


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "holds no prompt"),
        (b"\n \n", "holds no prompt"),
        (b"once upon a time", "Line 1 of the prompts is not JSON"),
        (f"{GOOD}\n[1]".encode(), 'Line 2 of the prompts has no text under "prompt"'),
        (f'{GOOD}\n{{"prompt": 3}}'.encode(), 'Line 2 of the prompts has no text under "prompt"'),
        (f'{GOOD}\n\n{{"prompt": " \\n"}}'.encode(), "Line 3 of the prompts has an empty prompt"),
        (f"{GOOD}\n\xff".encode("latin-1"), "Line 2 of the prompts is not UTF-8"),
        (b'{"prompt": "\\ud800"}', "Line 1 of the prompts holds half of a character"),
        (b"[" * 100_000, "Line 1 of the prompts is not JSON"),
        (b'{"prompt": ' + b"9" * 10_000 + b"}", "Line 1 of the prompts is not JSON"),
        (b'{"prompt": "a", "family": 7}', '"family" that is not a line of 1 to 60 printable'),
        (b'{"prompt": "a", "family": "  "}', '"family" that is not a line'),
        (b'{"prompt": "a", "name": "a\\u001b[31mb"}', '"name" that is not a line'),
        (b'{"prompt": "a", "name": "a\\u202eb"}', '"name" that is not a line'),
        (json.dumps({"prompt": "a", "name": "n" * 61}).encode(), '"name" that is not a line'),
        (json.dumps({"prompt": "a" * 20_001}).encode(), "a prompt of 20,001 characters; at most 20,000"),
        (b'{"prompt": "a", "name": "x"}\n{"prompt": "b", "name": "x"}', "Lines 1 and 2 both name the prompt 'x'"),
        ("\n".join([GOOD] * 501).encode(), "Line 501 would be prompt number 501; at most 500"),
        (b" " * 2_000_001, "2,000,001 bytes; at most 2,000,000"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_with_its_line_and_what_to_do(content: bytes, wanted: str) -> None:
    """Catches: a traceback, a prompt that is silently left out, terminal control characters in a name."""
    with pytest.raises(sd.PromptError) as refused:
        cases.from_jsonl(content)
    said = str(refused.value)
    assert wanted in said and "\n" not in said and said.endswith(".") and len(said) < 260
