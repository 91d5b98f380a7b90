"""Build a proposal tree with a budget of nodes: its expected tokens, what each node sees, its recorded performance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from pydantic import Field, field_validator

from app.course.facts import trees
from app.course.facts.recorded import trace
from app.course.lesson import Strict
from app.course.words import Words
from app.records import examples as recorded
from app.text import plain
from app.ui import address
from app.ui.fragment import fragment
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import medusa_tree
from specdec_core.proposers.medusa_tree import Choice
from specdec_core.tree import TokenTree

from . import Place

Accuracy = Sequence[Sequence[float]]
Rate = float
MOST = 16  # nodes of a budget; the mask next to the tree stays legible up to this
PRESETS = ("empty", "chain", "bush", "best")

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "specdec_tree_builder",
    html='<div class="builder"></div>',
    css=(_HERE / "tree_builder.css").read_text(encoding="utf-8"),
    js=(_HERE / "tree_builder.js").read_text(encoding="utf-8"),
)


class With(Strict):
    """`guessers`: `heads` (the bundled Medusa heads) or a share α of right guesses; the learner picks one of them.

    `example` is the recorded decode by Medusa heads that the tree is evaluated on. `still` shows a fixed tree,
    without its mask and figures.
    """

    budget: int = Field(8, ge=1, le=MOST)
    guessers: list[Literal["heads"] | Rate] = Field(["heads"], min_length=1, max_length=4)
    start: Literal["empty", "chain", "bush", "best"] = "empty"
    example: str = "medusa"
    still: list[list[int]] | None = Field(None, max_length=MOST)

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


def draw(given: With, at: Place) -> None:
    """Draw the tree, its mask and its meters, and the trees to start from."""
    held, words = at.key("tree"), at.words
    if given.still is not None:
        _component(key=at.key("builder"), data={**still(given.still, words), "words": said(words)})
        return

    @fragment
    def show() -> None:
        names = {name(each): each for each in given.guessers}
        picked = next(iter(names))
        if len(names) > 1:
            picked = st.segmented_control(
                words("tree_builder.guesser"),
                list(names),
                default=picked,
                format_func=lambda key: guesser(names[key], words),
                required=True,
                key=at.key("guesser"),
                help=words("tree_builder.guesser_help"),
            )
        accuracy = accuracies(names[picked], given.budget)
        tree = fitting(
            st.session_state.setdefault(held, preset(given.start, accuracy, given.budget)),
            accuracy,
            given.budget,
        )
        with st.container(horizontal=True, vertical_alignment="center", key=at.key("presets")):
            st.markdown(words("tree_builder.start"), width="content")
            for kind in PRESETS:
                st.button(
                    words(f"tree_builder.{kind}"),
                    on_click=st.session_state.__setitem__,
                    args=(held, preset(kind, accuracy, given.budget)),
                    key=at.key(f"start-{kind}"),
                )
        if len(accuracy) < given.budget:
            st.caption(words("tree_builder.levels", levels=len(accuracy)))
        worth = [modelled(tree, accuracy, names[picked], words)]
        if picked == "heads":
            worth += on_record(tree, given.example, words)
        _component(
            key=at.key("builder"),
            data={
                **scene(tree, accuracy, given.budget, words),
                "worth": worth,
                "words": said(words),
            },
            on_act_change=acted(at.key("builder"), held, accuracy, given.budget),
        )
        exchange(tree, accuracy, given.budget, held, at)
        if picked == "heads" and tree:
            asked = {"proposer": "medusa", "o.choices": text(tree)}
            st.link_button(words("tree_builder.decode"), address.href(**asked), icon=":material/science:")

    show()


def exchange(tree: Sequence[Choice], accuracy: Accuracy, budget: int, held: str, at: Place) -> None:
    """The tree as a published list, to copy and to paste."""
    words, box, problem = at.words, at.key("pasted"), at.key("problem")

    def load() -> None:
        try:
            st.session_state[held] = medusa_tree.read(
                st.session_state.get(box) or "", budget, len(accuracy), len(accuracy[0])
            )
            st.session_state[problem] = None
        except SettingsError as error:
            st.session_state[problem] = str(error)

    with st.expander(words("tree_builder.exchange"), icon=":material/swap_horiz:"):
        st.markdown(words("tree_builder.export"))
        st.code(text(tree), language=None, wrap_lines=True)
        st.text_area(
            words("tree_builder.import"),
            key=box,
            max_chars=medusa_tree.MAX_LIST_LENGTH,
            placeholder="[[0], [0, 0], [1]]",
            height=80,
        )
        st.button(words("tree_builder.load"), on_click=load, key=at.key("load"))
        if message := st.session_state.get(problem):
            st.error(plain(message), icon=":material/report:")


def acted(component: str, held: str, accuracy: Accuracy, budget: int) -> Callable[[], None]:
    """Called when a node was added or removed in the browser."""

    def react() -> None:
        value = st.session_state.get(component)
        act = value.get("act") if isinstance(value, Mapping) else getattr(value, "act", None)
        tree = fitting(st.session_state.get(held, []), accuracy, budget)
        st.session_state[held] = after(tree, act, accuracy, budget)

    return react


def after(tree: Sequence[Choice], act: Any, accuracy: Accuracy, budget: int) -> list[Choice]:
    """The tree after the browser's request; unchanged if that is not a valid tree."""
    if not isinstance(act, Mapping) or not isinstance(act.get("path"), list) or len(act["path"]) > MOST:
        return [*tree]
    path = tuple(step for step in act["path"] if isinstance(step, int) and not isinstance(step, bool))
    if act.get("do") == "add" and path in slots(tree, accuracy, budget):
        return [*tree, path]
    if act.get("do") == "remove" and path:
        return [choice for choice in tree if choice[: len(path)] != path]
    return [*tree]


def preset(kind: str, accuracy: Accuracy, budget: int) -> list[Choice]:
    """A tree to start from."""
    if kind == "chain":
        return [(0,) * depth for depth in range(1, min(budget, len(accuracy)) + 1)]
    if kind == "bush":
        return [(rank,) for rank in range(min(budget, len(accuracy[0])))]
    return medusa_tree.grow(accuracy, budget) if kind == "best" else []


def fitting(tree: Sequence[Choice], accuracy: Accuracy, budget: int) -> list[Choice]:
    """A tree cut to the available levels, ranks and nodes, removing the last nodes first."""
    kept = [
        choice
        for choice in tree
        if len(choice) <= len(accuracy)
        and all(rank < len(row) for rank, row in zip(choice, accuracy, strict=False))
    ]
    return kept[:budget]


def slots(tree: Sequence[Choice], accuracy: Accuracy, budget: int) -> list[Choice]:
    """Where the next node can go: below each node the first rank that is free; none once the budget is spent."""
    if len(tree) >= budget:
        return []
    found = []
    for parent in [(), *tree]:
        if len(parent) < len(accuracy):
            ranks = range(len(accuracy[len(parent)]))
            free = next((rank for rank in ranks if (*parent, rank) not in tree), None)
            if free is not None:
                found.append((*parent, free))
    return found


def scene(tree: Sequence[Choice], accuracy: Accuracy, budget: int, words: Words) -> dict[str, Any]:
    """The browser's data: nodes and free places with their column and row, the mask, a sentence for each node."""
    order = medusa_tree.arranged(tree)
    below = TokenTree([choice[-1] for choice in order], medusa_tree.parents(order))
    mask: list[list[bool]] = below.visible().tolist()
    number = {(): 0} | {choice: at for at, choice in enumerate(order, 1)}
    free = slots(tree, accuracy, budget)
    rows = laid_out([*order, *free])
    nodes = [
        {
            "path": [*choice],
            "column": len(choice),
            "row": rows[choice],
            "parent": number[choice[:-1]] if choice else None,
            "chance": words.number(medusa_tree.worth(choice, accuracy), ".0%") if choice else "",
            "label": node_label(choice, number, accuracy, words),
            "sentence": node_sentence(choice, order, mask, words),
        }
        for choice in [(), *order]
    ]
    return {
        "budget": budget,
        "spent": words("tree_builder.spent", used=len(order), budget=budget),
        "most": min(budget, len(accuracy)) + 1,
        "columns": max((len(choice) for choice in rows), default=0) + 1,
        "rows": max(rows.values(), default=0) + 1,
        "nodes": nodes,
        "slots": [
            {
                "path": [*choice],
                "column": len(choice),
                "row": rows[choice],
                "parent": number[choice[:-1]],
                "label": words(
                    "tree_builder.add", rank=choice[-1] + 1, parent=parent_name(choice[:-1], number, words)
                ),
            }
            for choice in free
        ],
        "mask": mask,
        "positions": [0, *below.depths],
    }


def laid_out(places: Sequence[Choice]) -> dict[Choice, int]:
    """The row of each place: a first child shares its parent's, the next ones are below everything above them."""
    rows: dict[Choice, int] = {}
    last = -1

    def place(path: Choice) -> None:
        nonlocal last
        children = sorted(choice for choice in places if choice[:-1] == path and choice)
        if not children:
            last += 1
        for child in children:
            place(child)
        rows[path] = rows[children[0]] if children else last

    place(())
    return rows


def parent_name(parent: Choice, number: Mapping[Choice, int], words: Words) -> str:
    """A node's parent, in words."""
    return words("tree_builder.node", number=number[parent]) if parent else words("tree_builder.root")


def node_label(choice: Choice, number: Mapping[Choice, int], accuracy: Accuracy, words: Words) -> str:
    """A node's name for screen readers."""
    if not choice:
        return words("tree_builder.root")
    return words(
        "tree_builder.node_label",
        number=number[choice],
        rank=choice[-1] + 1,
        parent=parent_name(choice[:-1], number, words),
        chance=medusa_tree.worth(choice, accuracy),
    )


def node_sentence(
    choice: Choice, order: Sequence[Choice], mask: Sequence[Sequence[bool]], words: Words
) -> str:
    """What a node sees and its position, according to the mask."""
    places = [(), *order]
    at = places.index(choice)
    seen = [column for column, visible in enumerate(mask[at]) if visible]
    if not choice:
        return words("tree_builder.sentence_root")
    above = [
        words("tree_builder.root") if not column else words("tree_builder.node", number=column)
        for column in seen[:-1]
    ]
    beside = sum(len(other) == len(choice) for other in order) - 1
    return words(
        "tree_builder.sentence",
        number=at,
        cells=len(seen),
        above=", ".join(above),
        position=len(choice),
        beside=words("tree_builder.beside", count=beside) if beside else words("tree_builder.alone"),
    )


def still(tree: Sequence[Sequence[int]], words: Words) -> dict[str, Any]:
    """The browser's data for a fixed tree: no mask, no probabilities."""
    choices = medusa_tree.check(tree)
    shown = scene(choices, [[1.0] * MOST] * MOST, len(choices), words)
    for node in shown["nodes"]:
        node.update(
            chance="", sentence="", label=words("tree_builder.guess") if node["path"] else node["label"]
        )
    return {**shown, "mask": None, "positions": None, "spent": "", "worth": []}


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


def said(words: Words) -> dict[str, str]:
    """The browser's own strings."""
    names = (
        "tree",
        "mask",
        "mask_help",
        "chance_help",
        "sees",
        "blind",
        "position",
        "remove",
        "choose",
        "tokens",
        "root",
    )
    return {key: words(f"tree_builder.{key}") for key in names}
