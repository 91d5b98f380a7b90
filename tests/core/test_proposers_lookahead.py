"""Lookahead: the extra tokens' tree is the published mask, and every round is what a naive replay of the algorithm
says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

import specdec_core as sd
from specdec_core.engine.choice import check
from specdec_core.models.bundle import HubModel
from specdec_core.proposers.lookup.lookahead import Pool, branch, trie
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters, NextProbs, scripted

from .distributions import chances, exact_distribution, samples, wavering
from .tiny import PROMPTS, build, generate, module, pair

LOOKAHEAD = sd.Settings(proposer="lookahead", max_new_tokens=40)
Window = list[list[int]]


def second_order(width: int, seed: int, sharpness: float = 3.0) -> NextProbs:
    """A distribution that depends on the last two tokens, so that phrases come back."""
    next_probs = wavering(width, seed, sharpness)
    return lambda text: next_probs(text[-2:])


def one_hot(width: int, token: int) -> list[float]:
    return [1.0 if other == token else 0.0 for other in range(width)]


def test_the_tree_is_the_published_two_branch_mask() -> None:
    """W = 5, N = 4, and two 4-grams to verify, against the mask built here by its published rule: a token of the window
    sees the text, level 0 up to its column and its own column's earlier levels, a guess sees the text and itself, and
    positions are column + level. Catches: a window token below the wrong parent, a guess that sees the window."""
    window, levels, grams = 5, 3, [(0, 71, 72, 73), (0, 81, 82, 83)]
    columns = [[10 * column + level for level in range(levels)] for column in range(window)]
    cells = [(level, column) for level in range(levels) for column in range(window)]  # (0, 0) is the root
    guesses = [(gram, place) for gram in range(2) for place in range(1, 4)]
    size = 1 + len(guesses) + len(cells) - 1
    mask, positions = torch.zeros(size, size, dtype=torch.bool), [0] * size
    mask[:, 0] = True  # all see the root, and the text before it
    row = {cells[0]: 0} | {cell: 1 + len(guesses) + index for index, cell in enumerate(cells[1:])}
    for index, (gram, place) in enumerate(guesses, start=1):
        positions[index] = place
        for other, (its_gram, its_place) in enumerate(guesses, start=1):
            mask[index, other] = gram == its_gram and its_place <= place
    for level, column in cells:
        positions[row[level, column]] = column + level
        for its_level, its_column in cells:
            sees = (its_level == 0 and its_column <= column) or (its_column == column and its_level <= level)
            mask[row[level, column], row[its_level, its_column]] = sees
    tree = trie(grams, depth=3, room=100).joined(branch(columns))
    assert tree.tokens[len(guesses) :] == [10 * column + level for level, column in cells[1:]]
    assert torch.equal(tree.visible(), mask)
    assert [0, *tree.depths] == positions


def test_a_trie_merges_beginnings_and_keeps_within_depth_and_room() -> None:
    """Catches: twins among siblings, which no rule can judge, and a node whose parent found no room."""
    grams = [(0, 1, 2, 3), (0, 1, 2, 4), (0, 5, 1, 2), (0, 1, 6, 6)]
    whole = trie(grams, 3, 100)
    assert whole.tokens == [1, 2, 3, 4, 5, 1, 2, 6, 6]
    assert whole.parents == [-1, 0, 1, 1, -1, 4, 5, 0, 7]
    flat = trie(grams, 1, 100)
    assert (flat.tokens, flat.parents) == ([1, 5], [-1, -1])
    for room in range(9):
        cut = trie(grams, 3, room)
        assert (cut.tokens, cut.parents) == (whole.tokens[:room], whole.parents[:room])


def test_the_pool_keeps_the_most_recently_used() -> None:
    """4,000 random operations against a list with time stamps. Catches: an order by entry instead of use, and a bound
    that is off by one."""
    rng, share, size = random.Random(0), 3, 12
    pool, used, evicted = Pool(share, size), dict[tuple[int, ...], int](), 0
    for time in range(4_000):
        gram = tuple(rng.randrange(limit) for limit in (6, 3, 2))
        if rng.random() < 0.3 and used:
            gram = rng.choice(sorted(used))
            pool.touch(gram)
        else:
            assert pool.add(gram) == (gram not in used)
        used[gram] = time
        family = [other for other in used if other[0] == gram[0]]
        for too_many in (family if len(family) > share else [], list(used) if len(used) > size else []):
            if too_many:
                del used[min(too_many, key=used.__getitem__)]
                evicted += 1
                break
        assert (len(pool), pool.evictions) == (len(used), evicted)
        for first in range(6):
            expected = sorted(
                (other for other in used if other[0] == first), key=used.__getitem__, reverse=True
            )
            assert pool.beginning_with(first) == expected
    assert evicted > 500


def _likeliest(next_probs: NextProbs, text: Sequence[int]) -> int:
    chances = list(next_probs(tuple(text)))
    return chances.index(max(chances))


@pytest.mark.parametrize("next_probs", [second_order(6, 1), second_order(5, 4), wavering(4, 2, 3.0)])
@pytest.mark.parametrize(
    ("window", "ngram", "guesses", "pool_size"), [(5, 3, 3, 2_000), (4, 4, 2, 7), (2, 5, 1, 3), (9, 3, 4, 20)]
)
def test_every_round_is_what_a_naive_replay_says(
    next_probs: NextProbs, window: int, ngram: int, guesses: int, pool_size: int
) -> None:
    """The algorithm once more, by absolute positions and whole texts, without trees, masks or shifts: the window of
    every round, the n-grams harvested, the order of the pool and the proposals, over 60 tokens. Catches: a column that
    is one position off after several tokens were committed, logits of the wrong extra token, n-grams of initial
    tokens."""
    options = {"window": window, "ngram": ngram, "guesses": guesses, "pool_size": pool_size}
    prompt = [0, 1, 2, 3, 0, 2]
    trace = sd.decode(scripted(next_probs), prompt, LOOKAHEAD.but(options=options, max_new_tokens=60))
    levels = ngram - 1
    # where a column begins → its tokens, and whether the target wrote them
    known: dict[int, list[tuple[int, bool]]] = {}
    used: dict[tuple[int, ...], int] = {}
    clock, text, hits = 0, list(prompt), 0

    for row in trace.rounds:
        root, limit = len(text) - 1, 60 - (len(text) - len(prompt)) - 1
        noted: Window = row.note["window"]  # type: ignore[assignment]
        columns = []
        for number in range(window):
            column = known.get(root + number, [(noted[level][number], False) for level in range(levels)])
            if number == 0:
                column = [(text[-1], True), *column[1:]]
            columns.append(column)
            if root + number not in known:
                assert {token for token, _ in column[number == 0 :]} <= set(prompt)
        assert noted == [[column[level][0] for column in columns] for level in range(levels)]
        assert (row.note["pool"], row.note["hits"]) == (len(used), hits)
        tried = sorted((gram for gram in used if gram[0] == text[-1]), key=used.__getitem__, reverse=True)
        assert row.note["guesses"] == [list(gram) for gram in tried]
        others = sorted((gram for gram in used if gram[0] != text[-1]), key=used.__getitem__, reverse=True)
        assert row.note["recent"] == [list(gram) for gram in others[:8]]
        tree = TokenTree(row.nodes.token, row.nodes.parent)
        paths = [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))]
        depth = min(levels, limit)
        assert sorted(paths) == sorted({gram[1 : 1 + end] for gram in tried for end in range(1, depth + 1)})
        assert row.riders == (window * levels - 1 if limit > 1 else 0)

        accepted = tuple(
            token
            for token, source in zip(row.committed.token, row.committed.source, strict=True)
            if source == "accepted"
        )
        hits += bool(accepted)
        for gram in tried:
            if accepted and gram[1 : 1 + len(accepted)] == accepted:
                clock += 1
                used[gram] = clock
        known, harvested, newest = {}, [], []
        for number, column in enumerate(columns):
            if not row.riders:
                known[root + number] = column
                continue
            before = [columns[other][0][0] for other in range(1, number + 1)]
            own = [token for token, _ in column[1:]]
            newest.append(_likeliest(next_probs, text + before + own))
            grown = [*column, (newest[-1], True)]
            known[root + number + 1] = grown[1:]
            gram = tuple(token for token, _ in grown)
            if all(written for _, written in grown[1:]):
                clock += 1
                if gram not in used:
                    harvested.append(list(gram))
                used[gram] = clock
                family = [other for other in used if other[0] == gram[0]]
                if len(family) > guesses:
                    del used[min(family, key=used.__getitem__)]
                elif len(used) > pool_size:
                    del used[min(used, key=used.__getitem__)]
        if row.riders:
            assert (row.note["newest"], row.note["harvested"]) == ([newest], harvested)
        else:
            assert not {"newest", "harvested"} & set(row.note)
        text += row.committed.token
    assert text[len(prompt) :] == trace.token_ids
    if (window, len(next_probs((0,)))) == (5, 6):
        assert hits > 3, "nothing of the pool was accepted, so several tokens at once were never tried"


@pytest.mark.parametrize("initial", ["prompt", "random", "blank"])
def test_jacobi_iteration_reaches_its_fixed_point(initial: str) -> None:
    """A distribution that depends on the position alone: the target writes token t mod 7 at position t, whatever stands
    before. After N − 1 rounds every token of a column stands where it belongs, although rounds commit several tokens,
    and from then on every n-gram is right: N tokens per pass. Catches: a window shifted by one where several tokens
    were committed."""
    next_probs: NextProbs = lambda text: one_hot(7, len(text) % 7)  # noqa: E731
    options = {"window": 6, "ngram": 4, "initial": initial}
    trace = sd.decode(scripted(next_probs), [3, 3], LOOKAHEAD.but(options=options, max_new_tokens=80))
    written, several = 2, 0
    for row in trace.rounds:
        window: Window = row.note["window"]  # type: ignore[assignment]
        generated: list[int] = row.note["generated"]  # type: ignore[assignment]
        for column, levels in enumerate(generated):
            for level in range(3 - levels, 3):
                if (level, column) != (0, 0):
                    assert window[level][column] == (written - 1 + column + level) % 7
        written += len(row.committed.token)
        several += len(row.committed.token) > 1
    assert several > 10
    assert all(len(row.committed.token) == 4 for row in trace.rounds[9:-1])
    assert trace.stats.rejected == 0


@pytest.mark.parametrize(
    ("initial", "known"), [("prompt", {2, 4}), ("blank", {0}), ("random", set(range(97)))]
)
def test_unknown_positions_get_the_initial_tokens_asked_for(initial: str, known: set[int]) -> None:
    """Catches: an option that does nothing, and random tokens that are all the same or differ from run to run."""
    options = {"initial": initial, "window": 8, "ngram": 5}
    traces = [
        sd.decode(pair("llama"), [2, 4, 4], LOOKAHEAD.but(options=options, max_new_tokens=3, seed=seed))
        for seed in (0, 0, 1)
    ]
    windows: list[Window] = [trace.rounds[0].note["window"] for trace in traces]  # type: ignore[misc]
    tokens = {token for level, row in enumerate(windows[0]) for token in row[level == 0 :]}
    assert tokens <= known
    assert windows[0] == windows[1]
    if initial == "random":
        assert len(tokens) > 20 and windows[0] != windows[2]
    elif initial == "prompt":
        assert tokens == known


VARIANTS: list[dict[str, object]] = [
    {},
    {"window": 2, "ngram": 3, "guesses": 1, "initial": "random", "pool_size": 2},
    {"window": 7, "ngram": 5, "guesses": 7, "initial": "blank", "from_prompt": True},
]


GREEDY = ["gpt2", "llama", "qwen3", "gpt-neox"]


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("architecture", GREEDY)
def test_greedy_text_is_that_of_generate(architecture: str, options: dict[str, object]) -> None:
    """Four architectures and three prompts in turn, so that every variant reads all of them. Catches: extra tokens that
    are seen by the proposals, or stay in the memory."""
    models = pair(architecture)
    prompt = PROMPTS[(GREEDY.index(architecture) + VARIANTS.index(options)) % 3]
    trace = sd.decode(models, prompt, LOOKAHEAD.but(options=options))
    assert trace.token_ids == generate(module(models), prompt, 40)
    assert trace.audit() == []
    assert sd.Trace.from_json(trace.to_json()) == trace
    assert trace.stats.draft_passes == 0
    assert max(row.riders for row in trace.rounds) > 0


def test_a_text_that_repeats_itself_is_written_in_fewer_passes() -> None:
    """Real models whose greedy text runs into a loop. Catches: an exact proposer that never wins anything."""
    rates = []
    for architecture in ("gpt2", "llama", "qwen3"):
        trace = sd.decode(pair(architecture), PROMPTS[2], LOOKAHEAD.but(max_new_tokens=80))
        rates.append(trace.stats.tokens_per_pass or 0.0)
    assert max(rates) > 1.5


def test_phrases_of_the_prompt_are_tried_from_the_first_round() -> None:
    """With `from_prompt` the first round checks what followed the last token in the prompt. Catches: an option that
    does nothing, and an n-gram that is cut short."""
    prompt = [1, 2, 3, 4, 1, 5, 6, 1]
    settings = LOOKAHEAD.but(options={"from_prompt": True, "ngram": 3, "guesses": 2}, max_new_tokens=8)
    trace = sd.decode(scripted(second_order(7, 1)), prompt, settings)
    assert trace.rounds[0].note["guesses"] == [[1, 5, 6], [1, 2, 3]]
    assert trace.rounds[0].nodes.token == [5, 6, 2, 3]
    assert trace.rounds[0].note["pool"] == 6  # every n-gram of eight tokens, the last one too
    plain = sd.decode(scripted(second_order(7, 1)), prompt, LOOKAHEAD.but(max_new_tokens=8))
    assert plain.rounds[0].nodes.token == []


@pytest.mark.parametrize("length", range(1, 9))
def test_a_text_may_fill_the_models_positions_to_the_last(length: int) -> None:
    """An OPT with 24 learned positions and a text that uses all of them. Catches: an extra token at a position that has
    no embedding, which is an index error on a CPU and worse on a GPU; and extra tokens that stay away too early."""
    opt = build("opt", max_position_embeddings=24)
    models = sd.Models(Letters(97), HubModel("tiny target", opt))
    prompt = list(range(1, 25 - length))
    settings = LOOKAHEAD.but(options={"window": 5, "ngram": 4}, max_new_tokens=length)
    trace = sd.decode(models, prompt, settings)
    assert trace.token_ids == generate(opt, prompt, length)
    text = len(prompt)
    for row in trace.rounds:
        deepest = text - 1 + 4 + 2  # the root's position, column 4, level 2
        assert bool(row.riders) == (deepest <= 23 and text - len(prompt) < length - 2)
        text += len(row.committed.token)


def test_the_memory_budget_sends_the_window_home() -> None:
    """Catches: extra tokens that are not counted as rows, and a window that loses its place in rounds without any."""
    models = pair("llama")
    one = models.target.kv_bytes + 8 * models.target.vocabulary
    expected = generate(module(models), PROMPTS[2], 40)
    for rows in (3, 11, 14, 40):
        budget = (44 * models.target.kv_bytes + rows * one) / 1e6
        trace = sd.decode(models, PROMPTS[2], LOOKAHEAD.but(memory_budget_mb=budget))
        assert trace.token_ids == expected
        for row in trace.rounds:
            room = int((budget * 1e6 - row.cache_before * models.target.kv_bytes) // one) - 1
            assert len(row.nodes.token) + row.riders <= room


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """150 texts of five tokens of two windows with two rules, one by one and together; the pool begins with the
    prompt's n-grams, so that there is much to accept; false alarm 1e-4. Catches: a window or pool that
    learns from a round's coins before they have decided."""
    target, prompt = wavering(3, seed=6), [0, 1, 2, 0, 1, 0, 2, 1, 0]
    options = {"window": 3, "guesses": 3, "from_prompt": True}
    settings = LOOKAHEAD.but(temperature=1.0, max_new_tokens=5, record="off")
    cases = {
        (initial, rule): settings.but(rule=rule, options={"ngram": ngram, "initial": initial, **options})
        for ngram, initial in ((3, "random"), (4, "prompt"))
        for rule in ("speculative-sampling", "token-matching")
    }
    found = chances(
        samples(scripted(target), prompt, cases, 150), exact_distribution(target, prompt, 5, Warp(1.0))
    )
    assert min(found.values()) > 1e-4, found


def test_what_is_announced_is_enough() -> None:
    """A full pool and a full window reach the largest tree. Catches: KV memory reserved too small."""
    settings = LOOKAHEAD.but(options={"window": 3, "ngram": 3, "guesses": 2, "from_prompt": True})
    trace = sd.decode(scripted(wavering(9, 1)), [1, 2, 3, 1, 4, 5, 1, 6, 7, 1], settings)
    most = check(settings).shape.max_nodes
    assert most == 2 * 2 + 3 * 2 - 1
    assert len(trace.rounds[0].nodes.token) + trace.rounds[0].riders == most


def test_the_notes_stay_small() -> None:
    """The largest window, the longest phrases and the widest trie: under 5 kB of JSON a round at five digits an id, and
    within what a trace may hold. Catches: a note of the whole pool."""
    options = {"window": 32, "ngram": 8, "guesses": 32, "from_prompt": True, "initial": "random"}
    prompt = [token for _ in range(40) for token in (1, 2, 3, 4)]
    trace = sd.decode(pair("llama"), prompt, LOOKAHEAD.but(options=options, max_new_tokens=12))
    assert sd.Trace.from_json(trace.to_json()) == trace
    for row in trace.rounds:
        lists = [fact for fact in row.note.values() if isinstance(fact, list)]
        assert sum(len(entry) if isinstance(entry, list) else 1 for fact in lists for entry in fact) <= 864
    assert len(trace.rounds[0].note["window"]) == 7  # type: ignore[arg-type]
