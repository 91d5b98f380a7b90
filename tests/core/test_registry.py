"""The tables of proposers, rules and length policies."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import specdec_core as sd
from specdec_core.foundations.registry import table


class Named:
    name = "echo"


class Unnamed:
    """Has none."""


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (("new.Named", "new.Again"), "made.new.Again and Named are both named 'echo': rename one."),
        (("new.Unnamed",), "made.new.Unnamed has no `name`: give it the one that settings choose it by."),
    ],
)
def test_a_class_that_no_name_leads_to_is_refused(
    entries: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a copied file that keeps its model's name, and so takes its place without a word."""
    module = ModuleType("made.new")
    vars(module).update(Named=Named, Again=type("Again", (Named,), {}), Unnamed=Unnamed)
    monkeypatch.setitem(sys.modules, "made", ModuleType("made"))
    monkeypatch.setitem(sys.modules, "made.new", module)
    with pytest.raises(ValueError, match=f"^{said}$"):
        table("made", entries)


@pytest.mark.parametrize(
    ("choice", "meant"),
    [({"proposer": "sufix"}, "suffix"), ({"rule": "bloc"}, "block"), ({"length_policy": "fixd"}, "fixed")],
)
def test_a_misspelt_name_is_answered_with_the_nearest(choice: dict[str, str], meant: str) -> None:
    models = sd.testing.scripted(lambda text: [0.5, 0.5])
    with pytest.raises(sd.SettingsError, match=f"Did you mean '{meant}'"):
        sd.decode(models, [0], sd.Settings(**choice))
