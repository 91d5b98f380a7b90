"""Why a lane is faster or slower than plain decoding: its measured time per round, broken down.

With t the time of a plain round (one token), a lane's round takes 1 + D + W + O of it: one plain pass, D for drafting,
W for the pass being wider than a plain one, O for judging and committing beyond what plain decoding needs for that. It
commits τ tokens, so the measured speedup is exactly τ / (1 + D + W + O). Passes that something else held up (`held_up`)
are part of W and named apart from it. Of what keeps τ low, L tokens per round were
lost to rejected guesses, U to guesses never made. The main loss is the one without which the lane would be fastest:
with L or U more tokens, or in a time shorter by D, W or O. Guesses beyond the end of the text do not count as rejected.

Round times vary with the machine's noise. The scatter of both lanes' rounds gives the speedup an
interval, and nothing is called faster or slower while 1 lies in it. Other work on the machine slows several rounds in
turn, so that blocks of rounds scatter more than single ones would suggest; where they clearly do, the blocks count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Literal

from specdec_core.foundations.errors import SettingsError
from specdec_core.lengths import FixedLength
from specdec_core.proposers import proposer_class
from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace
from specdec_core.runtime.timing.pass_times import Curve, pass_time
from specdec_core.settings import Settings
from specdec_measure.analysis.slow_passes import held_up
from specdec_measure.sweep.totals import MIN_TOKENS, NORMAL_95, beyond

Cause = Literal[
    "acceptance", "few guesses", "drafting", "width", "overhead", "held up", "unexplained", "nothing"
]
LASTING = 1.5  # times the error of single rounds: chance alone brings blocks there about once in twenty
MIN_LOSS = 0.005  # tokens or plain rounds: smaller ones would show as 0.00


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where a lane's time went. From `tokens` on it is per round, in tokens or in plain rounds.

    Attributes:
        speedup: measured, time per token of the plain lane over that of this one.
        low, high: its 95% interval from the scatter of both lanes' rounds or of blocks of them.
        alpha: acceptance rate; None where proposals branch or nothing was judged.
        tokens: τ, committed tokens.
        guessed: the longest path guessed, of what the target read.
        accepted: guesses accepted: τ − 1, and more where the text ended with a guess.
        rejected: L, tokens lost to rejections: `guessed` less `accepted`, but for rounds that the end of the text cut.
        unguessed: U, tokens lost because fewer guesses were made than requested: what these would have brought at
            this lane's α, or all of them where none was ever judged; 0 where the number is the proposer's or the
            policy's choice.
        drafting, width, overhead: D, W and O.
        held: the part of the wider pass for which something else held passes of this lane up.
        unexplained: the part of it that a given width curve does not explain either; 0 without one.
        beside: whether drafting ran beside the target's pass, so that W includes what the two cost each other.
        repeats: how much of the text repeats, in words (`loops.Loops.remark`); empty where nothing does.
    """

    speedup: float
    low: float
    high: float
    alpha: float | None
    tokens: float
    guessed: float
    accepted: float
    rejected: float
    unguessed: float
    drafting: float
    width: float
    overhead: float
    held: float = 0.0
    unexplained: float = 0.0
    beside: bool = False
    repeats: str = ""
    flattered: bool = False

    @property
    def cost(self) -> float:
        """How many plain rounds one round takes: 1 + D + W + O, W in its parts."""
        return 1.0 + self.drafting + self.width + self.overhead + self.held + self.unexplained

    @property
    def cause(self) -> Cause:
        """The main loss; "nothing" where none is worth mentioning."""
        tokens: dict[Cause, float] = {"acceptance": self.rejected, "few guesses": self.unguessed}
        rounds: dict[Cause, float] = {
            "drafting": self.drafting,
            "width": self.width,
            "overhead": self.overhead,
            "held up": self.held,
            "unexplained": self.unexplained,
        }
        losses = tokens | rounds
        without = {
            **{cause: (self.tokens + loss) / self.cost for cause, loss in tokens.items()},
            **{cause: self.tokens / max(self.cost - loss, 1e-9) for cause, loss in rounds.items()},
        }
        most = max(losses, key=lambda cause: (losses[cause] >= MIN_LOSS, without[cause]))
        return most if losses[most] >= MIN_LOSS else "nothing"

    @property
    def segments(self) -> list[tuple[str, float]]:
        """A round's time in plain rounds as what it consists of; the values add up to `cost`."""
        names = self._names
        named = [("one plain round", 1.0), (names["drafting"], self.drafting), (names["width"], self.width)]
        if self.held >= MIN_LOSS:
            named.append((names["held up"], self.held))
        if abs(self.unexplained) >= MIN_LOSS:
            named.append((names["unexplained"], self.unexplained))
        return [*named, (names["overhead"], self.overhead)]

    @property
    def hundredths(self) -> list[float]:
        """The segments' values in hundredths that add up to the cost's: those that lose most by rounding down are
        rounded up."""
        values = [100 * value for _, value in self.segments]
        whole = [math.floor(value) for value in values]
        short = round(100 * self.cost) - sum(whole)
        by_loss = sorted(range(len(values)), key=lambda at: whole[at] - values[at])
        raised = set(by_loss[: max(0, short)])
        return [(value + (at in raised)) / 100 for at, value in enumerate(whole)]

    @property
    def sentence(self) -> str:
        """The verdict with a round's account, and the main loss; one more where repeated text flatters them."""
        noise = ", less than one by timing noise" if self.cost < 1.0 - MIN_LOSS else ""
        account = f"{self.tokens:.2f} tokens a round, in the time of {self.cost:.2f} plain rounds{noise}"
        return f"{self.verdict}: {account}. {self.loss}"

    @property
    def short(self) -> str:
        """The sentence without the account, to stand beside a drawing of `segments`; a slower lane's cause belongs to
        the verdict."""
        if self.speedup < 1.0 and self.cause != "nothing":
            return f"{self.verdict}; {self.loss[0].lower()}{self.loss[1:]}"
        return f"{self.verdict}. {self.loss}"

    @property
    def verdict(self) -> str:
        """Faster or slower than plain decoding in this run, and by how much; without a full stop."""
        slower = self.speedup < 0.995 and self.high < 1.0
        faster = self.speedup > 1.005 and self.low > 1.0
        way = "Slower" if slower else "Faster" if faster else undecided(self.speedup)
        doubt = (
            ""
            if slower or faster
            else f" (95% interval {self.low:.2f} to {self.high:.2f}, by the scatter of the rounds)"
        )
        if beyond(self.speedup, self.tokens):
            doubt += f", above its {self.tokens:.2f} tokens per pass, so timing noise"
        return f"{way}, {self.speedup:.2f}×{doubt}"

    @property
    def loss(self) -> str:
        """The main loss; one more sentence where repeated text flatters the lane."""
        repeats = f" {'Careful: ' if self.flattered else ''}{self.repeats}." if self.repeats else ""
        return f"{self._cause()}.{repeats}"

    @property
    def _names(self) -> dict[Cause, str]:
        """What the parts of a round's time are called in `segments`."""
        return {
            "drafting": "drafting",
            "width": self._pass,
            "held up": "slowed by other programs",
            "unexplained": "time that the width does not explain",
            "overhead": "other work",
        }

    @property
    def _pass(self) -> str:
        return "the pass with drafting alongside" if self.beside else "reading several tokens at once"

    def _cause(self) -> str:
        if self.cause == "nothing":
            return "No single loss stands out"
        shown = dict(zip((name for name, _ in self.segments), self.hundredths, strict=True))
        cost = {cause: _of_a_round(shown.get(name, 0.0)) for cause, name in self._names.items()}
        reading = "drafting beside the check" if self.beside else "checking several tokens at once"
        words = {
            "acceptance": f"wrong guesses: of {self.guessed:.1f} in a row, {self.accepted:.1f} were accepted",
            "few guesses": f"guesses that were not made, worth up to {self.unguessed:.1f} tokens a round",
            "drafting": f"making the guesses, {cost['drafting']}",
            "width": f"{reading}, {cost['width']} on top",
            "overhead": f"the work around the models, {cost['overhead']}",
            "held up": f"other programs that slowed passes, {cost['held up']}",
            "unexplained": f"passes slower than their width explains, {cost['unexplained']}",
        }[self.cause]
        mine = self._names.get(self.cause, "")
        others = [name for name in self._names.values() if name != mine]
        alike = [
            f", and as much for {name}" for name in others if name in shown and shown[name] == shown.get(mine)
        ]
        return f"Biggest cost: {words}{''.join(alike)}"


def _of_a_round(cost: float) -> str:
    return f"{cost:.0%} of a plain round" if cost < 1 else f"{cost:.1f} plain rounds"


def undecided(speedup: float) -> str:
    """The verdict where a speedup may be luck."""
    if 0.995 <= speedup <= 1.005:
        return "About as fast as plain"
    return f"Not clearly {'faster' if speedup > 1.0 else 'slower'} than plain"


def why(plain: Trace, lane: Trace, curve: Curve | None = None) -> Diagnosis | None:
    """Compare `lane` with `plain`, both of one race.

    Args:
        plain: plain decoding of the same prompt.
        lane: any other lane, its rounds recorded.
        curve: T(n) of this machine, in any unit. With it W is what the recorded widths cost by the curve, and
            the rest of the pass's extra time is `unexplained`.

    Returns None where there is too little data: fewer than 16 tokens in a lane, no rounds, or no time.

    Raises:
        SettingsError: if `plain` is not plain decoding, as when the two are swapped.
    """
    proposer = str(plain.header.settings.get("proposer"))
    if proposer != "none":
        raise SettingsError(
            f"The first trace has to be plain decoding, and this one was made with '{proposer}'. "
            "Call why(plain, lane)."
        )
    base, stats = plain.stats, lane.stats
    if min(base.tokens, stats.tokens) < MIN_TOKENS or not lane.rounds:
        return None
    if base.decode_s <= 0 or stats.decode_s <= 0:
        return None
    rounds, unit = len(lane.rounds), base.decode_s / base.target_passes
    plain_verify = base.verify_s / base.target_passes
    held = sum(held_up(lane).values()) / rounds / unit
    wider = width = (stats.verify_s / rounds - plain_verify) / unit - held
    if curve is not None:
        ratio = sum(pass_time(curve, row.width) for row in lane.rounds) / rounds / pass_time(curve, 1)
        width = (ratio - 1.0) * plain_verify / unit
    loops = lane.loops()
    speedup = stats.tokens * unit / stats.decode_s
    apart = scattered(plain.rounds, lane.rounds)
    return Diagnosis(
        speedup=speedup,
        low=speedup / apart,
        high=speedup * apart,
        alpha=stats.acceptance_rate,
        tokens=stats.tokens / rounds,
        guessed=sum(map(_depth, lane.rounds)) / rounds,
        accepted=stats.accepted / rounds,
        rejected=sum(map(_fallen, lane.rounds)) / rounds,
        unguessed=_unguessed(lane),
        drafting=stats.draft_s / rounds / unit,
        width=width,
        overhead=(stats.other_s / rounds - (base.other_s + base.draft_s) / base.target_passes) / unit,
        held=held,
        unexplained=wider - width,
        beside=any(row.ahead_passes for row in lane.rounds),
        repeats=loops.remark,
        flattered=loops.flatter(stats.tokens / rounds),
    )


def scattered(plain: Sequence[Round], lane: Sequence[Round]) -> float:
    """The factor by which a speedup's 95% interval reaches up and down, by the scatter of both lanes' rounds."""
    return math.exp(NORMAL_95 * math.hypot(*map(_scatter, (plain, lane))))


def _scatter(rounds: Sequence[Round]) -> float:
    """The relative standard error of the mean round time: of single rounds, or of blocks if these scatter more."""
    times = [row.draft_s + row.verify_s + row.judge_s + row.commit_s for row in rounds]
    size = math.isqrt(len(times))
    blocks = [fmean(times[at : at + size]) for at in range(0, len(times) - size + 1, size)] if size else []
    single, lasting = _error(times), _error(blocks)
    return (lasting if lasting > LASTING * single else single) / fmean(times) if any(times) else 0.0


def _error(values: Sequence[float]) -> float:
    """The standard error of their mean; 0 of fewer than two."""
    return math.sqrt(variance(values) / len(values)) if len(values) > 1 else 0.0


def _depth(row: Round) -> int:
    """How many guesses the round could have had accepted: the depth of what the target saw."""
    return max(row.nodes.depth[: row.nodes_read], default=0)


def _fallen(row: Round) -> int:
    """How many of these were lost to a wrong guess; none in a round cut short by the end of the text."""
    verdicts = row.nodes.verdict
    return 0 if "cut" in verdicts else _depth(row) - verdicts.count("accepted")


def _unguessed(lane: Trace) -> float:
    """U: per round, what the levels requested by γ but not proposed would have brought at the lane's α; 0 unless γ
    was requested in each round. What the end of the text leaves no room for is not missing.
    """
    settings = Settings(**lane.header.settings)
    kind, gamma = proposer_class(settings.proposer), settings.draft_length
    if kind.drafts(settings) != "chain" or "length" not in kind.uses or settings.proposer == "none":
        return 0.0
    if kind.own_tokens or settings.length_policy != FixedLength.name or settings.memory_budget_mb:
        return 0.0
    rate = lane.stats.acceptance_rate
    before, missing = 0, 0.0
    for row in lane.rounds:
        room = min(gamma, settings.max_new_tokens - before - 1)
        before += len(row.committed.token)
        missing += math.fsum(
            (1.0 if rate is None else rate) ** level for level in range(_depth(row) + 1, room + 1)
        )
    return missing / len(lane.rounds)
