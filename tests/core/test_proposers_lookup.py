"""Prompt lookup: each way to match against a naive search, and `first` against transformers' own."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

import specdec_core as sd
from specdec_core.proposers import Context, Outcome, Resources
from specdec_core.proposers.lookup.prompt_lookup import PromptLookup
from specdec_core.sampling import Warp
from specdec_measure.testing import scripted

from .distributions import chances, exact_distribution, samples, wavering
from .tiny import PROMPTS, generate, module, pair

MATCHES = ["longest", "first", "last", "most-frequent"]


def _lookup(
    match: str, longest: int, length: int, source: list[int] | None = None
) -> tuple[PromptLookup, Context]:
    """A proposer with a context of its own, to be driven by hand."""
    settings = sd.Settings(
        proposer="prompt-lookup", options={"match": match, "max_ngram": longest}, draft_length=length
    )
    models = scripted(wavering(4, 1))
    resources = Resources(models.target.reader(8), models, 8)
    context = Context(
        settings, Warp(), 4, 0, [], source=source or [], limit=length, length=length, room=10**6
    )
    return PromptLookup(resources, PromptLookup.read_options(settings)), context


def _places(text: list[int], size: int) -> list[int]:
    """Where the last `size` tokens stand with a token after them, ascending."""
    return [start for start in range(len(text) - size) if text[start : start + size] == text[-size:]]


def _by_definition(text: list[int], match: str, longest: int) -> tuple[int, int, int] | None:
    """Start and length of the match and how many competed, searched naively over the whole text."""
    if match == "last":
        places = _places(text, 1)
        if not places:
            return None
        end = places[-1] + 1
        size = max(size for size in range(1, min(longest, end) + 1) if text[end - size : end] == text[-size:])
        return end - size, size, len(places)
    for size in range(min(longest, len(text) - 1), 0, -1):
        places = _places(text, size)
        if not places:
            continue
        if match == "first":
            return places[0], size, len(places)
        if match == "most-frequent":
            counts = Counter(text[start + size] for start in places)
            often = [start for start in places if counts[text[start + size]] == max(counts.values())]
            return often[-1], size, len(places)
        return places[-1], size, len(places)
    return None


@pytest.mark.parametrize("longest", [1, 2, 3, 8])
@pytest.mark.parametrize("match", MATCHES)
def test_each_match_is_the_one_its_definition_names(match: str, longest: int) -> None:
    """60 random texts of three tokens, growing as in a decode. Catches: an index that misses new n-grams or counts the
    suffix itself, ties that fall the other way, and a note that points elsewhere."""
    for seed in range(60):
        rng = random.Random(seed)
        text = [rng.randrange(3) for _ in range(1 + rng.randrange(30))]
        proposer, context = _lookup(match, longest, 4)
        context.tokens[:] = text
        proposer.start(context)
        for _ in range(12):
            proposal, expected = proposer.propose(context), _by_definition(context.tokens, match, longest)
            if expected is None:
                assert proposal.tree.tokens == [] and proposal.note["match_start"] is None
            else:
                start, size, competing = expected
                copied = context.tokens[start + size : start + size + 4]
                assert proposal.tree.tokens == copied and proposal.tree.is_chain
                noted = [proposal.note[key] for key in ("match_start", "match_length", "copied", "matches")]
                assert noted == [start, size, len(copied), competing]
                if match == "most-frequent":
                    followers = [context.tokens[place + size] for place in _places(context.tokens, size)]
                    assert (
                        proposal.note["votes"]
                        == followers.count(copied[0])
                        == max(Counter(followers).values())
                    )
            new = [rng.randrange(3) for _ in range(1 + rng.randrange(4))]
            context.tokens.extend(new)
            proposer.observe(context, Outcome([], new))


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_the_first_match_is_transformers_prompt_lookup(longest: int) -> None:
    """The independent oracle: the same candidates on 200 random texts. Catches: another order of sizes or places, a
    proposal that is too long or starts one token off."""
    theirs = PromptLookupCandidateGenerator(
        num_output_tokens=5, max_matching_ngram_size=longest, max_length=10_000
    )
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        text = [rng.randrange(4) for _ in range(2 + rng.randrange(40))]
        proposer, context = _lookup("first", longest, 5)
        context.tokens[:] = text
        proposer.start(context)
        candidates, _ = theirs.get_candidates(torch.tensor([text]))
        expected = candidates[0, len(text) :].tolist()
        assert proposer.propose(context).tree.tokens == expected
        found += bool(expected)
    assert found > 150


@pytest.mark.parametrize("match", MATCHES)
def test_a_source_is_earlier_text(match: str) -> None:
    """An encoder's source is looked up as if it stood before the text. Catches: a source that is not searched, and
    positions that do not count it."""
    source = [3, 1, 2, 0, 3, 1]
    proposer, context = _lookup(match, 3, 2, source)
    joined, whole = _lookup(match, 3, 2)
    context.tokens[:], whole.tokens[:] = [0, 1], [*source, 0, 1]
    proposer.start(context)
    joined.start(whole)
    for new in ([2], [0, 3], [1]):
        one, other = proposer.propose(context), joined.propose(whole)
        assert one.tree.tokens and one.tree.tokens == other.tree.tokens and one.note == other.note
        for lookup, where in ((proposer, context), (joined, whole)):
            where.tokens.extend(new)
            lookup.observe(where, Outcome([], new))


@pytest.mark.parametrize("match", MATCHES)
def test_greedy_text_is_that_of_generate(match: str) -> None:
    """Three architectures, and something was won. Catches: a proposal that the loop cannot take."""
    rates = []
    for architecture in ("gpt2", "llama", "gpt-neox"):
        models = pair(architecture)
        settings = sd.Settings(
            proposer="prompt-lookup", options={"match": match, "max_ngram": 2}, max_new_tokens=30
        )
        for prompt in PROMPTS[1:3]:
            trace = sd.decode(models, prompt, settings)
            assert trace.token_ids == generate(module(models), prompt, 30)
            assert trace.audit() == []
            rates.append(trace.stats.tokens_per_pass)
    assert max(rate for rate in rates if rate) > 1.1


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """160 texts of four tokens of each way to match, one by one and together; false alarm 1e-4; the default
    is tested in test_distribution too. Catches: a match chosen with the help of what the round wrote."""
    target, prompt = wavering(3, seed=5), [0, 1, 0, 2, 0]
    cases = {
        (match,): sd.Settings(
            proposer="prompt-lookup", options={"match": match}, temperature=1.0, max_new_tokens=4, draft_length=2,
            record="off",
        )
        for match in ("first", "last", "most-frequent")
    }  # fmt: skip
    found = chances(
        samples(scripted(target), prompt, cases, 160), exact_distribution(target, prompt, 4, Warp(1.0))
    )
    assert min(found.values()) > 1e-4, found


def _leading(text: list[int], size: int, length: int) -> list[int]:
    """The definition: whole continuations counted, the first four kinds, three times all others together."""
    kinds: list[tuple[int, ...]] = []
    counts: Counter[tuple[int, ...]] = Counter()
    for start in _places(text, size):
        continuation = tuple(text[start + size : start + size + length])
        if len(continuation) < length or (continuation not in kinds and len(kinds) == 4):
            continue
        if continuation not in kinds:
            kinds.append(continuation)
        counts[continuation] += 1
    winner = max(kinds, key=lambda kind: counts[kind], default=())
    return list(winner) if counts[winner] >= 3 * (counts.total() - counts[winner]) else []


def _walked(text: list[int], size: int, length: int) -> list[int]:
    """The definition: a table that the newest follower of every n-gram overwrites, read again after each token."""
    table = {tuple(text[at : at + size]): text[at + size] for at in range(len(text) - size)}
    found: list[int] = []
    while len(found) < length and (after := table.get(tuple([*text, *found][-size:]))) is not None:
        found.append(after)
    return found


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("match", ["leading", "walk"])
def test_llama_cpps_look_ups_follow_their_definitions(match: str, size: int) -> None:
    """200 random texts of three tokens, growing. Catches: a count of first tokens instead of continuations, a tie that
    is copied, a fifth kind, a table that keeps the oldest follower, a walk over tokens that are not in the text yet."""
    found, chosen = 0, {"leading": _leading, "walk": _walked}[match]
    for seed in range(200):
        rng = random.Random(seed)
        text = [rng.choice([0, 0, 0, 1, 2]) for _ in range(4 + rng.randrange(60))]
        proposer, context = _lookup(match, size, 2)
        context.tokens[:] = text
        proposer.start(context)
        for _ in range(6):
            proposed = proposer.propose(context).tree.tokens
            assert proposed == chosen(context.tokens, size, 2)
            found += bool(proposed)
            new = [rng.choice([0, 0, 1]) for _ in range(1 + rng.randrange(3))]
            context.tokens.extend(new)
            proposer.observe(context, Outcome([], new))
    assert found > 60


def test_short_copies_are_left_out_where_they_are_not_wanted() -> None:
    """Catches: a shortest copy that nobody checks, or that the end of the text cannot reach."""
    for fewest, expected in ((1, [0, 1]), (2, [0, 1]), (3, [])):
        proposer, context = _lookup("longest", 2, 4)
        proposer.options = PromptLookup.Options(max_ngram=2, fewest=fewest)
        context.tokens[:] = [0, 1, 0, 1]
        proposer.start(context)
        assert proposer.propose(context).tree.tokens == expected
