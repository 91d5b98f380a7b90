"""What a round costs outside the models: tree, mask, judging, commit, recording; the rest is model time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any

import specdec_core as sd
from specdec_core.proposers import PROPOSERS, Context, Drafts, Proposal, Proposer, TreeShape
from specdec_core.runtime.reader import CausalReader
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .subjects import Prompt, Subjects

NODES = 64
CHAIN = "round of a chain of 4, outside the models"
DRAFTED = "the same, drafted by the draft model"
TREE = "round of a tree of 64, outside the models"


class _Bush(Proposer):
    """A ready-made tree of 64 nodes, so that the loop is timed, not a proposer."""

    name = "benchmark-bush"
    title = summary = "A ready-made tree for the benchmark. It always loses."

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        return TreeShape("fixed tree", NODES)

    def propose(self, context: Context) -> Proposal:
        parents, tokens, depth = _bush(context.round, context.vocabulary)
        return Proposal(TokenTree(tokens, parents) if depth <= context.limit else TokenTree())


@cache
def _bush(number: int, vocabulary: int) -> tuple[list[int], list[int], int]:
    """Parents, tokens and depth of a random tree; drawn in the first, untimed turn."""
    source = random.Random(number)
    parents = [source.randrange(max(-1, node - 12), node) if node else -1 for node in range(NODES)]
    tokens = [source.randrange(vocabulary) for _ in parents]
    return parents, tokens, max(TokenTree(tokens, parents).depths)


class _Chain(_Bush):
    """A ready-made chain of four."""

    name = "benchmark-chain"

    @classmethod
    def drafts(cls, settings: Settings) -> Drafts:
        return "chain"

    def propose(self, context: Context) -> Proposal:
        return Proposal(TokenTree.chain(_tokens(context.round, context.vocabulary)[: max(0, context.limit)]))


@cache
def _tokens(number: int, vocabulary: int) -> list[int]:
    """Four random tokens; drawn in the first, untimed turn."""
    source = random.Random(number)
    return [source.randrange(vocabulary) for _ in range(4)]


def outside(subjects: Subjects, prompt: Prompt, repeats: int) -> dict[str, tuple[float, float]]:
    """Medians over the runs of (wall time − time in the models' forward) / rounds, in seconds, and of its share of the
    wall time; full record included."""
    found: dict[str, list[tuple[float, float]]] = {}
    cases = {
        CHAIN: Settings(proposer=_Chain.name, max_new_tokens=96),
        DRAFTED: Settings(max_new_tokens=96),
        TREE: Settings(proposer=_Bush.name, max_new_tokens=96),
    }
    added = {kind.name: kind for kind in (_Bush, _Chain)}
    PROPOSERS.update(added)
    try:
        for turn in range(repeats + 1):
            for name, settings in cases.items():
                with _timed() as spent:
                    stream = sd.stream(subjects.models, prompt.ids, settings)
                    next(stream)
                    spent[0] = 0.0
                    began = time.perf_counter()
                    rounds = sum(isinstance(event, sd.Step) for event in stream)
                    wall = time.perf_counter() - began
                if turn:
                    around = wall - spent[0]
                    found.setdefault(name, []).append((around / rounds, around / wall))
    finally:
        for name in added:
            del PROPOSERS[name]
    return {
        name: (median(seconds), median(shares))
        for name, (seconds, shares) in ((name, zip(*values, strict=True)) for name, values in found.items())
    }


@contextmanager
def _timed() -> Iterator[list[float]]:
    """Seconds spent in the forward passes of target and draft meanwhile, the lab's or transformers', in a list of
    one."""
    spent = [0.0]
    inner = CausalReader._call

    def call(*args: Any) -> Any:
        began = time.perf_counter()
        result = inner(*args)
        spent[0] += time.perf_counter() - began
        return result

    CausalReader._call = call  # type: ignore[method-assign, assignment]
    try:
        yield spent
    finally:
        CausalReader._call = inner  # type: ignore[method-assign]
