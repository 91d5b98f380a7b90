"""What the answers in a file say together: each is read by the first form that it fits, and their counts are summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specdec_core.foundations.errors import TraceError, many
from specdec_measure.adapters import metrics
from specdec_measure.adapters.acceptance import Acceptance, NothingCounted, together
from specdec_measure.adapters.form import Event, Form
from specdec_measure.adapters.unwrapping import text_of, unwrap

from . import reports, servers
from .streams import joined, whole
from .timeline import rule_of, trace

__all__ = ["FORMS", "acceptance", "is_answer", "known", "parse", "rule_of", "trace"]

FORMS: tuple[Form, ...] = (*reports.FORMS, *servers.FORMS)
MAX_ANSWERS = 10_000


def parse(data: bytes) -> list[Event]:
    """The answers in a file, those of streams as one object; empty if it has none.

    Raises:
        TraceError: one sentence, if it is too large.
    """
    content = unwrap(text_of(data), known)
    return [whole(events) for events in joined(one for one in content.objects if is_answer(one[0]))]


def acceptance(groups: Sequence[list[Event]]) -> Acceptance:
    """The counts of some answers of one engine, each given as its events, as sums.

    An answer that reports nothing is left out of them, which a remark says.

    Raises:
        TraceError: one sentence, if none has counts, or they contradict each other.
    """
    if len(groups) > MAX_ANSWERS:
        raise TraceError(f"The file has {len(groups):,} answers; at most {MAX_ANSWERS:,} are read.")
    told, silent = list[Acceptance](), list[NothingCounted]()
    for events in groups:
        form = _form(whole(events))
        assert form.read is not None
        try:
            told.append(form.read(events))
        except NothingCounted as nothing:
            silent.append(nothing)
    if not told:
        raise TraceError(str(silent[0]))
    if len({one.engine for one in told}) > 1:
        raise TraceError("The file has answers of several engines; import them one by one.")
    none = [one.none for one in silent if one.none is not None and one.none.engine == told[0].engine]
    remarks = []
    if none:
        remarks.append(
            f"{len(none):,} of {many(len(groups), 'answer')} {'reports' if len(none) == 1 else 'report'} no guesses; "
            f"{told[0].engine} leaves their number out where it is 0."
        )
    if unknown := len(silent) - len(none):
        remarks.append(
            f"{unknown:,} of {many(len(groups), 'answer')} {'has' if unknown == 1 else 'have'} no counts of guesses; "
            "the numbers are of the others."
        )
    summed = told + none
    source = f"{len(summed):,} answers" if unknown == 0 else f"{len(summed):,} of {len(groups):,} answers"
    found = together(summed, told[0].source if len(groups) == 1 else source, remarks)
    return found if len(groups) == 1 else replace(found, source=source)


def _form(answer: Event) -> Form:
    return next(
        (form for form in (*FORMS, servers.PLAIN) if form.fits is not None and form.fits(answer)),
        servers.PLAIN,
    )


def is_answer(value: Any) -> bool:
    """Whether this is an answer, or an event of one, with or without counts."""
    return isinstance(value, dict) and any(
        form.fits is not None and form.fits(value) for form in (*FORMS, servers.PLAIN)
    )


def known(value: Any) -> bool:
    """Whether something here reads this object."""
    return is_answer(value) or metrics.of_query(value) is not None
