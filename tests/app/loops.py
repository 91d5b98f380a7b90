"""Coroutines in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """What it returns; on a thread of its own, as Playwright leaves a loop on that of the tests before."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
