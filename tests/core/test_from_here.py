"""A branch of a record: another record's prompt, what is kept of its text, and a forced token."""

from __future__ import annotations

import json

import pytest

import specdec_core as sd
from specdec_core.foundations.errors import PromptError
from specdec_core.models.tokens.chat import Branched
from specdec_core.record.schema import Branch

WORDS = "Once upon a time, there was a little boy named Hugo. Hugo had"


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models(device="cpu")


def other_token(trace: sd.Trace, at: int) -> int:
    """The target's second choice there."""
    places = [place for row in trace.rounds for place in row.positions]
    return next(token for token in places[at].model_p.id if token != trace.token_ids[at])


@pytest.mark.parametrize(
    "given",
    [{}, {"temperature": 1.0, "seed": 7}, {"proposer": "branching"}, {"proposer": "prompt-lookup"}],
    ids=str,
)
def test_it_is_the_decoders_own_continuation(models: sd.Models, given: dict[str, object]) -> None:
    """Catches: a kept token too many or too few, a forced token that is lost, a cache or a seed that is not fresh."""
    settings = sd.Settings(max_new_tokens=32, **given)
    first = sd.decode(models, WORDS, settings)
    for at in (0, 1, 17, 31):
        token = other_token(first, at)
        ids = [*models.codec.encode(WORDS), *first.token_ids[:at], token]
        found = sd.decode(models, Branched.of(first, at, token), settings)
        alone = sd.decode(models, ids, settings)
        assert found.token_ids == alone.token_ids and found.header.prompt == alone.header.prompt
        assert found.header.prompt_ids == ids and found.audit() == []
        assert found.header.branch == Branch(first.header.id, at, token) and alone.header.branch is None
        again = sd.Trace.from_json(found.to_json())
        assert again.header.branch == found.header.branch
        assert json.loads(found.to_json())["header"]["branch"]["token"] == ids[-1]


def test_a_branch_of_a_branch_keeps_both_tokens(models: sd.Models) -> None:
    """Catches: a second branch that goes on from the first run's own text."""
    settings = sd.Settings(max_new_tokens=16)
    first = sd.decode(models, WORDS, settings)
    second = sd.decode(models, Branched.of(first, 5, other_token(first, 5)), settings)
    prompt = Branched.of(second, 3, other_token(second, 3))
    assert list(prompt.ids) == [*second.header.prompt_ids, *second.token_ids[:3], prompt.branch.token]
    assert prompt.branch.trace == second.header.id != first.header.id


def test_a_place_that_is_not_in_the_record_is_refused(models: sd.Models) -> None:
    """Catches: a branch after more tokens than there are, which would go on from another text."""
    first = sd.decode(models, WORDS, sd.Settings(max_new_tokens=8))
    with pytest.raises(PromptError, match="has 8 tokens; none can be chosen after 9"):
        Branched.of(first, 9, 5)
