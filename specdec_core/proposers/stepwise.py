"""Drafting that can be interrupted before each pass, so that those of several requests are made together."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Result = TypeVar("Result")
Drafting = Generator["Tensor", None, Result]
"""Yields, before each pass, the tokens int64 (n,) that it is about to read; see `specdec_measure.batch`."""


def finish(drafting: Drafting[Result]) -> Result:
    """The result of drafting alone."""
    while True:
        try:
            next(drafting)
        except StopIteration as end:
            result: Result = end.value
            return result
