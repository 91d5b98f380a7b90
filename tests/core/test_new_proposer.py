"""A new proposer is one file and one line in the table: this test writes the file, adds the line, and uses it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.proposers import Context, Proposal, available
from specdec_core.proposers.draft_model import DraftModel
from specdec_core.testing import scripted

from .distributions import wavering

FILE = '''
"""Echo: propose the last few tokens once more."""

from __future__ import annotations

from pydantic import Field

from specdec_core.proposers import Context, Proposal, Proposer
from specdec_core.tree import TokenTree


class Echo(Proposer):
    """Repeats the end of the text."""

    name = "echo"
    title = "Echo"
    summary = "Proposes the last tokens once more. It loses wherever the text goes on."

    class Options(Proposer.Options):
        back: int = Field(2, ge=1, le=8, description="How many tokens are repeated.")

    def propose(self, context: Context) -> Proposal:
        back = min(self.options.back, context.length, context.room)
        return Proposal(TokenTree.chain(context.tokens[-back:] if back else []))
'''


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file, imported, and its line in the table."""
    path = tmp_path / "echo.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("echo_proposer", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "echo_proposer", module)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sd.PROPOSERS, "echo", module.Echo)
    return "echo"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", ["speculative-sampling", "token-matching"])
def test_it_decodes_and_is_recorded(echo: str, rule: str, temperature: float) -> None:
    """Catches: a loop, recorder or trace that knows the proposers by name."""
    models = scripted(wavering(4, seed=1))
    settings = sd.Settings(
        proposer=echo, rule=rule, options={"back": 3}, temperature=temperature, max_new_tokens=24, seed=3
    )
    trace = sd.decode(models, [0, 1, 2], settings)
    assert trace.audit() == []
    assert trace.stats.proposed > 0
    assert sd.Trace.from_json(trace.to_json()) == trace
    if temperature == 0.0:
        assert (
            trace.token_ids
            == sd.decode(models, [0, 1, 2], settings.but(proposer="none", options={})).token_ids
        )
    assert available(models)[echo] is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda q: q * float("nan"),
            "The proposer 'draft-model' drew from a q with numbers that are not finite",
        ),
        (lambda q: q.index_fill(1, torch.tensor([2]), float("inf")), "not finite"),
        (
            lambda q: q[:, :-1],
            "'draft-model' proposed a q of shape (4, 3); expected (4, 4): nodes × vocabulary",
        ),
        (lambda q: q[1:], "expected (4, 4)"),
    ],
    ids=["NaN", "infinite", "narrow", "short"],
)
def test_a_q_that_nothing_can_be_drawn_from_is_refused(
    changed: Callable[[Tensor], Tensor], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the round in which it is proposed. Catches: NaN in a record, which then cannot be read again, and a bare error
    from inside a rule."""
    propose = DraftModel.propose

    def spoilt(self: DraftModel, context: Context) -> Proposal:
        proposal = propose(self, context)
        assert proposal.q is not None
        return replace(proposal, q=changed(proposal.q))

    monkeypatch.setattr(DraftModel, "propose", spoilt)
    models = scripted(wavering(4, seed=1), wavering(4, seed=2))
    with pytest.raises(ValueError, match=re.escape(said)):
        sd.decode(models, [0, 1, 2], sd.Settings(temperature=1.0, max_new_tokens=24))


def test_its_options_are_validated_from_its_own_file(echo: str) -> None:
    """Catches: options that only the built-in proposers have."""
    models = scripted(wavering(4, seed=1))
    for options, words in (({"back": 9}, "back"), ({"forth": 1}, "no option 'forth'; it knows: back")):
        with pytest.raises(sd.SettingsError, match=words):
            sd.decode(models, [0], sd.Settings(proposer=echo, options=options))


def test_the_command_line_knows_it(echo: str) -> None:
    """Catches: a list of proposers that is written down a second time."""
    from specdec_core.cli.commands import app

    result = CliRunner().invoke(
        app, ["decode", "Once upon a time", "-p", echo, "--option", "back=3", "-n", "8", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    listed = CliRunner().invoke(app, ["proposers"])
    assert "echo" in listed.output and "How many tokens are repeated" in listed.output
