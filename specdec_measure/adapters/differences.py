"""What was counted between two pages of metrics, series by series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec_core.foundations.errors import TraceError

from .acceptance import Acceptance, Series
from .metrics import ACCEPTED, TOKENS, summed


def later(now: Acceptance, before: Acceptance) -> Acceptance:
    """What was counted between two looks at the same counters, series by series.

    Raises:
        TraceError: one sentence, if they are not the same counters, or all were set back between.
    """
    if not now.series or not before.series or now.engine != before.engine:
        raise TraceError("Only two pages of /metrics of the same engine have a difference.")
    earlier = {one.labels: one for one in before.series}
    shared = [one for one in now.series if one.labels in earlier]
    if not shared:
        raise TraceError(
            f"No series of the two pages has the same labels: {_name(now.series[0], now.series)} here, "
            f"{_name(before.series[0], before.series)} before."
        )
    fallen = [one for one in shared if _fell(one, earlier[one.labels])]
    again = [one for one in shared if one in fallen or _created_anew(one, earlier[one.labels])]
    if any(_created_anew(earlier[one.labels], one) for one in shared) or (
        fallen
        and not any(
            _rose(one, earlier[one.labels]) or _created_anew(one, earlier[one.labels]) for one in shared
        )
    ):
        raise TraceError(
            "The counters are lower than before: the server was started again between, or the files are swapped."
        )
    everything, remarks = [*now.series, *before.series], list(now.remarks)
    parts = []
    for one in now.series:
        if one.labels not in earlier:
            remarks.append(
                f"{_name(one, everything)} is not on the earlier page; all that it counted is in the sum."
            )
            parts.append(one)
        elif one in again:
            remarks.append(
                f"{_name(one, everything)} began to count anew in between: what it counted since is in the sum, what "
                "it had counted after the earlier page is lost."
            )
            parts.append(one)
        else:
            parts.append(_difference(one, earlier[one.labels]))
    present = {one.labels for one in now.series}
    remarks += [
        f"{_name(one, everything)} is on the earlier page only; what it counted since is not in the sum."
        for one in before.series
        if one.labels not in present
    ]
    written = [one.counts[TOKENS] for one in parts if TOKENS in one.counts]
    return summed(now.engine, "/metrics, the difference between two snapshots", parts, written, remarks, ())


def _pairs(now: Series, before: Series) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for name, span in now.counts.items():
        if name in before.counts:
            yield span, before.counts[name]
    for place, span in now.at.items():
        yield span, before.at.get(place, (0, 0))


def _fell(now: Series, before: Series) -> bool:
    missing = bool(now.at) and any(place not in now.at and old[1] for place, old in before.at.items())
    return missing or any(new[1] < old[0] for new, old in _pairs(now, before))


def _rose(now: Series, before: Series) -> bool:
    return not _fell(now, before) and any(new[0] > old[1] for new, old in _pairs(now, before))


def _created_anew(now: Series, before: Series) -> bool:
    """Whether the page itself says that these counters began after the other's did."""
    return now.created is not None and before.created is not None and now.created > before.created + 0.001


def _difference(now: Series, before: Series) -> Series:
    def less(new: tuple[int, int], old: tuple[int, int]) -> tuple[int, int]:
        exact = new[0] == new[1] and old[0] == old[1]
        return (new[0] - old[0],) * 2 if exact else (max(0, new[0] - old[1]), new[1] - old[0])

    told = (
        bool(before.at) or not before.counts.get(ACCEPTED, (0, 0))[1]
    )  # else where is not on the earlier page
    return Series(
        now.labels,
        {name: less(span, before.counts[name]) for name, span in now.counts.items() if name in before.counts},
        {place: less(span, before.at.get(place, (0, 0))) for place, span in now.at.items() if told},
    )


def _name(one: Series, among: Sequence[Series]) -> str:
    """A series by those of its labels that tell it from the others."""
    different = [
        f"{name}={value}"
        for name, value in one.labels
        if any(dict(other.labels).get(name) != value for other in among)
    ]
    return f"The series {', '.join(different)}"[:120] if different else "The server's series"
