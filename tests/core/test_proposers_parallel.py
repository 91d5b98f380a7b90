"""A parallel draft against its definition: what it reads, what it keeps, and what its guesses are drawn from."""

from __future__ import annotations

import pytest
import torch

import specdec_core as sd
from specdec_core.proposers import Context, Resources
from specdec_core.proposers.draft.parallel_draft import ParallelDraft
from specdec_core.sampling import Warp
from specdec_measure.testing import ScriptedModel, scripted

from .distributions import wavering

MASK = 3


def models(mask: int | None = MASK) -> sd.Models:
    found = scripted(wavering(3, seed=1), wavering(3, seed=2))
    found.draft = ScriptedModel(wavering(4, seed=2), 4, "masked")  # one token more than the target: the mask
    found.draft.mask = mask
    return found


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_each_guess_follows_the_text_and_masks_alone(temperature: float) -> None:
    """Catches: a guess that is made from earlier guesses, mask tokens that stay in the KV cache, a q of another
    position, a mask that is proposed."""
    found = models()
    settings = sd.Settings(proposer="parallel-draft", temperature=temperature, draft_length=3)
    draft = found.draft.reader(50)  # type: ignore[union-attr]
    proposer = ParallelDraft(Resources(found.target.reader(50), found, 50, draft), ParallelDraft.Options())
    context = Context(settings, Warp.of(settings), 3, 2, [0, 1], limit=9, length=3, room=99)
    proposer.start(context)
    for new in ([], [2], [0, 1, 2]):  # what rounds commit
        context.tokens.extend(new)
        proposal = proposer.propose(context)
        assert draft.length == len(context.tokens) and draft.rows[: draft.length] == context.tokens  # type: ignore[attr-defined]
        assert proposal.passes == 1 and len(proposal.tree) == 3 and proposal.tree.is_chain
        for place in range(3):
            read = (*context.tokens, *[MASK] * place)
            own = torch.tensor(found.draft.next_probs(read)[:3])  # type: ignore[union-attr]
            wanted = own / own.sum()
            assert proposal.logits is not None
            assert torch.allclose(proposal.logits[place].softmax(-1), wanted, atol=1e-6)
            if temperature:
                assert proposal.q is not None and torch.allclose(proposal.q[place], wanted, atol=1e-6)
            else:
                assert proposal.q is None and proposal.tree.tokens[place] == int(wanted.argmax())


def test_a_draft_without_a_mask_token_is_refused() -> None:
    with pytest.raises(sd.SettingsError, match="trained with mask tokens, and 'masked' has none"):
        sd.decode(models(None), [0], sd.Settings(proposer="parallel-draft"))


def test_the_policy_stops_it_between_guesses() -> None:
    """Catches: a policy that is not asked, tokens proposed after it said no."""
    settings = sd.Settings(
        proposer="parallel-draft", draft_length=4, length_policy="confidence", length_options={"threshold": 0.99},
        max_new_tokens=12,
    )  # fmt: skip
    trace = sd.decode(models(), [0, 1], settings)
    assert trace.audit() == [] and all(len(row.nodes.token) <= 1 for row in trace.rounds)
