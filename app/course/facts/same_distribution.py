"""Plain and speculative decoding of a scripted model: two texts from one seed, and the frequency of each text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from specdec_core.record.trace import Trace
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_lessons.rounding import FORMATS, most_likely, running_sums
from specdec_measure.exact.distribution import (
    Distribution,
    output_distribution,
    target_distribution,
    total_variation,
)
from specdec_measure.exact.trials import plain_texts, round_texts, shares

__all__ = ["differing_words", "distribution_distance", "flips"]

Table = Mapping[str, Mapping[str, float]]
"""For each word what may follow it, and how likely; a word that is not in it is never followed."""

RULE = "speculative-sampling"


@dataclass(frozen=True, slots=True)
class Language:
    """Two tables as distributions over numbered words."""

    words: tuple[str, ...]
    before: str
    target: tuple[tuple[float, ...], ...]
    draft: tuple[tuple[float, ...], ...]

    def next_probs(
        self, rows: tuple[tuple[float, ...], ...]
    ) -> Callable[[tuple[int, ...]], tuple[float, ...]]:
        """A distribution of what follows the first word."""
        first = self.words.index(self.before)
        return lambda context: rows[context[-1] if context else first]

    def text(self, tokens: tuple[int, ...]) -> str:
        """Words of these numbers."""
        return " ".join(self.words[token] for token in tokens)


def language(before: str, target: Table, draft: Table) -> Language:
    """The tables, parsed and checked.

    Raises:
        ValueError: one sentence, if a row is not a distribution or a reachable word has none.
    """
    words = list(dict.fromkeys([before, *target, *(word for row in target.values() for word in row)]))
    rows = {"target": target, "draft": draft}
    for name, table in rows.items():
        for word in words:
            row = table.get(word)
            if row is None:
                raise ValueError(f"`{name}` does not say what follows “{word}”; give it a row")
            if strange := [each for each in row if each not in words]:
                raise ValueError(
                    f"`{name}` lets “{strange[0]}” follow “{word}”, a word that the target never writes"
                )
            if min(row.values(), default=-1.0) < 0.0 or abs(sum(row.values()) - 1.0) > 1e-9:
                raise ValueError(f"`{name}` has to give what follows “{word}” probabilities that add up to 1")
    known = tuple(words)
    return Language(known, before, *(tuple(_row(rows[name][word], known) for word in words) for name in rows))


def _row(row: Mapping[str, float], words: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(float(row.get(word, 0.0)) for word in words)


@lru_cache(maxsize=128)
def texts(of: Language, words: int, gamma: int, seed: int) -> tuple[Trace, Trace]:
    """The same beginning, seed and number of words, decoded plainly and with the draft: two traces."""
    from specdec_core import decode  # here: it imports torch
    from specdec_measure.testing import scripted

    models = scripted(
        lambda context: of.target[context[-1] if context else 0],
        lambda context: of.draft[context[-1] if context else 0],
    )
    settings = Settings(draft_length=gamma, rule=RULE, temperature=1.0, seed=seed, max_new_tokens=words)
    prompt = [of.words.index(of.before)]
    return decode(models, prompt, settings.but(proposer="none")), decode(models, prompt, settings)


@lru_cache(maxsize=64)
def exact(of: Language, words: int, gamma: int) -> tuple[Distribution, Distribution]:
    """The distributions of the first `words` words: the target's own, and what the rule writes; both enumerated."""
    p, q = of.next_probs(of.target), of.next_probs(of.draft)
    whole = max(words, gamma + 1)
    written = output_distribution(RULES[RULE](), range(-1, gamma - 1), p, q, whole)
    return target_distribution(p, words), _beginning(written, words)


@lru_cache(maxsize=64)
def sampled(
    of: Language, words: int, gamma: int, trials: int, seed: int
) -> tuple[Distribution, Distribution]:
    """How often each text occurred in `trials` plain and as many speculative runs, with independent random numbers."""
    p, q = of.next_probs(of.target), of.next_probs(of.draft)
    whole = max(words, gamma + 1)
    plain = plain_texts(p, words, trials, 2 * seed)
    guessed, _ = round_texts(RULES[RULE](), gamma, p, q, whole, trials, 2 * seed + 1)
    return shares(plain), shares(guessed[:, :words])


def differing_words(before: str, target: Table, draft: Table, words: int, gamma: int, seed: int) -> int:
    """In how many places a plain and a speculative run with the same seed differ."""
    plain, guessed = texts(language(before, target, draft), words, gamma, seed)
    return sum(one != other for one, other in zip(plain.token_ids, guessed.token_ids, strict=True))


def distribution_distance(before: str, target: Table, draft: Table, words: int, gamma: int) -> float:
    """Total variation between the distributions of plain and of speculative decoding, enumerated."""
    return total_variation(*exact(language(before, target, draft), words, gamma))


def flips(logits: Mapping[str, list[float]], stored: str, raised: float = 0.0) -> bool:
    """Whether the most likely word depends on the order in which the terms of its logit are added.

    Args:
        logits: two words, each with the terms of its logit.
        stored: the format in which every sum is stored.
        raised: what is added to the last word's last term.
    """
    forth, back = (winner(logits, stored, raised, backwards) for backwards in (False, True))
    return forth != back


def winner(logits: Mapping[str, list[float]], stored: str, raised: float, backwards: bool) -> int:
    """Which of the words greedy decoding takes."""
    return most_likely([sums[-1] for sums in added(logits, stored, raised, backwards)])


def added(
    logits: Mapping[str, list[float]], stored: str, raised: float, backwards: bool
) -> list[list[float]]:
    """For each word its sum after each term.

    Raises:
        ValueError: if there is no such format.
    """
    if stored not in FORMATS:
        raise ValueError(f"there is no number format “{stored}”; there are {', '.join(FORMATS)}")
    rows = [list(terms) for terms in logits.values()]
    rows[-1][-1] += raised
    return [running_sums(row[::-1] if backwards else row, stored) for row in rows]


def _beginning(distribution: Distribution, words: int) -> Distribution:
    """The distribution of the first `words` tokens."""
    found: Distribution = {}
    for text, mass in distribution.items():
        found[text[:words]] = found.get(text[:words], 0.0) + mass
    return found
