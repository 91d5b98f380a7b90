"""A tree that is being built: what may be added to it, and what the browser draws of it.

The tree is a list of paths from the root, as Medusa's choices are published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.course.files.words import Words
from specdec_core.proposers.heads import medusa_tree
from specdec_core.proposers.heads.medusa_tree import Choice
from specdec_core.tree import TokenTree

Accuracy = Sequence[Sequence[float]]
MAX_NODES = 16  # nodes of a budget; the mask next to the tree stays legible up to this
PRESETS = ("empty", "chain", "bush", "best")


def after(tree: Sequence[Choice], act: Any, accuracy: Accuracy, budget: int) -> list[Choice]:
    """The tree after the browser's request; unchanged if that is not a valid tree."""
    if not isinstance(act, Mapping) or not isinstance(act.get("path"), list) or len(act["path"]) > MAX_NODES:
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


def drawn(tree: Sequence[Choice], accuracy: Accuracy, budget: int, words: Words) -> dict[str, Any]:
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
    shown = drawn(choices, [[1.0] * MAX_NODES] * MAX_NODES, len(choices), words)
    for node in shown["nodes"]:
        node.update(
            chance="", sentence="", label=words("tree_builder.guess") if node["path"] else node["label"]
        )
    return {**shown, "mask": None, "positions": None, "spent": "", "worth": []}


def said(words: Words) -> dict[str, str]:
    """The browser's own strings."""
    names = (
        "tree", "mask", "mask_help", "chance_help", "sees", "blind", "position", "remove", "choose", "tokens", "root",
    )  # fmt: skip
    return {key: words(f"tree_builder.{key}") for key in names}
