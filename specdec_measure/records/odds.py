"""What the probabilities of one round have to say of each other.

A threshold follows from p and q by the rule's formula, and a node's own numbers are those of the candidates that are
recorded at its position. Formulas stand here only where the record has all that goes into them: the typical and the
confidence rule, drawn siblings after the first (with k-SEQ all of them), and an ensemble whose weight is not recorded
are not checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from specdec_core.record.schema import UNTOLD, Candidates, Header, Round

TOLERANCE = 1e-3  # ours agree to six digits; what other engines write is rounded
MIN_DIVISOR = 0.01  # a formula that divides by less than this would only show the rounding of what it divides
IGNORING_Q = ("exact-match", "token-matching")  # each guess is judged as if it were fixed
WALKING = ("speculative-sampling", "kseq", "ensemble", *IGNORING_Q)
ENTROPY_TOLERANCE = 0.02  # the same, in nats: a sum over up to 64 rounded numbers
MAX_ENTROPY = 30.0  # of any vocabulary, as the format has it
CANDIDATE_COLUMNS = (
    "p",
    "model_p",
    "penalised_p",
    "q",
    "model_q",
    "penalised_q",
)  # of nodes and of positions alike


def problems(row: Round, header: Header) -> Iterator[str]:
    """One sentence for each number of `row` that contradicts another one, by more than rounding explains."""
    yield from _thresholds(row, header.settings)
    yield from _candidates(row)
    yield from _ranks(row, header.own_probabilities)
    yield from _summaries(row, header.vocabulary)


def _thresholds(row: Round, settings: Mapping[str, Any]) -> Iterator[str]:
    nodes = row.nodes
    if nodes.threshold is None or nodes.p is None or nodes.q is None:
        return
    for node, expected in _expected(row, nodes.p, nodes.q, settings).items():
        stated = nodes.threshold[node]
        if stated is not None and abs(stated - expected) > TOLERANCE:
            yield (
                f"Round {row.index}: node {node} has the threshold {stated:.5f}; "
                f"its p {nodes.p[node]:.5f} and q {nodes.q[node]:.5f} make it {expected:.5f}."
            )


def _expected(
    row: Round, p: Sequence[float | None], q: Sequence[float | None], settings: Mapping[str, Any]
) -> dict[int, float]:
    """The threshold of each node at which it follows from p and q."""
    rule, weight = settings.get("rule"), cast(Any, 1.0)
    if rule == "block":
        return _block(row, p, q)
    if rule == "ensemble":
        options = settings.get("rule_options")
        weight = options.get("weight") if isinstance(options, dict) else None
    if rule not in WALKING or not isinstance(weight, float | int) or not 0.0 < weight <= 1.0:
        return {}
    families: dict[int, list[int]] = {}
    for node in range(row.nodes_read):
        families.setdefault(row.nodes.parent[node], []).append(node)
    found = {}
    for siblings in families.values():
        tokens = [row.nodes.token[node] for node in siblings]
        ratios = _ratios(str(rule), tokens, [p[node] for node in siblings], [q[node] for node in siblings])
        for node, ratio in zip(siblings, ratios, strict=False):
            if ratio is not None:
                found[node] = min(1.0, 1.0 - weight + weight * ratio)
    return found


def _ratios(
    rule: str, tokens: Sequence[int], p: Sequence[float | None], q: Sequence[float | None]
) -> list[float | None]:
    """What is left of p over q at each of some siblings, given that those before it failed; as far as it is known."""
    fixed = rule in IGNORING_Q or all(value == 1.0 for value in q)
    if rule == "kseq" and len(tokens) > 1:  # one scale for all, which is 1 for different fixed tokens
        return list(p) if fixed and len(set(tokens)) == len(tokens) else [None] * len(tokens)
    if not fixed:
        first, drawn = p[0], q[0]
        return [] if first is None or drawn is None else [first / drawn if drawn else 0.0]
    found: list[float | None] = []
    tried: dict[int, float] = {}
    for token, mass in zip(tokens, p, strict=True):
        if mass is None:
            break
        left = 1.0 - math.fsum(tried.values())
        if token in tried:
            found.append(0.0)
        else:
            found.append(mass / left if left > MIN_DIVISOR else None)
        tried[token] = mass
    return found


def _block(row: Round, p: Sequence[float | None], q: Sequence[float | None]) -> dict[int, float]:
    """Block verification of a chain (Sun et al. 2024): h_i of the claims p_i and the recorded masses S_i."""
    size, masses = row.nodes_read, row.block_mass
    if masses is None or row.nodes.parent[:size] != list(range(-1, size - 1)):
        return {}
    found: dict[int, float] = {}
    claim = 1.0
    for node, (mass, drawn) in enumerate(zip(p[:size], q[:size], strict=True)):
        if mass is None or drawn is None:
            break
        claim = min(1.0, claim * mass / drawn) if drawn else 0.0
        if node == size - 1:
            found[node] = claim
        elif (whole := masses[node + 1] + 1.0 - claim) > MIN_DIVISOR:
            found[node] = masses[node + 1] / whole
    return found


def _children(row: Round, at: int) -> list[int]:
    """The guesses with a known token that the target read at a node, in order."""
    nodes = row.nodes
    return [
        node for node in range(row.nodes_read) if nodes.parent[node] == at and nodes.token[node] != UNTOLD
    ]


def _candidates(row: Round) -> Iterator[str]:
    """Probabilities of nodes against the candidates at their position, or the mass beyond these."""
    for position in row.positions:
        children = _children(row, position.at)
        for name in CANDIDATE_COLUMNS:
            head: Candidates | None = getattr(position, name)
            column: list[float | None] | None = getattr(row.nodes, name)
            if head is None or column is None:
                continue
            listed = dict(zip(head.id, head.prob, strict=True))
            for node in children[:1] if name == "q" else children:  # later siblings were drawn from another q
                stated, said = column[node], listed.get(row.nodes.token[node])
                if stated is None:
                    continue
                if said is not None and abs(stated - said) > TOLERANCE:
                    yield (
                        f"Round {row.index}: {name} of node {node} is {stated:.5f}, and {said:.5f} among the "
                        f"candidates at node {position.at}."
                    )
                elif said is None and stated > head.tail + TOLERANCE:
                    yield (
                        f"Round {row.index}: {name} of node {node} is {stated:.5f}; it is none of the candidates at "
                        f"node {position.at}, which leave {head.tail:.5f}."
                    )


def _ranks(row: Round, own_probabilities: bool) -> Iterator[str]:
    """Ranks of nodes against the candidates at their position; tokens of equal probability may have any order."""
    nodes = row.nodes
    if nodes.rank is None:
        return
    for position in row.positions:
        # where a rule judged by the models' own probabilities, p is what is left of them after penalties
        head = position.penalised_p or (position.p if own_probabilities else position.model_p)
        listed, least = dict(zip(head.id, head.prob, strict=True)), min(head.prob)
        for node in _children(row, position.at):
            rank, chance = nodes.rank[node], listed.get(nodes.token[node], least)
            above = sum(prob > chance for prob in head.prob)
            most = sum(prob >= chance for prob in head.prob) if chance > least else math.inf
            if rank is not None and not above < rank <= most:
                yield (
                    f"Round {row.index}: node {node} has rank {rank}, which the candidates at node {position.at} "
                    "rule out."
                )


def _summaries(row: Round, vocabulary: int) -> Iterator[str]:
    """Entropies and overlaps against the candidates at their position: what these leave open gives a range."""
    for position in row.positions:
        ranges: list[tuple[str, float | None, tuple[float, float], float]] = [
            (
                "entropy_p",
                position.entropy_p,
                entropy_range(position.model_p, math.log(max(1, vocabulary))),
                ENTROPY_TOLERANCE,
            )
        ]
        if position.model_q is not None:  # of a draft whose vocabulary the record does not tell
            ranges.append(
                (
                    "entropy_q",
                    position.entropy_q,
                    entropy_range(position.model_q, MAX_ENTROPY),
                    ENTROPY_TOLERANCE,
                )
            )
        tokens = {row.nodes.token[node] for node in _children(row, position.at)}
        if position.q is not None:
            ranges.append(("overlap", position.overlap, overlap_range(position.p, position.q), TOLERANCE))
        elif tokens:
            ranges.append(("overlap", position.overlap, mass_range(position.p, tokens), TOLERANCE))
        for name, stated, (low, high), near in ranges:
            if stated is not None and not low - near <= stated <= high + near:
                yield (
                    f"Round {row.index}: {name} at node {position.at} is {stated:.5f}; the candidates there make it "
                    f"{low:.5f}{f' to {high:.5f}' if high - low > near else ''}."
                )


def entropy_range(head: Candidates, most: float) -> tuple[float, float]:
    """Least and largest entropy in nats of a distribution with this head; `most` is that of its whole vocabulary."""
    known = -math.fsum(prob * math.log(prob) for prob in head.prob if prob > 0)
    if head.tail <= 0:
        return known, known
    each = min(head.tail, min(head.prob)) or head.tail  # no other token has more than the least one listed
    return known - head.tail * math.log(each), known + head.tail * (most - math.log(head.tail))


def overlap_range(p: Candidates, q: Candidates) -> tuple[float, float]:
    """Least and largest Σ min(p, q) of distributions with these heads."""
    one, other = (dict(zip(head.id, head.prob, strict=True)) for head in (p, q))
    known = math.fsum(min(prob, other[token]) for token, prob in one.items() if token in other)
    only_p = math.fsum(prob for token, prob in one.items() if token not in other)
    only_q = math.fsum(prob for token, prob in other.items() if token not in one)
    return known, known + min(only_p, q.tail) + min(only_q, p.tail) + min(p.tail, q.tail)


def mass_range(p: Candidates, tokens: set[int]) -> tuple[float, float]:
    """Least and largest sum of p over tokens."""
    listed = dict(zip(p.id, p.prob, strict=True))
    known = math.fsum(listed.get(token, 0.0) for token in tokens)
    return known, known + (p.tail if any(token not in listed for token in tokens) else 0.0)
