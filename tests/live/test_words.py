"""The live page in German: every sentence of the page and of its code has one, and none is left over."""

from __future__ import annotations

import re
import tomllib

from app.live.page import HERE, SENTENCE, TITLE

NAMED = re.compile(r"\{(\w+)\}|\$(\w+)")


def said() -> set[str]:
    """The page's sentences: those between its tags, and those that its code says."""
    html = (HERE / "page.html").read_text(encoding="utf-8")
    found = {" ".join(each.split()) for _, each in SENTENCE.findall(html)}
    for module in sorted(HERE.glob("*.js")):
        code = module.read_text(encoding="utf-8")
        for begin in re.finditer(r"\bsay\(", code):
            depth, end = 1, begin.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(code[end], 0)
                end += 1
            found.update(re.findall(r'"([^"]*)"', code[begin.end() : end]))
    # what the worker says to the page are names
    return {each for each in found if re.search("[A-Z ]", NAMED.sub("", each))}


def test_every_sentence_has_its_german() -> None:
    """Catches: a sentence that stays English, one that lost a value, one that nothing says any more."""
    german = tomllib.loads((HERE / "de.toml").read_text(encoding="utf-8"))
    code = "".join(file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.js")))
    assert said() - german.keys() == set()
    assert {each for each in german.keys() - said() - {TITLE} if f'"{each}"' not in code} == set()
    for english, own in german.items():
        assert sorted(NAMED.findall(english)) == sorted(NAMED.findall(own)), english
