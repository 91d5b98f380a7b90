"""A new proposer is one file and one line in the table: this test writes the file, adds the line, and uses it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.proposers import available
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
