"""Fixtures of the core's tests."""

from __future__ import annotations

import pytest
import torch

import specdec_core as sd


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tiny tensors gain nothing from threads and lose a lot where other processes want the same cores."""
    torch.set_num_threads(1)


@pytest.fixture
def proposers(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """The table of proposers with the tests' branching ones in it."""
    from .trees import BRANCHING

    for kind in BRANCHING:
        monkeypatch.setitem(sd.PROPOSERS, kind.name, kind)
    return sd.PROPOSERS
