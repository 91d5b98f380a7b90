"""The gallery of broken decoders: each is really broken, by the meter it names, and its right counterpart is not."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import numpy as np
import pytest

import specdec_core as sd
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_lessons.broken import BrokenReader, PathByPath, Side, SoftmaxGreedy, with_reader
from specdec_lessons.gallery import GALLERY, BrokenCache, BrokenHead, BrokenRule, examine, measure
from specdec_measure.exact.distribution import distance, expected_accepted, output_distribution
from specdec_measure.testing import scripted

from .distributions import after, chance_of, exact_distribution, mixture, sample, wavering
from .tiny import PROMPTS, generate, module, pair

BROKEN_RULES = [exhibit for exhibit in GALLERY if isinstance(exhibit, BrokenRule)]
BROKEN_CACHES = [exhibit for exhibit in GALLERY if isinstance(exhibit, BrokenCache)]
BY_NAME = {exhibit.name: exhibit for exhibit in GALLERY}

_target = wavering(3, seed=1)
_draft = mixture(_target, wavering(3, seed=2), 0.7)


def rule(name: str) -> BrokenRule:
    exhibit = BY_NAME[name]
    assert isinstance(exhibit, BrokenRule)
    return exhibit


@pytest.mark.parametrize("exhibit", BROKEN_RULES, ids=lambda exhibit: exhibit.name)
def test_the_enumerator_catches_the_broken_rule_and_clears_the_right_one(exhibit: BrokenRule) -> None:
    """The mutation test of the enumerator: on one and the same example the broken rule is off by at least 0.01 and the
    right one by rounding. Catches: an enumerator that lets anything pass, or an example that shows nothing."""
    measured = measure(exhibit)
    assert measured.broken > 0.01
    assert measured.right <= 1e-12
    assert sum(measured.written) == pytest.approx(1.0, abs=1e-12)


def test_distances_are_those_found_by_hand() -> None:
    """Catches: a measure that is not of the rule it names. Resampling: .35, .39, .26. Three paths through a token of
    probability .2: 1 − .8³ + .8³ × .2 = .5904. Softmax-greedy drafts token 0, keeps it with .45/.6, else writes 2.
    Misaligned: token 1 fails with 1/4, token 2 with 2/3, so .5 corrects, from (.5 − .4, .3 − .6, .2) = 1/3, 0, 2/3."""
    assert measure(rule("resample-from-target")).written == pytest.approx([0.35, 0.39, 0.26], abs=1e-12)
    assert measure(rule("resample-from-target")).broken == pytest.approx(0.15, abs=1e-12)
    assert measure(rule("path-by-path")).written == pytest.approx([0.256, 0.1536, 0.5904], abs=1e-12)
    assert measure(rule("softmax-greedy")).written == pytest.approx([0.75, 0.0, 0.25], abs=1e-12)
    assert measure(rule("misaligned-residual")).written == pytest.approx([1 / 6, 0.3, 0.2 + 1 / 3], abs=1e-12)


def test_a_q_that_was_not_drawn_from_is_off_by_what_hand_finds() -> None:
    """Argmax: token 0 always, kept with .5/.6, else the residual (0, 0, .1). Top-k: token 0 with 2/3, kept with .5/.6,
    token 1 with 1/3, kept; else the residual. Catches: a broken rule that is given the right q after all."""
    assert measure(rule("argmax-with-softmax")).written == pytest.approx(
        [0.5 / 0.6, 0.0, 0.1 / 0.6], abs=1e-12
    )
    assert measure(rule("argmax-with-softmax")).broken == pytest.approx(1 / 3, abs=1e-12)
    assert measure(rule("q-before-top-k")).written == pytest.approx([5 / 9, 1 / 3, 1 / 9], abs=1e-12)


def test_a_head_in_the_wrong_order_guesses_worse_and_writes_the_same() -> None:
    """The shipped modules; and enumerated: whatever a head guesses, the text is exact, and only the acceptance falls.
    Catches: an exhibit that breaks nothing, or the loaded head itself; a distance where there is none."""
    exhibit = BY_NAME["mtp-order"]
    assert isinstance(exhibit, BrokenHead)
    models = sd.load_models(device="cpu")
    settings = sd.Settings(max_new_tokens=40)
    examined = examine(exhibit, models, "Once there was a small boat", settings)
    assert examined.audit == [] and examined.forks_at is None
    broken, right = examined.tokens_per_pass
    assert broken < 0.7 * right
    again = sd.decode(models, "Once there was a small boat", settings.but(proposer="mtp"))
    assert again.stats.tokens_per_pass == right, "the loaded head was changed"
    judge = sd.RULES["speculative-sampling"]()
    for guessed, accepted in (
        (0, 0.5),
        (2, 0.2),
    ):  # by the favourite of the right order, and of the wrong one
        q = [float(token == guessed) for token in range(3)]
        assert distance(judge, (-1,), lambda _: (0.5, 0.3, 0.2), lambda _, q=q: q, "fixed") < 1e-12
        found = expected_accepted(judge, (-1,), lambda _: (0.5, 0.3, 0.2), lambda _, q=q: q, "fixed")
        assert found == pytest.approx(accepted)


def test_the_common_coin_is_integrated_out_exactly() -> None:
    """Against a sum over the two stretches of the coin, written out: below .4 all tokens of q pass, above it tokens 0
    and 1 only. Catches: a stretch that is missed or weighted wrongly."""
    p, q, left = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5), (1.0, 0.0, 0.0)  # max(0, p − q) has token 0 alone
    written: Counter[tuple[int, ...]] = Counter()
    for share, passing in ((0.4, {0, 1, 2}), (0.6, {0, 1})):
        for one, two, three, four in itertools.product(range(3), repeat=4):
            drafted = share * q[one] * q[two]
            if one not in passing:  # corrected at once, then two tokens of p
                written[three, four, 0] += drafted * left[three] * p[four] * p[0]
                written[three, four, 1] += drafted * left[three] * p[four] * p[1]
                written[three, four, 2] += drafted * left[three] * p[four] * p[2]
            elif two not in passing:
                written[one, three, four] += drafted * left[three] * p[four]
            else:
                written[one, two, three] += drafted * p[three] * p[four]
    target = {text: p[text[0]] * p[text[1]] * p[text[2]] for text in itertools.product(range(3), repeat=3)}
    distance = 0.5 * sum(abs(written[text] - mass) for text, mass in target.items())
    measured = measure(rule("one-coin"))
    assert measured.broken == pytest.approx(distance, abs=1e-12)
    assert measured.written == pytest.approx(p, abs=1e-12), (
        "each token by itself is right, which is why it is missed"
    )


def test_path_by_path_is_what_it_says() -> None:
    """Against a simulation that draws on every path and takes the longest match, 20,000 rounds, chi-square with a
    false alarm of 1e-4. Catches: a walk whose distribution is not that of the paths."""
    shape, length = (-1, -1, 0, 0, 1, 2), 4
    p, q = wavering(3, seed=8), wavering(3, seed=9)
    expected = output_distribution(PathByPath(), shape, p, q, length, "fixed", lazy=False)
    tree = _most_likely(shape, q)
    paths = [tree.path(node) for node in range(len(tree)) if not tree.children[node + 1]]
    rng = random.Random(0)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(20_000):
        matches = []
        for path in paths:
            text: tuple[int, ...] = ()
            for node in path:
                if rng.choices(range(3), p(text))[0] != tree.tokens[node]:
                    break
                text = (*text, tree.tokens[node])
            matches.append(text)
        written = max(matches, key=len)
        while len(written) < length:
            written = (*written, *rng.choices(range(3), p(written)))
        seen[written] += 1
    assert chance_of(seen, expected) > 1e-4


def _most_likely(shape: tuple[int, ...], q: object) -> TokenTree:
    """The tree whose siblings are the most likely tokens of q."""
    tokens: list[int] = []
    for node, parent in enumerate(shape):
        tree = TokenTree(tokens, shape[:node])
        order = np.argsort(q(tuple(tokens[step] for step in tree.path(parent))))[::-1]  # type: ignore[operator]
        tokens.append(int(order[sum(other == parent for other in shape[:node])]))
    return TokenTree(tokens, shape)


def test_softmax_greedy_writes_other_texts_in_the_real_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """At temperature 0 there is one text, whatever the seed. Catches: an exhibit that is broken on paper only."""
    monkeypatch.setitem(sd.RULES, SoftmaxGreedy.name, SoftmaxGreedy)
    models = scripted(_target, _draft)
    texts = {
        name: {
            tuple(sd.decode(models, [0, 1], sd.Settings(rule=name, max_new_tokens=12, seed=seed)).token_ids)
            for seed in range(10)
        }
        for name in (SoftmaxGreedy.name, "speculative-sampling")
    }
    assert len(texts["speculative-sampling"]) == 1
    assert len(texts[SoftmaxGreedy.name]) > 3


@pytest.mark.parametrize("exhibit", BROKEN_CACHES, ids=lambda exhibit: exhibit.name)
def test_a_broken_cache_is_caught_by_the_meter_it_names(exhibit: BrokenCache) -> None:
    """A tiny Llama, greedy. Catches: a meter that is blind, or an exhibit that does no harm. The texts' oracle is
    transformers' own generate."""
    models, prompt = pair("llama"), PROMPTS[0]
    examined = examine(exhibit, models, prompt)
    assert bool(examined.audit) == exhibit.caught.startswith("The audit")
    assert examined.gap > 1e-3
    assert (examined.forks_at is None) == (exhibit.side == "draft")
    truth = generate(module(models), prompt, 40)
    broken = sd.decode(
        with_reader(models, exhibit.side, exhibit.reader), prompt, sd.Settings(max_new_tokens=40)
    )
    assert (broken.token_ids == truth) == (exhibit.side == "draft")


def test_a_cache_that_is_right_passes_the_same_meters() -> None:
    """The wrapper that gets nothing wrong. Catches: meters that cry wolf."""
    sides: tuple[Side, Side] = ("target", "draft")
    for side in sides:
        clean = BrokenCache(
            name="right", title="", found="", story="", caught="", side=side, reader=BrokenReader
        )
        examined = examine(clean, pair("llama"), PROMPTS[0])
        assert examined.audit == []
        assert examined.forks_at is None
        assert examined.gap < 1e-5
        assert examined.tokens_per_pass[0] == examined.tokens_per_pass[1]


@pytest.mark.parametrize("exhibit", BROKEN_CACHES, ids=lambda exhibit: exhibit.name)
def test_above_temperature_0_the_distribution_shows_a_broken_target_and_hides_a_broken_draft(
    exhibit: BrokenCache,
) -> None:
    """130 texts of five tokens against the target's distribution; false alarm 1e-4. A hole in the
    draft's memory changes the acceptance, not the distribution: which is why the last exhibit needs another meter."""
    models = with_reader(scripted(_target, _draft), exhibit.side, exhibit.reader)
    settings = sd.Settings(draft_length=3, temperature=1.0, max_new_tokens=5, record="off")
    prompt = [0, 1, 2, 0, 1, 0]
    expected = exact_distribution(_target, prompt, 5, Warp(1.0))
    chance = chance_of(sample(models, prompt, settings, 130), expected, after(prompt, _draft))
    assert (chance > 1e-4) == (exhibit.side == "draft")


def test_a_draft_with_a_hole_is_accepted_less() -> None:
    """A draft that is the target itself, except for what it forgets. Catches: a hole that closes by itself."""
    exhibit = BY_NAME["forgets-drafted"]
    assert isinstance(exhibit, BrokenCache)
    settings = sd.Settings(temperature=1.0, max_new_tokens=120, seed=1)
    broken, right = examine(exhibit, scripted(_target, _target), [0, 1], settings).tokens_per_pass
    assert right == 5.0
    assert broken < 4.0


def test_every_exhibit_is_described_in_full() -> None:
    """Catches: an entry without its story, or a broken rule that a user could choose."""
    assert len(BY_NAME) == len(GALLERY)
    for exhibit in GALLERY:
        assert all((exhibit.title, exhibit.found, exhibit.caught))
        assert len(re.findall(r"\.(?= |$)", exhibit.story)) == 2, exhibit.name
    for exhibit in BROKEN_RULES:
        assert exhibit.rule.name not in sd.RULES
        assert not exhibit.rule.lossless
        assert sd.RULES[exhibit.right].lossless
