"""Build a proposal tree with a budget of nodes: its expected tokens, what each node sees, its recorded performance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field, field_validator

from app.course.drawing import growing
from app.course.drawing.growing import MAX_NODES, PRESETS, Accuracy
from app.course.drawing.scene import (
    Area,
    Button,
    Columns,
    Component,
    Fold,
    Link,
    Markdown,
    Notice,
    Part,
    Place,
    Values,
    choose,
)  # fmt: skip
from app.course.facts import trees
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.records import examples as recorded
from app.text import plain
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers.heads import medusa_tree
from specdec_core.proposers.heads.medusa_tree import Choice

Rate = float


class With(Strict):
    """`guessers`: `heads` (the bundled Medusa heads) or a share α of right guesses; the learner picks one of them.

    `example` is the recorded decode by Medusa heads that the tree is evaluated on. `still` shows a fixed tree,
    without its mask and figures.
    """

    budget: int = Field(8, ge=1, le=MAX_NODES)
    guessers: list[Literal["heads"] | Rate] = Field(["heads"], min_length=1, max_length=4)
    start: Literal["empty", "chain", "bush", "best"] = "empty"
    example: str = "medusa"
    still: list[list[int]] | None = Field(None, max_length=MAX_NODES)

    @field_validator("still")
    @classmethod
    def tree(cls, given: list[list[int]] | None) -> list[list[int]] | None:
        """Whether it is a tree."""
        if given is not None:
            medusa_tree.check(given)
        return given

    @field_validator("guessers")
    @classmethod
    def shares(cls, given: list[Literal["heads"] | Rate]) -> list[Literal["heads"] | Rate]:
        """Whether each number is a share."""
        if any(each != "heads" and not 0.0 < each < 1.0 for each in given):
            raise ValueError("a guesser is `heads` or a share between zero and one")
        return given

    @field_validator("example")
    @classmethod
    def there(cls, given: str) -> str:
        """Whether it ships."""
        if recorded.find(given) is None:
            raise ValueError(f"there is no recorded example “{given}”")
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """Who guesses, where there are several, and the trees to start from."""
    words = at.words
    if given.still is not None:
        return []
    parts: list[Part] = []
    names = {name(each): each for each in given.guessers}
    if len(names) > 1:
        parts.append(
            choose(
                "guesser", words("tree_builder.guesser"), list(names), next(iter(names)),
                lambda key: guesser(names[key], words), help=words("tree_builder.guesser_help"),
            )
        )  # fmt: skip
    accuracy = accuracies(picked(given, values), given.budget)
    starts = [
        Button(
            f"start-{kind}",
            words(f"tree_builder.{kind}"),
            {"tree": growing.preset(kind, accuracy, given.budget)},
        )
        for kind in PRESETS
    ]
    parts.append(
        Columns([Markdown(words("tree_builder.start"), "label"), *starts], gap="small", align="center")
    )
    if len(accuracy) < given.budget:
        parts.append(Markdown(words("tree_builder.levels", levels=len(accuracy)), "small"))
    return parts


def picked(given: With, values: Values) -> Literal["heads"] | Rate:
    """Who guesses."""
    names = {name(each): each for each in given.guessers}
    return names.get(values.get("guesser", ""), given.guessers[0])


def grown(given: With, values: Values) -> tuple[list[Choice], Accuracy]:
    """The tree, and the shares of right guesses at each of its places."""
    accuracy = accuracies(picked(given, values), given.budget)
    tree = values.get("tree", growing.preset(given.start, accuracy, given.budget))
    return growing.fitting(tree, accuracy, given.budget), accuracy


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The tree, its mask and its meters, and the tree as a list."""
    words, strings = at.words, growing.said(at.words)
    if given.still is not None:
        return [Component("builder", "tree", {**growing.still(given.still, words), "words": strings})]
    (tree, accuracy), who = grown(given, values), picked(given, values)
    worth = [modelled(tree, accuracy, who, words)]
    if who == "heads":
        worth += on_record(tree, given.example, words)
    data = {**growing.drawn(tree, accuracy, given.budget, words), "worth": worth, "words": strings}
    parts: list[Part] = [Component("builder", "tree", data), exchange(tree, values.get("problem"), words)]
    if who == "heads" and tree:
        asked = {"proposer": "medusa", "o.choices": text(tree)}
        parts.append(Link(words("tree_builder.decode"), f"./?{urlencode(asked)}", "science"))
    return parts


def exchange(tree: Sequence[Choice], problem: str | None, words: Words) -> Fold:
    """The tree as a published list, to copy and to paste."""
    parts: list[Part] = [
        Markdown(words("tree_builder.export")),
        Markdown(text(tree), "code"),
        Area(
            "pasted",
            words("tree_builder.import"),
            "",
            medusa_tree.MAX_LIST_LENGTH,
            80,
            placeholder="[[0], [0, 0], [1]]",
        ),
        Button("load", words("tree_builder.load")),
    ]
    if problem:
        parts.append(Notice("error", plain(problem), "report"))
    return Fold(words("tree_builder.exchange"), "swap_horiz", parts)


def acted(name: str, act: Any, given: With, values: Values, at: Place) -> Values:
    """The tree after a node was added or removed in the browser, or a list was brought along."""
    tree, accuracy = grown(given, values)
    if name == "builder":
        return {"tree": growing.after(tree, act, accuracy, given.budget)}
    if name != "load":
        return {}
    try:
        pasted = values.get("pasted") or ""
        return {
            "tree": medusa_tree.read(pasted, given.budget, len(accuracy), len(accuracy[0])),
            "problem": None,
        }
    except SettingsError as error:
        return {"problem": str(error)}


def modelled(
    tree: Sequence[Choice], accuracy: Accuracy, picked: Literal["heads"] | Rate, words: Words
) -> dict[str, Any]:
    """Expected tokens per pass, and if there are nodes those of the best tree of that many."""
    meters = [meter(words("tree_builder.yours"), medusa_tree.tokens_per_pass(tree, accuracy), "yours", words)]
    if tree:
        best = medusa_tree.tokens_per_pass(medusa_tree.grow(accuracy, len(tree)), accuracy)
        meters.append(meter(words("tree_builder.best_of", nodes=len(tree)), best, "best", words))
    return {
        "title": words("tree_builder.modelled"),
        "meters": meters,
        "note": words("tree_builder.modelled_heads")
        if picked == "heads"
        else words("tree_builder.modelled_rate", rate=picked),
    }


def on_record(tree: Sequence[Choice], example: str, words: Words) -> list[dict[str, Any]]:
    """Tokens per pass over the recorded rounds with this tree; empty where the record does not say."""
    shown = recorded.find(example)
    found = trees.on_record(example, tuple(medusa_tree.arranged(tree))) if tree else None
    if shown is None or not found:
        return []
    settled = sum(row.decided for row in found)
    mine = sum(row.tokens for row in found) / len(found)
    recorded_mean = sum(row.recorded for row in found) / len(found)
    nodes = max(len(row.nodes.token) for row in trace(example).rounds)
    return [
        {
            "title": words("tree_builder.recorded", machine=shown.machine, date=shown.recorded[:10]),
            "meters": [
                meter(
                    words("tree_builder.yours" if settled == len(found) else "tree_builder.yours_at_least"),
                    mine,
                    "yours",
                    words,
                ),
                meter(words("tree_builder.recorded_tree", nodes=nodes), recorded_mean, "best", words),
            ],
            "note": words("tree_builder.record", rounds=len(found), settled=settled),
        }
    ]


def meter(label: str, value: float, look: str, words: Words) -> dict[str, Any]:
    """One bar."""
    return {"label": label, "value": value, "shown": words.number(value, ".2f"), "look": look}


def accuracies(picked: Literal["heads"] | Rate, budget: int) -> Accuracy:
    """Shares of right guesses by level and rank."""
    return trees.of_heads() if picked == "heads" else trees.even(picked, budget)


def name(picked: Literal["heads"] | Rate) -> str:
    """A guesser's name in the session state."""
    return picked if picked == "heads" else f"{picked:g}"


def guesser(picked: Literal["heads"] | Rate, words: Words) -> str:
    """A guesser's name on screen."""
    return words("tree_builder.heads") if picked == "heads" else words("tree_builder.rate", rate=picked)


def text(tree: Sequence[Choice]) -> str:
    """The tree in the published form."""
    return str([list(choice) for choice in medusa_tree.arranged(tree)])
