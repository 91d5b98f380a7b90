"""The prompts of a sweep: the families that ship in assets/prompts, and a person's own as JSONL."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdec_core.foundations.errors import PromptError, meant
from specdec_core.foundations.paths import assets
from specdec_core.models.tokens.chat import Chat

log = logging.getLogger(__name__)

FOLDER = assets() / "prompts"
ORDER = ("story", "code", "copy", "summary", "question", "arithmetic", "poem")
CHAT_ORDER = ("chat-code", "chat-question", "chat-rewrite", "chat-summary", "chat-list", "chat-story")
Audience = Literal["text", "chat"]
"""The models a family of prompts is for: models that continue a text, or models that answer a message."""
OWN = "own"  # the family of own prompts that name none
MAX_CASES = 500
MAX_BYTES = 2_000_000
MAX_PROMPT = 20_000  # characters
MAX_NAME = 60  # characters, of a family's name as well
EXAMPLE = '{"prompt": "Once upon a time", "family": "story"}'


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt of a sweep; `family` and `name` together are unique. `chat` wraps it in the model's chat template."""

    family: str
    name: str
    prompt: str
    chat: bool = False
    system: str = ""

    @property
    def asked(self) -> str | Chat:
        """The prompt as the decoder takes it."""
        return Chat(self.prompt, self.system) if self.chat else self.prompt


class _Prompt(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=MAX_NAME)
    text: str = Field(min_length=1, max_length=MAX_PROMPT)
    look_for: str = Field(min_length=1, max_length=400)
    kind: Literal["verbatim edit", "conversion"] | None = None  # parts of the family 'copy'


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=40)
    description: str = Field(min_length=1, max_length=400)
    audience: Audience = "text"
    prompt: list[_Prompt] = Field(min_length=1, max_length=20)


@dataclass(frozen=True, slots=True)
class PromptPreset:
    """One shipped prompt: `id` is used in links, `look_for` says what a student should watch."""

    id: str
    name: str
    text: str
    look_for: str


@dataclass(frozen=True, slots=True)
class PromptFamily:
    """Shipped prompts of one kind of text, for one kind of model."""

    name: str
    title: str
    description: str
    presets: tuple[PromptPreset, ...]
    audience: Audience = "text"


@cache
def families(folder: Path = FOLDER, audience: Audience | None = None) -> tuple[PromptFamily, ...]:
    """All shipped families, in teaching order; with `audience` only those for such models.

    Malformed files are skipped and logged.
    """
    if audience is not None:
        return tuple(family for family in families(folder) if family.audience == audience)
    found = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            content = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, ValidationError, UnicodeDecodeError) as error:
            log.error("prompts: %s is left out: %s", path.name, error)
            continue
        found[path.stem] = PromptFamily(
            name=path.stem,
            title=content.title,
            description=content.description,
            presets=tuple(
                PromptPreset(f"{path.stem}/{_slug(item.name)}", item.name, item.text, item.look_for)
                for item in content.prompt
            ),
            audience=content.audience,
        )
    known = (*ORDER, *CHAT_ORDER)
    order = [name for name in known if name in found] + sorted(found.keys() - set(known))
    return tuple(found[name] for name in order)


def shipped(
    names: Sequence[str] | None = None, most: int | None = None, audience: Audience = "text"
) -> list[Case]:
    """The shipped prompts of the families named (without names: all for that audience), at most `most` of each.

    Prompts for chat models are messages, those for other models are texts to continue, regardless of the model.

    Raises:
        PromptError: naming the known families, if an unknown one is requested.
    """
    known = {family.name: family for family in families()}
    usual = [name for name, family in known.items() if family.audience == audience]
    wanted = usual if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise PromptError(
                f"There is no family of prompts '{name[:MAX_NAME]}'.{meant(name, known)} Choose one of: "
                f"{', '.join(known)}."
            )
    return [
        Case(name, preset.name, preset.text, chat=known[name].audience == "chat")
        for name in wanted
        for preset in known[name].presets[:most]
    ]


def fitted(cases: Iterable[Case], template: bool, system: str = "") -> list[Case]:
    """The cases adapted to a model: messages become plain texts where it has no chat `template`."""
    return [
        replace(case, chat=case.chat and template, system=system if case.chat and template else "")
        for case in cases
    ]


def from_jsonl(content: bytes | str) -> list[Case]:
    """A person's own prompts: one JSON object a line, with "prompt" and perhaps "family" and "name".

    Empty lines and other keys are ignored; a prompt without a name is named after its line.

    Raises:
        PromptError: one sentence that names the line and says what to do.
    """
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    if len(data) > MAX_BYTES:
        raise PromptError(
            f"The file of prompts has {len(data):,} bytes; at most {MAX_BYTES:,} are read. Leave some prompts out."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = data[: error.start].count(b"\n") + 1
        raise PromptError(f"Line {at} of the prompts is not UTF-8 text. Save the file as UTF-8.") from None
    cases: list[Case] = []
    lines: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if len(cases) == MAX_CASES:
            raise PromptError(
                f"Line {number} would be prompt number {MAX_CASES + 1}; at most {MAX_CASES} are taken. "
                "Leave some out."
            )
        case = _case(number, line)
        earlier = lines.setdefault((case.family, case.name), number)
        if earlier != number:
            raise PromptError(
                f"Lines {earlier} and {number} both name the prompt '{case.name}' of the family '{case.family}'. "
                "Give one of them another name."
            )
        cases.append(case)
    if not cases:
        raise PromptError(f"The file holds no prompt. Write one JSON object a line, such as {EXAMPLE}.")
    return cases


def _case(number: int, line: str) -> Case:
    where = f"Line {number} of the prompts"
    try:
        item: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise PromptError(f"{where} is not JSON. Write one object a line, such as {EXAMPLE}.") from None
    if not isinstance(item, dict) or not isinstance(item.get("prompt"), str):
        raise PromptError(f'{where} has no text under "prompt". Write one object a line, such as {EXAMPLE}.')
    prompt = item["prompt"]
    if not prompt.strip():
        raise PromptError(f"{where} has an empty prompt. Fill it, or leave the line out.")
    if len(prompt) > MAX_PROMPT:
        raise PromptError(
            f"{where} has a prompt of {len(prompt):,} characters; at most {MAX_PROMPT:,} are taken. Shorten it."
        )
    names = [item.get("family", OWN), item.get("name", f"line {number}")]
    for key, name in zip(("family", "name"), names, strict=True):
        if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_NAME or not name.isprintable():
            raise PromptError(
                f'{where} has a "{key}" that is not a line of 1 to {MAX_NAME} printable characters. '
                "Shorten it, or leave it out."
            )
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise PromptError(f"{where} holds half of a character (a lone surrogate). Write it again.") from None
    return Case(names[0].strip(), names[1].strip(), prompt)


def names(cases: Iterable[Case]) -> list[str]:
    """The families of `cases`, in their order."""
    return list(dict.fromkeys(case.family for case in cases))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
