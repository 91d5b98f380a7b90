"""A recorded decode with another Medusa tree: the same heads' guesses, arranged differently, no model.

A head's r-th guess is the same token anywhere in the tree, since no head sees what the others chose. So a recorded
tree shows what the heads guessed, and at temperature 0 the text shows which guesses were right. Each round is taken as
recorded: a run with another tree would have reached other places, which are not in the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specdec_core.foundations.errors import TraceError
from specdec_core.proposers.heads import medusa_tree
from specdec_core.proposers.heads.medusa_tree import Choice
from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace


@dataclass(frozen=True, slots=True)
class Replanted:
    """One recorded round with another tree.

    Attributes:
        index: of the round.
        path: the deepest choice that agrees with the text; empty where the first level fails.
        tokens: how many tokens the round would have committed; a lower bound where not decided.
        decided: False where the tree needs guesses that were not recorded.
        recorded: how many the recorded tree did commit.
    """

    index: int
    path: Choice
    tokens: int
    decided: bool
    recorded: int


def replant(trace: Trace, choices: Iterable[Choice]) -> list[Replanted]:
    """Compare a tree of choices with each round of `trace` that proposed something.

    Raises:
        SettingsError: if the choices are not a tree.
        TraceError: one sentence, if the trace was not made by Medusa heads at temperature 0 with a lossless rule.
    """
    from specdec_core.rules import lossy

    settings = trace.header.settings
    if settings.get("proposer") != "medusa" or settings.get("temperature") != 0.0 or lossy(trace):
        raise TraceError(
            "Another tree can only be compared with Medusa rounds at temperature 0 and a lossless rule: there the "
            "text does not depend on the tree; this trace is of another kind."
        )
    tree = set(medusa_tree.check(choices))
    found = []
    for at, row in enumerate(trace.rounds):
        if row.nodes.token:
            ahead = [token for later in trace.rounds[at:] for token in later.committed.token]
            path, decided = _walk(tree, _guesses(row), ahead)
            found.append(Replanted(row.index, path, len(path) + 1, decided, len(row.committed.token)))
    return found


def _guesses(row: Round) -> dict[tuple[int, int], int]:
    """The heads' guesses shown by the round's tree: level and rank, both from 0 → token.

    Raises:
        TraceError: if two nodes of a level and rank hold different tokens, so that the ranks are not those of siblings.
    """
    found: dict[tuple[int, int], int] = {}
    families: dict[int, int] = {}
    for parent, depth, token in zip(row.nodes.parent, row.nodes.depth, row.nodes.token, strict=True):
        rank = families[parent] = families.get(parent, -1) + 1
        if found.setdefault((depth - 1, rank), token) != token:
            raise TraceError(
                f"Round {row.index} of this trace has two guesses of one head and rank, as a tree with gaps between "
                "its ranks does; record it with a grown or published tree."
            )
    return found


def _walk(tree: set[Choice], guesses: dict[tuple[int, int], int], ahead: list[int]) -> tuple[Choice, bool]:
    """How far the tree agrees with the text that followed, and whether that is certain."""
    path: Choice = ()
    for level, token in enumerate(ahead[:-1]):  # the last token is the target's own, whatever was guessed
        ranks = [choice[-1] for choice in tree if choice[:-1] == path]
        right = next((rank for (at, rank), guess in guesses.items() if at == level and guess == token), None)
        if right is None:
            return path, all((level, rank) in guesses for rank in ranks)
        if right not in ranks:
            return path, True
        path = (*path, right)
    return path, True
