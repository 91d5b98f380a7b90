"""What many requests at a time would make of a recorded text: calculated, from this machine's width curve.

Guessing pays because a pass over a few tokens takes little longer than one over one token. With many requests in a pass
that room is used already. So each recorded round is priced as if every request went through it in step: its target pass
reads all their trees, each draft pass a token of each. What is spent outside the models, and the waste of requests that
accept differently, is left out, and both would make guessing slower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_core.engine.choice import check
from specdec_core.foundations.errors import SettingsError
from specdec_measure.analysis.draft_costs import drafts_with
from specdec_measure.analysis.whatif import on_clock
from specdec_measure.machines.costs import PassTime
from specdec_measure.machines.profiles import RecordedProfile
from specdec_measure.machines.recording import PassPlan, record

from .candidates import Candidate

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.record.trace import Trace

MAX_REQUESTS = 256
CONTEXT = 128  # tokens in the KV cache while the passes are timed
WIDTHS = (1, 2, 3, 5, 9, 17, 33)  # tokens of each request
MAX_TIMED_TOKENS = 512  # tokens in a timed pass; beyond it the last slope goes on
ASSUMPTION = (
    "Throughput is calculated, not measured: the rounds recorded here for one request at a time, on the times of this "
    "machine's passes over as many tokens as {requests} requests read together. All of them go through these rounds in "
    "step, as if each were this one; what is spent outside the models is left out."
)


def check_requests(requests: int) -> None:
    """
    Raises:
        SettingsError: if there is no such number of requests.
    """
    if not 1 <= requests <= MAX_REQUESTS:
        raise SettingsError(f"A fit is for 1 to {MAX_REQUESTS} requests at a time, got {requests}.")


class Price:
    """Seconds that a recorded text takes among `requests` in parallel; the passes of each draft are timed once.

    Raises:
        SettingsError: if there is no such number of requests.
    """

    def __init__(self, models: Models, requests: int) -> None:
        check_requests(requests)
        self.models, self.requests = models, requests
        self._recorded: dict[str, RecordedProfile] = {}

    def __call__(self, trace: Trace, candidate: Candidate) -> float:
        alone, many = self._profile("none"), self.requests
        one, drafted = alone.costs(), self._draft(candidate)
        costs = replace(
            one,
            target=lambda tokens: one.target(many * tokens),
            draft=None if drafted is None else lambda tokens: drafted(many * tokens),
            batch=many,
        )
        return on_clock(trace, alone, costs, alone.target.layers).seconds

    def _draft(self, candidate: Candidate) -> PassTime | None:
        """The passes of its draft; the target's are the same for all candidates."""
        kind = check(candidate.settings).proposer
        if drafts_with(kind) != "draft":
            return None
        which = kind.which_draft(kind.read_options(candidate.settings))
        return (
            self._profile(which).costs().draft
        )  # a draft that was trained further has the loaded one's shape

    def _profile(self, which: str) -> RecordedProfile:
        if which not in self._recorded:
            models = self.models
            models = replace(models, draft=None) if which == "none" else models.drafting(which)
            context = min(CONTEXT, models.window(with_draft=True) // 2)
            widths = sorted({1, *(min(MAX_TIMED_TOKENS, self.requests * width) for width in WIDTHS)})
            plan = PassPlan((context,), tuple(widths), measurements=2)
            self._recorded[which] = record(
                models,
                plan,
                label="this machine",
                note="",
                weights="trained",
                on_progress=lambda done, of: None,
            )
        return self._recorded[which]
