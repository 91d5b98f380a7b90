"""Fixtures of the core's tests."""

from __future__ import annotations

import pytest
import torch

import specdec_core as sd


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tiny tensors gain nothing from threads and lose a lot when other processes need the same cores."""
    torch.set_num_threads(1)


@pytest.fixture
def proposers(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """The table of proposers, including the tests' branching ones."""
    from .trees import BRANCHING

    for kind in BRANCHING:
        monkeypatch.setitem(sd.PROPOSERS, kind.name, kind)
    return sd.PROPOSERS
