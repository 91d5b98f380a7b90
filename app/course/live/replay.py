"""A recorded or typed text, decoded again: the core's own loop with a target that knows it word for word.

At temperature 0 a proposer's results depend only on the text that the target writes. So a proposer that needs no
model can be tried on any text, and the result is a real trace: its proposals, verdicts and notes are the core's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from app.course.facts.recorded import trace
from specdec_core.record.trace import Trace


def again(example: str, proposer: str, gamma: int = 4, **options: Any) -> Trace:
    """The text of a recorded example, written once more with another proposer."""
    header = trace(example).header
    return written(tuple(header.prompt_ids), tuple(trace(example).token_ids), proposer, gamma, **options)


def written(
    read: tuple[int, ...], text: tuple[int, ...], proposer: str, gamma: int = 4, **options: Any
) -> Trace:
    """The trace of a proposer on a text: `read` is the prompt, `text` what the target writes, as token ids.

    Only the tokens that occur get an id in it, in the same order, plus one for what follows the text, so nothing that
    depends on the size of the vocabulary can be read off.
    """
    return _written(read, text, proposer, gamma, tuple(sorted(options.items())))


@lru_cache(maxsize=64)
def _written(
    read: tuple[int, ...],
    text: tuple[int, ...],
    proposer: str,
    gamma: int,
    options: tuple[tuple[str, Any], ...],
) -> Trace:
    import specdec_core as sd
    from specdec_measure import testing

    names = {token: at for at, token in enumerate(sorted({*read, *text}))}
    begin = [names[token] for token in read]
    rest = [names[token] for token in text]

    def next_probs(tokens: tuple[int, ...]) -> list[float]:
        row = [0.0] * (len(names) + 1)
        at = len(tokens) - len(begin)
        row[rest[at] if 0 <= at < len(rest) else len(names)] = 1.0
        return row

    settings = sd.Settings(
        proposer=proposer, draft_length=gamma, max_new_tokens=len(rest), options=dict(options)
    )
    return sd.decode(testing.scripted(next_probs), begin, settings)
