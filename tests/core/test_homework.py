"""The homework: its solution runs and is right, its starter says that it is still to be written, and typical wrong
answers are refused with their reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import specdec_core as sd
from specdec_lessons import homework

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def graded(path: Path) -> list[str]:
    """Runs a notebook in its own kernel; the verdicts it shows."""
    book = nbformat.read(path, as_version=4)
    assert not [cell for cell in book.cells if cell.get("outputs")], (
        "a notebook is stored without its outputs"
    )
    client = NotebookClient(
        book, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    return [
        output["data"]["text/plain"]
        for cell in book.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]


@pytest.mark.filterwarnings("ignore")  # of the kernel's client
def test_the_solution_is_right_in_a_kernel_of_its_own() -> None:
    """Catches: a notebook that does not run from its folder, and a solution that its own grader refuses."""
    verdicts = graded(NOTEBOOKS / "solution" / "homework.ipynb")
    assert len(verdicts) == 4 and all(verdict.startswith("✓ Right.") for verdict in verdicts), verdicts


def test_the_starter_is_the_solution_without_its_answers() -> None:
    """Catches: an exercise that gives its answer away, or asks for something else than is graded."""
    starter, solution = (
        nbformat.read(NOTEBOOKS / path, as_version=4).cells
        for path in ("homework.ipynb", "solution/homework.ipynb")
    )
    assert len(starter) == len(solution)
    left = [cell for cell in starter if "raise NotImplementedError  # yours" in cell.source]
    assert len(left) == 4
    for one, other in zip(starter[1:], solution[1:], strict=True):
        head, _, tail = one.source.partition("    raise NotImplementedError  # yours")
        assert other.source.startswith(head) and other.source.endswith(tail)

    def unwritten(*_: Any) -> Any:
        raise NotImplementedError

    assert "still to be written" in str(homework.acceptance(unwritten))


def acceptance(p: float, q: float) -> float:
    return min(1.0, p / q)


def normed(weights: list[float]) -> list[float]:
    return [weight / math.fsum(weights) for weight in weights]


def residual(p: list[float], q: list[float]) -> list[float]:
    return normed([max(0.0, a - b) for a, b in zip(p, q, strict=True)])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda p, q: p / q, "no probability"),
        (lambda p, q: min(1.0, q / p) if p else 1.0, "divides q by p"),
        (lambda p, q: min(1.0, q / p), "divides q by p"),
        (lambda p, q: math.nan, "it gives nan instead of 0.4"),
        (lambda p, q: p, "the target's own probability"),
        (lambda p, q: float(p >= q), "never another one"),
        (lambda p, q: 1.0, "keeps everything"),
        (lambda p, q: min(1.0, p / q) ** 2, "With p = 0.2 and q = 0.5 it gives 0.16 instead of 0.4"),
        (lambda p, q: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_acceptance_gets_its_reason(wrong: homework.Acceptance, reason: str) -> None:
    verdict = homework.acceptance(wrong)
    assert not verdict.right and reason in verdict.reason


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda p, q: p, "A second helping of p"),
        (lambda p, q: [max(0.0, a - b) for a, b in zip(p, q, strict=True)], "Divide each by their sum"),
        (lambda p, q: [a - b for a, b in zip(p, q, strict=True)], "use 0 there"),
        (lambda p, q: residual(q, p), "What is missing is p − q"),
        (lambda p, q: normed([abs(a - b) for a, b in zip(p, q, strict=True)]), "|p − q|"),
        (
            lambda p, q: normed([math.exp(max(0.0, a - b)) for a, b in zip(p, q, strict=True)]),
            "Softmax where a division belongs",
        ),
        (lambda p, q: residual(p, q)[:-1], "numbers for"),
        (lambda p, q: [math.nan] * len(p), "sum to nan"),
        (
            lambda p, q: normed([a * (a > b) for a, b in zip(p, q, strict=True)]),
            "away from the target's distribution",
        ),
    ],
)
def test_a_wrong_residual_gets_its_reason(wrong: homework.Residual, reason: str) -> None:
    verdict = homework.rule(acceptance, wrong)
    assert not verdict.right and reason in verdict.reason, verdict


def test_a_rule_is_judged_with_both_of_its_functions() -> None:
    """Catches: a grader that looks at the residual alone. Keeping everything writes q: TV(p, q) = .3 for one token."""
    assert homework.acceptance(acceptance).right and homework.rule(acceptance, residual).right
    verdict = homework.rule(lambda p, q: 1.0, residual)
    assert not verdict.right and "away from the target's distribution" in verdict.reason


def up(parents: list[int], far: bool = True, itself: bool = True) -> list[list[bool]]:
    """A tree mask; `far`: beyond the parent."""
    rows = [[True, *[False] * len(parents)]]
    for node, parent in enumerate(parents):
        row = [*rows[parent + 1]] if far else [at == parent + 1 for at in range(len(parents) + 1)]
        row[node + 1] = itself
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            lambda parents: [[j <= i for j in range(len(parents) + 1)] for i in range(len(parents) + 1)],
            "another branch",
        ),
        (lambda parents: up(parents, far=False), "not to the parent alone"),
        (lambda parents: up(parents, itself=False), "does not see itself"),
        (lambda parents: [list(column) for column in zip(*up(parents), strict=True)], "Rows and columns"),
        (lambda parents: up(parents)[1:], "the root has a row as well"),
        (lambda parents: [[True] * (len(parents) + 1)] * (len(parents) + 1), "comes after it"),
    ],
)
def test_a_wrong_mask_gets_its_reason(wrong: homework.Mask, reason: str) -> None:
    assert homework.mask(up).right
    verdict = homework.mask(wrong)
    assert not verdict.right and reason in verdict.reason, verdict


def lookup(tokens: list[int], length: int, skip: int = 2, first: bool = False) -> list[int]:
    places = range(len(tokens) - 3, -1, -1)
    for start in reversed(places) if first else places:
        if tokens[start : start + 2] == tokens[-2:]:
            return tokens[start + skip : start + skip + length]
    return []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda tokens, length: [], "it finds nothing"),
        (lambda tokens, length: lookup(tokens, length, skip=0), "What followed them"),
        (lambda tokens, length: lookup(tokens, length + 1), "Asked for 2 guesses"),
        (lambda tokens, length: lookup(tokens, length, skip=3), "9 and 10 followed"),
        (lambda tokens, length: tokens[-1:] * length, "has nothing to copy"),
        (lambda tokens, length: lookup(tokens[-40:], length), "Is the whole text searched"),
    ],
)
def test_a_wrong_proposer_gets_its_reason(
    wrong: Callable[[list[int], int], list[int]], reason: str, models: sd.Models
) -> None:
    verdict = homework.proposer(wrong, models)
    assert not verdict.right and reason in verdict.reason, verdict
    assert "homework" not in sd.PROPOSERS


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models()
