"""Suffix decoding against its definition, searched anew, and what earlier texts change."""

from __future__ import annotations

import random

import pytest

import specdec_core as sd
from specdec_core.proposers import Context, Outcome, Resources
from specdec_core.proposers.lookup import suffix
from specdec_core.proposers.lookup.suffix import Suffix
from specdec_core.sampling import Warp
from specdec_measure.testing import scripted

from .distributions import wavering

MODELS = scripted(wavering(4, 1))


def _suffix(limit: int = 5, **options: object) -> tuple[Suffix, Context]:
    """A proposer with a context of its own, to be driven by hand."""
    settings = sd.Settings(proposer="suffix", options=options)
    resources = Resources(MODELS.target.reader(8), MODELS, 8)
    context = Context(settings, Warp(), 4, 0, [], limit=limit, length=4, room=10**6)
    return Suffix(resources, Suffix.read_options(settings)), context


def _count(texts: list[list[int]], passage: list[int]) -> int:
    """How often a passage occurs."""
    wanted = bytes(passage)
    return sum(text.startswith(wanted, at) for text in map(bytes, texts) for at in range(len(text)))


def _shares(
    texts: list[list[int]], ending: list[int], depth: int, least: float
) -> dict[tuple[int, ...], float]:
    """Every continuation of `ending` with its share, by counting whole passages."""
    found: dict[tuple[int, ...], float] = {}
    border = [((), 1.0)]
    while border:
        path, value = border.pop()
        counts = [_count(texts, [*ending, *path, token]) for token in range(4)]
        for token, count in enumerate(counts):
            if count and value * count / sum(counts) >= least:
                found[*path, token] = value * count / sum(counts)
                if len(path) + 1 < depth:
                    border.append(((*path, token), found[*path, token]))
    return found


def _by_definition(
    texts: list[list[int]], limit: int, factor: float, nodes: int, least: float
) -> tuple[float, int]:
    """The best sum of values and the number of tokens matched for it."""
    own, best = texts[-1], (0.0, 0)
    for length in range(1, min(suffix.MAX_MATCH, len(own)) + 1):
        shares = sorted(_shares(texts, own[-length:], limit, least).values(), reverse=True)
        value = sum(shares[: min(nodes, max(1, int(factor * length)))])
        if value > 0 and value > best[0] - 1e-9:
            best = value, length
    return best


@pytest.mark.parametrize("factor", [1.0, 3.0])
@pytest.mark.parametrize("earlier", [[], [[0, 1, 2, 0], [3], [1, 2, 3, 0, 1]]])
def test_the_tree_is_the_best_by_its_definition(
    earlier: list[list[int]], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 random texts, growing as in a decode. Catches: places that miss the newest text or cross into another one,
    counts and budgets of another context, a tree that is not the best."""
    monkeypatch.setattr(suffix, "MAX_MATCH", 6)
    found = 0
    for seed in range(10):
        rng = random.Random(seed)
        proposer, context = _suffix(limit=3, earlier=earlier, factor=factor, nodes=7)
        context.tokens[:] = [rng.randrange(3) for _ in range(1 + rng.randrange(16))]
        proposer.start(context)
        for _ in range(6):
            proposal, texts = proposer.propose(context), [*earlier, context.tokens]
            value, length = _by_definition(texts, 3, factor, 7, 0.1)
            assert proposal.note["match_length"] == length
            if length:
                shares = _shares(texts, context.tokens[-length:], 3, 0.1)
                tree, ending = proposal.tree, context.tokens[-length:]
                paths = [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))]
                assert len({*paths}) == len(paths) <= 7
                assert sum(shares[path] for path in paths) == pytest.approx(value)
                followed = [_count([text[:-1]], ending) for text in texts]
                assert [proposal.note["matches"], proposal.note["earlier"]] == [
                    sum(followed),
                    sum(followed[:-1]),
                ]
            else:
                assert not len(proposal.tree)
            found += len(proposal.tree) > 1
            new = [rng.randrange(3) for _ in range(1 + rng.randrange(4))]
            context.tokens.extend(new)
            proposer.observe(context, Outcome([], new))
    assert found > 25


def test_what_is_remembered_of_a_token_is_bounded() -> None:
    """Catches: places, and so the time of a round, that grow with the text."""
    proposer, context = _suffix()
    context.tokens[:] = [1] * 5_000
    proposer.start(context)
    assert len(proposer.agreeing) == suffix.PLACES
    assert proposer.propose(context).tree.tokens == [1] * 5


def test_an_earlier_run_is_copied_and_recorded() -> None:
    """The second run of a prompt takes fewer passes, writes the same, and repeats from its record alone. Catches:
    earlier texts that are not searched, or that the record does not keep."""
    models = scripted(wavering(4, seed=7, sharpness=3.0))
    settings = sd.Settings(proposer="suffix", max_new_tokens=40)
    first = sd.decode(models, [0, 1], settings)
    earlier = [[*first.header.prompt_ids, *first.token_ids]]
    again = sd.decode(models, [0, 1], settings.but(options={"earlier": earlier}))
    assert again.token_ids == first.token_ids and again.audit() == []
    assert again.stats.target_passes < 0.5 * first.stats.target_passes
    assert again.rounds[0].note["earlier"]
    read = sd.Trace.from_json(again.to_json())
    repeated = sd.decode(models, read.header.prompt_ids, sd.Settings(**read.header.settings))
    assert repeated.rounds[0].nodes.token == again.rounds[0].nodes.token
    assert repeated.stats.target_passes == again.stats.target_passes


@pytest.mark.parametrize(
    ("earlier", "words"), [([[1, -1]], "negative token id"), ([[1], [2, 4]], "holds the token id 4")]
)
def test_ids_of_another_tokenizer_are_refused(earlier: list[list[int]], words: str) -> None:
    with pytest.raises(sd.SettingsError, match=words):
        sd.decode(MODELS, [0], sd.Settings(proposer="suffix", options={"earlier": earlier}))
