"""Grades what students write in the notebooks: acceptance, residual, tree mask, a proposer. Each verdict has a reason.

A rule is judged by the enumerator: the exact distance between what it writes and what the target would write. A wrong
answer that is known from the field or the classroom is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec_core.engine.decode import decode
from specdec_core.foundations.lazy_torch import torch
from specdec_core.models.bundle import Models
from specdec_core.proposers import PROPOSERS, Context, Proposal, Proposer
from specdec_core.rules import Judgement, Rule
from specdec_core.rules.base import walk
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import distance, output_distribution, total_variation
from specdec_measure.sweep.cases import shipped

from .gallery import GALLERY, BrokenRule

if TYPE_CHECKING:
    from torch import Tensor

Acceptance = Callable[[float, float], float]
Residual = Callable[[list[float], list[float]], Sequence[float]]
Mask = Callable[[list[int]], Sequence[Sequence[bool]]]
Propose = Callable[[list[int], int], Sequence[int]]

EXACT = 1e-9  # the most by which a right answer may differ
PAIRS = ((0.2, 0.5), (0.5, 0.2), (0.3, 0.3), (0.0, 0.4), (0.9, 1.0))  # p and q of a drafted token
ABOVE_ZERO = tuple((p, q) for p, q in PAIRS if p > 0.0)
EXAMPLES = (
    ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
    ([0.6, 0.1, 0.3, 0.0], [0.1, 0.2, 0.3, 0.4]),
    ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]),  # two tokens are missing, in another proportion than p's
)
TREES: tuple[list[int], ...] = ([], [-1, 0, 1], [-1, -1], [-1, 0, 0, 1, 1], [-1, -1, 0, 2, 1])
SHARE_TO_REACH = 0.9  # of the tokens per pass of prompt lookup that a student's proposer has to reach


@dataclass(frozen=True, slots=True)
class Graded:
    """Whether an answer is right, and why, or why not."""

    right: bool
    reason: str

    def __str__(self) -> str:
        return f"{'✓ Right.' if self.right else '✗ Not yet.'} {self.reason}"

    __repr__ = __str__


class _Wrong(Exception):
    """What is wrong with an answer, in a sentence."""


def _graded(check: Callable[..., str]) -> Callable[..., Graded]:
    """A check that returns why an answer is right, or raises what is wrong; an error of the student's is that too."""

    def grade(*given: Any) -> Graded:
        try:
            return Graded(True, check(*given))
        except _Wrong as wrong:
            return Graded(False, str(wrong))
        except NotImplementedError:
            return Graded(False, "It is still to be written.")
        except Exception as error:
            return Graded(False, f"Your function ended with {type(error).__name__}: {error}")

    grade.__doc__ = check.__doc__
    return grade


def _acceptance(acceptance: Acceptance) -> str:
    """Grade `acceptance(p, q)`: the probability of keeping a token that the draft drew with probability q."""
    known: Mapping[str, Acceptance] = {
        "It is p / q where p is larger than q, too, and so no probability: keep such a token always.": lambda p, q: (
            p / q
        ),
        "It divides q by p. A token that the draft wants more than the target does has to be kept less often.": (
            lambda p, q: min(1.0, q / p) if p else 1.0
        ),
        "It keeps a token with the target's own probability p. The draft draws it with q already, so it would be "
        "written with about p times q.": lambda p, q: p,
        "It always keeps a token that the target wants at least as much as the draft does, and never another one. "
        "Others have to be kept with p / q.": lambda p, q: float(p >= q),
        "It keeps everything: the text would follow the draft.": lambda p, q: 1.0,
    }
    for pairs in (ABOVE_ZERO, PAIRS):  # a mistake that divides by p is named before p is 0
        found = [float(acceptance(p, q)) for p, q in pairs]
        _name_known(found, {why: [wrong(p, q) for p, q in pairs] for why, wrong in known.items()})
        for (p, q), chance in zip(pairs, found, strict=True):
            if not abs(chance - min(1.0, p / q)) <= EXACT:
                raise _Wrong(
                    f"With p = {p} and q = {q} it gives {chance:.3g} instead of {min(1.0, p / q):.3g}."
                )
    return f"The probability of keeping a token is right for all {len(PAIRS)} pairs tried."


def _rule(acceptance: Acceptance, residual: Residual) -> str:
    """Grade `residual(p, q)` in a rule with `acceptance`: what is written has to follow the target exactly."""
    for p, q in EXAMPLES:
        found = [float(chance) for chance in residual(list(p), list(q))]
        _distribution(found, p, q)
        _name_known(found, _wrong_residuals(p, q))
    rule = _Students(acceptance, residual)
    for p, q in EXAMPLES:
        next_p, next_q = (lambda text, p=p: p), (lambda text, q=q: q)
        off = distance(rule, [-1, 0], next_p, next_q)
        if not off <= EXACT:
            same = _alike(rule, next_p, next_q)
            raise _Wrong(
                f"With p = {p} and q = {q} what is written is {off:.3f} away from the target's distribution (total "
                f"variation, enumerated); it has to be 0.{same}"
            )
    return f"What your rule writes is the target's distribution, enumerated on {len(EXAMPLES)} examples: distance 0."


def _distribution(found: Sequence[float], p: Sequence[float], q: Sequence[float]) -> None:
    """Whether it is a distribution over the tokens."""
    if len(found) != len(p):
        raise _Wrong(f"The residual has {len(found)} numbers for {len(p)} tokens.")
    if min(found) < -EXACT:
        raise _Wrong(
            f"With p = {p} and q = {q} a probability is {min(found):.3g}. Where q is larger than p nothing is left: "
            "use 0 there."
        )
    if not abs(math.fsum(found) - 1.0) <= EXACT:
        raise _Wrong(
            f"With p = {p} and q = {q} the probabilities sum to {math.fsum(found):.3g}. Divide each by their sum."
        )


def _wrong_residuals(p: Sequence[float], q: Sequence[float]) -> dict[str, list[float]]:
    """Distributions that are taken for the residual, and what is wrong with each."""
    excess = [max(0.0, b - a) for a, b in zip(p, q, strict=True)]
    gaps = [abs(a - b) for a, b in zip(p, q, strict=True)]
    soft = [math.exp(max(0.0, a - b)) for a, b in zip(p, q, strict=True)]
    return {
        "This is p itself. Accepted tokens have used up a part of p already (“A second helping of p” in the "
        "gallery).": [*p],
        "This is what the draft has too much of, q − p. What is missing is p − q.": _shares(excess),
        "|p − q| also counts where the draft has too much. Only where p is larger is something missing.": _shares(gaps),
        "This is a softmax of max(0, p − q): it gives tokens a share that should have none (“Softmax where a division "
        "belongs” in the gallery). Divide by the sum.": _shares(soft),
    }  # fmt: skip


def _shares(weights: Sequence[float]) -> list[float]:
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def _name_known(found: Sequence[float], wrong: Mapping[str, Sequence[float]]) -> None:
    """Refuse an answer that equals a known wrong one."""
    for why, known in wrong.items():
        if all(math.isclose(one, other, abs_tol=EXACT) for one, other in zip(found, known, strict=True)):
            raise _Wrong(why)


def _alike(rule: Rule, p: Callable[..., list[float]], q: Callable[..., list[float]]) -> str:
    """A sentence if a broken rule of the gallery writes the same."""
    written = output_distribution(rule, [-1, 0], p, q, 3)
    for exhibit in GALLERY:
        if isinstance(exhibit, BrokenRule) and exhibit.right == "speculative-sampling" and not exhibit.greedy:
            other = output_distribution(exhibit.rule(), [-1, 0], p, q, 3, lazy=False)
            if total_variation(written, other) < EXACT:
                return f" The gallery's “{exhibit.title}” writes the same: {exhibit.story}"
    return ""


class _Students(Rule):
    """The rule that a student's two functions make, for chains."""

    name = "homework"

    def __init__(self, acceptance: Acceptance, residual: Residual) -> None:
        super().__init__()
        self._acceptance, self._residual = acceptance, residual

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        assert q is not None and tree.is_chain
        decision = walk(
            tree,
            coins,
            lambda node, failed: self._acceptance(
                float(p[node, tree.tokens[node]]), float(q[node, tree.tokens[node]])
            ),
        )
        end = decision.end
        if end == len(tree):
            return decision.then(tree, p[end])
        rest = self._residual(p[end].tolist(), q[end].tolist())
        return decision.then(tree, torch.tensor(list(rest), dtype=p.dtype))


def _mask(mask: Mask) -> str:
    """Grade `mask(parents)`: which position may see which; position 0 is the root, i + 1 node i."""
    for parents in TREES:
        right = TokenTree([0] * len(parents), list(parents)).visible().tolist()
        found = [[bool(cell) for cell in row] for row in mask(list(parents))]
        size = len(parents) + 1
        if [len(row) for row in found] != [size] * size:
            raise _Wrong(
                f"For parents = {parents} the mask has to be {size} by {size}: the root has a row as well."
            )
        if found == right:
            continue
        if found == [list(column) for column in zip(*right, strict=True)]:
            raise _Wrong("Rows and columns are exchanged: row i says what position i sees.")
        row, column = next((i, j) for i in range(size) for j in range(size) if found[i][j] != right[i][j])
        raise _Wrong(f"For parents = {parents}: " + _cell(row, column, found[row][column]))
    return f"Every node sees itself and its ancestors, and nothing else, in {len(TREES)} trees."


def _cell(row: int, column: int, seen: bool) -> str:
    """What is wrong with one cell of a mask."""
    name = "the root" if column == 0 else f"position {column}"
    if not seen:
        if row == column:
            return f"position {row} does not see itself."
        return f"position {row} does not see {name}, which is above it. Go up to the root, not to the parent alone."
    if column > row:
        return f"position {row} sees {name}, which comes after it."
    return (
        f"position {row} sees {name}, which is on another branch. That is the mask of a chain, where every "
        "earlier position is an ancestor."
    )


def _proposer(propose: Propose, models: Models) -> str:
    """Grade `propose(tokens, length)`: at most `length` guesses for what follows the tokens, copied from them."""
    for tokens in ([], [5], [5, 6]):
        if guesses := list(propose(list(tokens), 4)):
            raise _Wrong(f"The text {tokens} has nothing to copy, and yet it guesses {guesses}.")
    guesses = list(propose([7, 8, 9, 10, 11, 7, 8], 2))
    if guesses == [7, 8]:
        raise _Wrong("It proposes the tokens that it looked for. What followed them is wanted.")
    if not guesses:
        raise _Wrong(
            "In 7 8 9 10 11 7 8 it finds nothing. The last two tokens, 7 8, have been there before; look for them "
            "everywhere but at the end, where they always are."
        )
    if len(guesses) > 2:
        raise _Wrong(
            f"Asked for 2 guesses it makes {len(guesses)}: the pass would be wider than was planned."
        )
    if guesses != [9, 10]:
        raise _Wrong(f"After 7 8 9 10 11 7 8 it guesses {guesses}; last time 9 and 10 followed 7 8.")
    own, usual = _passes(propose, models)
    if own < SHARE_TO_REACH * usual:
        raise _Wrong(
            f"On three texts to copy it reaches {own:.2f} tokens per pass; prompt lookup with two tokens reaches "
            f"{usual:.2f}. Is the whole text searched, and the newest place taken?"
        )
    return f"{own:.2f} tokens per pass on three texts to copy (prompt lookup: {usual:.2f}), and the text is the same."


def _passes(propose: Propose, models: Models) -> tuple[float, float]:
    """Tokens per pass of a student's proposer, and of prompt lookup with as many tokens."""
    settings = Settings(max_new_tokens=48, draft_length=6, record="tokens")
    lookup = settings.but(proposer="prompt-lookup", options={"max_ngram": 2})
    sums = [0.0, 0.0]
    for case in shipped(["copy"], 3):
        plain = decode(models, case.prompt, settings.but(proposer="none"))
        with _registered(propose) as name:
            own = decode(models, case.prompt, settings.but(proposer=name))
        if own.token_ids != plain.token_ids:
            raise _Wrong("The text is another than without guesses.")
        usual = decode(models, case.prompt, lookup)
        sums = [sums[0] + (own.stats.tokens_per_pass or 1.0), sums[1] + (usual.stats.tokens_per_pass or 1.0)]
    return sums[0] / 3, sums[1] / 3


@contextmanager
def _registered(propose: Propose) -> Iterator[str]:
    """A student's function as a proposer, under a name while this lasts."""

    class Students(Proposer):
        """Calls the function."""

        name = "homework"
        title = "Homework"
        summary = "What a student wrote."

        def propose(self, context: Context) -> Proposal:
            length = min(context.settings.draft_length, context.room)
            return Proposal(TokenTree.chain([int(token) for token in propose(list(context.tokens), length)]))

    proposers: Any = PROPOSERS
    proposers[Students.name] = Students
    try:
        yield Students.name
    finally:
        del proposers[Students.name]


acceptance = _graded(_acceptance)
rule = _graded(_rule)
mask = _graded(_mask)
proposer = _graded(_proposer)
