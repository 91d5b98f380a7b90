"""A new proposer is one file and one line in the table: this test writes the file, adds the line, and uses it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.proposers import Context, Outcome, Proposal, Proposer, available
from specdec_core.proposers.draft.draft_model import DraftModel
from specdec_measure.testing import scripted

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
            "one row for each node, float32 (4, 4), got float32 (4, 3)",
        ),
        (lambda q: q[1:], "got float32 (3, 4)"),
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
    for options, words in (({"back": 9}, "back"), ({"forth": 1}, "no option 'forth'; its options are: back")):
        with pytest.raises(sd.SettingsError, match=words):
            sd.decode(models, [0], sd.Settings(proposer=echo, options=options))


def test_the_command_line_knows_it(echo: str) -> None:
    """Catches: a list of proposers that is written down a second time."""
    from specdec_cli.commands import app

    result = CliRunner().invoke(
        app, ["decode", "Once upon a time", "-p", echo, "--option", "back=3", "-n", "8", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    listed = CliRunner().invoke(app, ["proposers"])
    assert "echo" in listed.output and "How many tokens are repeated" in listed.output


TWO = sd.TokenTree.chain([1, 2])
WIDE = sd.TokenTree([1, 2], [-1, -1])


def of(**parts: Any) -> Proposal:
    """A proposal of two nodes with these parts, right or wrong."""
    return Proposal(**{"tree": TWO, **parts})


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, r"has to return a Proposal from propose\(\), got None"),
        ([1, 2], r"has to return a Proposal from propose\(\), got a value of type list"),
        (of(tree=[1, 2]), "`tree` is a TokenTree, got a value of type list"),
        (of(extra=None), "`extra` is a TokenTree, got None"),
        (
            of(tree=sd.TokenTree.chain([1.0, 2.0])),
            "token ids as whole numbers, got a value of type float in `tree`",
        ),  # type: ignore[list-item]
        (of(tree=WIDE), r"has to propose a chain, because its shape\(\) says 'chain'"),
        (of(tree=sd.TokenTree.chain([1] * 9)), r"at most 4 nodes, as its shape\(\) says, got 9"),
        (of(tree=sd.TokenTree.chain([1, 4])), "token ids from 0 to 3, got 1 to 4"),
        (
            of(q=torch.ones(1, 4)),
            r"`q` is None or one row for each node, float32 \(2, 4\), got float32 \(1, 4\)",
        ),
        (of(q=torch.ones(2, 3)), r"float32 \(2, 4\), got float32 \(2, 3\)"),
        (of(q=torch.ones(2, 4, dtype=torch.float64)), r"float32 \(2, 4\), got float64 \(2, 4\)"),
        (of(q=[[0.25] * 4] * 2), "got a value of type list"),
        (of(q=torch.full((2, 4), 0.3)), r"its rows sum to 1\.2 on average, not to 1\. `context\.warp`"),
        (of(q=torch.tensor([[9.0, 2.0, -1.0, 3.0]] * 2)), "its rows sum to 13 on average"),
        (
            of(logits=torch.ones(2)),
            r"`logits` are None or the draft's rows, float32 \(m, 4\), got float32 \(2,\)",
        ),
        (of(penalised=torch.ones(3, 2)), r"`penalised` .* float32 \(m, 4\), got float32 \(3, 2\)"),
        (of(logits=torch.ones(1, 4), logit_rows=[0]), "`logit_rows` .* 3 here, got 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_proposal_that_breaks_the_contract_is_one_sentence(
    returned: Any, words: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: an error from inside the rules or the loop, a tree under 'chain' that some rules judge wrongly."""

    class Broken(Proposer):
        name = "broken"
        title = summary = "Broken"

        def propose(self, context: Context) -> Proposal:
            return returned  # type: ignore[no-any-return]

    monkeypatch.setitem(sd.PROPOSERS, "broken", Broken)
    settings = sd.Settings(proposer="broken", temperature=temperature, max_new_tokens=8)
    with pytest.raises(sd.SpecdecError, match=rf"^The proposer 'broken' .*{words}.*\.$"):
        sd.decode(scripted(wavering(4, seed=1)), [0, 1], settings)


def test_a_proposal_beyond_the_memory_budget_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a proposer that never looks at `context.room`, and so takes memory that was not to be taken."""

    class Greedy(Proposer):
        name = "greedy"
        title = summary = "Greedy"

        def propose(self, context: Context) -> Proposal:
            return Proposal(sd.TokenTree.chain([1] * context.length))

    monkeypatch.setitem(sd.PROPOSERS, "greedy", Greedy)
    models = scripted(wavering(4, seed=1))
    row = models.target.kv_bytes + 8 * models.target.vocabulary
    settings = sd.Settings(proposer="greedy", max_new_tokens=8, memory_budget_mb=3.5 * row / 1e6)
    with pytest.raises(
        sd.SpecdecError, match=r"'greedy' has to propose at most context\.room nodes, 2 in this round"
    ):
        sd.decode(models, [0, 1], settings)


def test_what_observe_returns_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a bare AttributeError a few lines later."""

    class Watching(Proposer):
        name = "watching"
        title = summary = "Watching"

        def propose(self, context: Context) -> Proposal:
            return Proposal(sd.TokenTree.chain([1][: context.length]))

        def observe(self, context: Context, outcome: Outcome) -> Any:
            return outcome.tokens

    monkeypatch.setitem(sd.PROPOSERS, "watching", Watching)
    with pytest.raises(
        sd.SpecdecError, match=r"'watching' has to return None or a DraftedAhead from observe\(\)"
    ):
        sd.decode(scripted(wavering(4, seed=1)), [0, 1], sd.Settings(proposer="watching"))


def test_a_misspelt_need_is_not_answered_as_missing_heads() -> None:
    """Catches: "needs trained darft heads and none are loaded"."""

    class Careless(DraftModel):
        needs = ("darft",)

    with pytest.raises(
        ValueError, match=r"'draft-model' says in its class that it needs 'darft'\. Did you mean"
    ):
        Careless.why_not(scripted(wavering(5, seed=1)))
