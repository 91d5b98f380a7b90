"""Evaluates the expressions of a lesson: arithmetic, comparisons, lists, the functions of `facts/`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from simpleeval import EvalWithCompoundTypes, FeatureNotAvailable, InvalidExpression

from app.course import facts
from specdec_core.foundations.errors import SpecdecError

_PLAIN = {"min": min, "max": max, "abs": abs, "len": len, "round": round, "sum": sum}


class NoValue(ValueError):
    """One sentence about why an expression has no value."""


def value(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression with these `names`.

    Raises:
        NoValue: if it is invalid, uses an unknown name, or calls a function that fails.
    """
    known = {**_PLAIN, **facts.functions()}
    calculator = EvalWithCompoundTypes(names=dict(names), functions=known)
    del calculator.nodes[ast.Attribute]  # lists and numbers have methods, which no lesson needs
    try:
        ast.parse(expression, mode="eval")  # simpleeval would also accept statements
        return calculator.eval(expression)
    except SyntaxError:
        raise NoValue(f"`{expression}` is not an expression; write it as in Python.") from None
    except (FeatureNotAvailable, InvalidExpression) as error:
        raise NoValue(
            f"`{expression}` cannot be computed ({error}); it may use what is given, facts above it, and the "
            f"functions {', '.join(sorted(known))}."
        ) from None
    except (SpecdecError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise NoValue(f"`{expression}` cannot be computed: {error}") from None
