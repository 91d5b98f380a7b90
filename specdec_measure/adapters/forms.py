"""All forms in which programs report their guesses, and what a file in any of them says.

A file is unwrapped first (`unwrapping`), events are joined to answers (`streams`), and each answer is read by the first
form that it fits.
"""

from __future__ import annotations

from typing import Any

from specdec_core.foundations.errors import TraceError, not_json
from specdec_core.record.schema import FORMAT as TRACE

from . import logs, metrics
from .acceptance import Acceptance
from .as_json import answers
from .as_json.streams import joined
from .form import Form
from .unwrapping import Content, text_of, unwrap

FORMS: tuple[Form, ...] = (*answers.FORMS, *logs.FORMS)
PARTS_OF_A_TRACE = {"header", "rounds"}


def read(data: bytes) -> Acceptance | None:
    """The counts in a file; None for what is, or is meant to be, a trace.

    Raises:
        TraceError: one sentence, if it has no counts, or they contradict each other, or are of several forms.
    """
    text = text_of(data)
    content = unwrap(text, _known)
    if any(_is_trace(one) for one, _ in content.objects) or (
        content.broken is not None and f'"{TRACE}"' in text[:1_000]
    ):
        return None
    queried = [one for one, _ in content.objects if not answers.is_answer(one)]
    groups = joined((one, stream) for one, stream in content.objects if answers.is_answer(one))
    found: list[Acceptance] = []
    if groups:
        if content.cut is not None:
            raise TraceError(f"A line of the file {not_json(content.cut, b'{')}.")
        found.append(answers.acceptance(groups))
    samples = [sample for one in queried for sample in metrics.of_query(one) or []]
    if (counts := metrics.read(samples, metrics.SINCE_START)) is not None:
        found.append(counts)
    if (counts := logs.of_lines(content.lines)) is not None:
        found.append(counts)
    if not found:
        raise TraceError(_unknown(content, text))
    engines = list(dict.fromkeys(one.engine for one in found))
    if len(engines) > 1:
        raise TraceError(f"The file has counts of {' and '.join(engines)}; import each engine's alone.")
    if len(found) > 1:
        raise TraceError(
            "The file has answers and a log, which may count the same guesses; import each alone."
        )
    return found[0]


def _known(value: Any) -> bool:
    return _is_trace(value) or answers.known(value)


def _is_trace(value: Any) -> bool:
    """Whether this is, or is meant to be, a file of ours."""
    if not isinstance(value, dict):
        return False
    return str(value.get("format", "")).startswith("specdec-") or value.keys() >= PARTS_OF_A_TRACE


def _unknown(content: Content, text: str) -> str:
    """Why nothing was found, with the known forms."""
    error = content.cut or (None if content.others else content.broken)
    if error is not None:
        return f"The file {not_json(error, text.encode())}."
    if text.strip() in ("[]", "{}"):
        return "The file holds an empty list or object; a trace, or what a program reported, is expected."
    names = "; ".join(form.name for form in FORMS)
    return f"It is neither a trace nor in a form that is read. These are: {names}."
