"""What a setting is: its key in an address, its default, and how its values are read and written.

Nothing here imports streamlit. Everything invalid in a link has a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdec_core.foundations.errors import nearest
from specdec_core.settings import MAX_STOP_STRINGS

MAX_STOP_LENGTH = 64

Params = Mapping[str, Sequence[str]]  # of an address: each key with all its values


class Unusable(ValueError):
    """A value of a link that cannot be used; its text is the sentence about it."""


@dataclass(frozen=True, slots=True)
class TextField:
    """A setting that is any text.

    Attributes:
        key: its name in an address, and the key of its widget.
        most: characters that are taken.
        too_long: the sentence about a longer one.
    """

    key: str
    title: str = ""
    default: Any = ""
    most: int = 20_000
    too_long: str = ""

    def read(self, texts: Sequence[str]) -> Any:
        """The value of a link.

        Raises:
            Unusable: one sentence, if it has none.
        """
        if len(texts[-1]) > self.most:
            raise Unusable(self.too_long)
        return texts[-1]

    def write(self, value: Any) -> list[str]:
        """The value in an address; nothing for the default."""
        return [] if value == self.default else [str(value)]

    def start(self) -> Any:
        """The value where nothing is chosen."""
        return self.default

    def typed(self, sent: Any) -> Any:
        """The value that a browser says its widget holds; None if that is none of it."""
        return sent if type(sent) is type(self.default) else None

    def refusal(self, value: Any) -> str | None:
        """Why its widget's value cannot be used, as a sentence; None if it can."""
        return None


@dataclass(frozen=True, slots=True)
class SwitchField(TextField):
    """A setting that is on or off; `title` is the beginning of a sentence."""

    def read(self, texts: Sequence[str]) -> Any:
        """See `TextField.read`."""
        if texts[-1].lower() not in ("true", "false"):
            used = str(self.default).lower()
            raise Unusable(
                f"{self.title} has to be true or false; the link says “{short(texts[-1])}”, so {used} is used."
            )
        return texts[-1].lower() == "true"

    def write(self, value: Any) -> list[str]:
        """See `TextField.write`."""
        return [] if value == self.default else [str(value).lower()]


@dataclass(frozen=True, slots=True)
class NameField(TextField):
    """A setting that is one of some names.

    Attributes:
        titles: gives the names with their titles, the default first.
    """

    titles: Callable[[], Mapping[str, str]] = dict

    def typed(self, sent: Any) -> Any:
        """See `TextField.typed`."""
        return next((name for name, title in self.titles().items() if title == sent), None)

    def read(self, texts: Sequence[str]) -> Any:
        """See `TextField.read`."""
        titles, name = self.titles(), self.named(texts[-1])
        if name is None:
            raise Unusable(
                unknown(self.title or self.key, texts[-1], next(iter(titles.values()), "none"), titles)
            )
        return name

    def named(self, text: str) -> str | None:
        """The name that a link means; links of before 12/2026 have its title."""
        titles = self.titles()
        return text if text in titles else next((name for name, one in titles.items() if one == text), None)

    def write(self, value: Any) -> list[str]:
        """See `TextField.write`."""
        return [] if value == self.start() or value not in self.titles() else [str(value)]

    def start(self) -> Any:
        """The first name."""
        return next(iter(self.titles()), "")


@dataclass(frozen=True, slots=True)
class NamesField(NameField):
    """A setting that is some of some names; all of them by default."""

    def read(self, texts: Sequence[str]) -> Any:
        """Those that there are; a link may name some for other models, and all are meant if it names only such."""
        found = [name for text in texts if (name := self.named(text)) is not None]
        return found if found or not any(texts) else self.start()

    def write(self, value: Any) -> list[str]:
        """See `TextField.write`."""
        return [] if set(value) >= set(self.titles()) else list(value) or [""]

    def start(self) -> Any:
        """All names."""
        return list(self.titles())


@dataclass(frozen=True, slots=True)
class StopsField(TextField):
    """The texts at which decoding ends."""

    def read(self, texts: Sequence[str]) -> Any:
        """See `TextField.read`."""
        found = list(dict.fromkeys(filter(None, texts)))
        if len(found) > MAX_STOP_STRINGS or any(len(text) > MAX_STOP_LENGTH for text in found):
            raise Unusable(
                f"A link can name up to {MAX_STOP_STRINGS} stop texts of up to {MAX_STOP_LENGTH} characters; "
                "this one goes beyond that, so none is used."
            )
        return found

    def write(self, value: Any) -> list[str]:
        """See `TextField.write`."""
        return list(value)

    def start(self) -> Any:
        """None."""
        return []


@dataclass(frozen=True, slots=True)
class NumberField:
    """A numeric setting: its address key, title, range and default.

    Attributes:
        unset: what applies if nothing is given, where that is not the default.
        least: above 0, the smallest number that is not 0.
    """

    key: str
    title: str
    low: float
    high: float
    usual: float
    whole: bool = True
    unset: str = ""
    least: float = 0.0

    @property
    def default(self) -> float | None:
        """The value where nothing is given."""
        return None if self.unset else int(self.usual) if self.whole else float(self.usual)

    def read(self, texts: Sequence[str]) -> float:
        """See `TextField.read`."""
        used = self.unset or f"{self.usual:g}"
        try:
            value = float(texts[-1])
        except ValueError:
            raise Unusable(f"{self.wanted}; the link says “{short(texts[-1])}”, so {used} is used.") from None
        if not self.fits(value):
            raise Unusable(f"{self.wanted}; the link says {short(texts[-1])}, so {used} is used.")
        return int(value) if self.whole else value

    def start(self) -> float | None:
        """See `TextField.start`."""
        return self.default

    def typed(self, sent: Any) -> float | None:
        """See `TextField.typed`."""
        value = sent[0] if isinstance(sent, list) and sent else sent
        fits = isinstance(value, float) and self.fits(value)
        return None if not fits else int(value) if self.whole else float(value)

    def write(self, value: float | None) -> list[str]:
        """See `TextField.write`."""
        return [] if value is None or value == self.default else [number_text(value)]

    def refusal(self, typed: float | None) -> str | None:
        """The error in a number that was typed, if any."""
        return None if typed is None or self.fits(typed) else f"{self.wanted}, not {_figure(typed)}."

    @property
    def wanted(self) -> str:
        """The beginning of a sentence about another value."""
        kind = "a whole number" if self.whole else "a number"
        return f"{self.title} has to be {kind} from {_figure(self.low)} to {_figure(self.high)}"

    def fits(self, value: float) -> bool:
        """Whether the value can be used."""
        return (
            math.isfinite(value)
            and self.low <= value <= self.high
            and not (self.whole and value != int(value))
            and not 0 < value < self.least
        )


Field = TextField | NumberField


def named(key: str, *names: str) -> NameField:
    """A setting whose names are their own titles; the first is the default."""
    return NameField(key, titles=lambda: dict(zip(names, names, strict=True)), default=names[0])


def unknown(key: str, name: str, used: str, known: Iterable[str]) -> str:
    """The sentence about an unknown name in a link; `used` is the title of its replacement."""
    return (
        f"The link requests the {key} “{short(name)}”, which does not exist here; “{used}” is used."
        f"{did_you_mean(name, known)}"
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to follow a sentence, with the known name that `name` is nearest to; empty where none is near."""
    near = nearest(name, known)
    return f" Did you mean “{near}”?" if near else ""


def number_text(value: float) -> str:
    """A number as an address has it."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _figure(value: float) -> str:
    """A bound as text, without an exponent."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def short(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= 40 else text[:37] + "…"
