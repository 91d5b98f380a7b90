"""The ends of recorded prompts, side by side: what is to be continued, without its continuation."""

from __future__ import annotations

from html import escape

from pydantic import Field, field_validator

from app.course.drawing.scene import Html, Part, Place, Values, style
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.records import examples as recorded

LINES = 5  # of a prompt's end


class With(Strict):
    """`examples`: ids of assets/traces/index.toml, each with its title."""

    examples: dict[str, str] = Field(min_length=1, max_length=3)

    @field_validator("examples")
    @classmethod
    def there(cls, given: dict[str, str]) -> dict[str, str]:
        """Whether each of them ships."""
        recorded.require(given)
        return given


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The prompts."""
    cards = "".join(_card(name, trace(key).header.prompt, at) for key, name in given.examples.items())
    return [style(__file__), Html(f"<div class='prompts'>{cards}</div>")]


def _card(name: str, prompt: str, at: Place) -> str:
    lines = prompt.splitlines()
    shown = ("…\n" if len(lines) > LINES else "") + "\n".join(lines[-LINES:])
    return (
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f"<pre tabindex='0'>{escape(shown)}<b>{escape(at.words('prompts.next'))}</b></pre></figure>"
    )
