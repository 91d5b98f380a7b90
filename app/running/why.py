"""Why faster, why slower: per lane one sentence, and a round's time as a bar beside the tokens that it brought.

Nothing here imports streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from app.ui.chip import chip
from specdec_core.record.trace import Trace
from specdec_measure.analysis.diagnosis import MIN_LOSS, Diagnosis
from specdec_measure.analysis.slow_passes import held_up

HINT = (
    "The bar is a round's time, in rounds of plain decoding; ▼ is the number of tokens it commits. A lane is faster if "
    "its bar ends left of ▼. Rejected guesses have no part of their own in the bar: without rejections ▼ would be "
    "further right. The sentence above names the loss whose removal would help most."
)
LESS = " A negative part took less time than in the plain lane (times differ from pass to pass); it shortens the bar."
INTERVAL = (
    " The interval (1.96 standard errors) comes from how much round times vary within this run; how much runs vary, "
    "only repeats show."
)
MEANS = {
    "one plain round": "The time of one round of plain decoding: a target pass over one token, and the work around it.",
    "drafting": "The time of making the guesses.",
    "reading several tokens at once": "The extra time of the target's pass because it reads several tokens instead of "
    "one.",
    "the pass with drafting alongside": "The extra time of the target's pass because it reads several tokens and "
    "the draft runs beside it.",
    "slowed by other programs": "What passes of this lane that took at least twice their median time took beyond it: "
    "another program was using the processor, or the models had just been loaded.",
    "time that the width does not explain": "How much longer the target's passes took than passes of that width do.",
    "other work": "Judging and committing: the time outside the models, beyond what plain decoding takes for it.",
}
WORTH = 0.05  # of a lane's time: what passes that were held up took is said from here on
ROOM = 1.04  # the scale ends a little after the largest value


@dataclass(frozen=True, slots=True)
class Why:
    """One lane: its number in the run, its words, and its account where there is one."""

    number: int
    words: str
    found: Diagnosis | None


def slowed(trace: Trace) -> float:
    """The seconds for which other programs slowed its passes; 0 where they hardly matter."""
    seconds = sum(held_up(trace).values())
    return seconds if seconds >= WORTH * trace.stats.decode_s else 0.0


def held_up_words(plain: Trace, lane: Trace) -> str:
    """A sentence on either lane's passes that other programs slowed, after a space; empty where they hardly matter."""
    lost = {"this lane's": slowed(lane), "plain decoding's": slowed(plain)}
    named = [f"{name} passes by {1e3 * seconds:.0f} ms" for name, seconds in lost.items() if seconds]
    if not named:
        return ""
    own, base = lane.stats.decode_s - lost["this lane's"], plain.stats.decode_s - lost["plain decoding's"]
    without = lane.stats.tokens / own / (plain.stats.tokens / base)
    return f" Other programs slowed {' and '.join(named)}; without that, about {without:.2f}×."


def html(lanes: Sequence[Why]) -> str:
    """All lanes on one scale; every text is escaped. Letters tell several lanes apart; one alone has none."""
    known = [lane.found for lane in lanes if lane.found is not None]
    most = ROOM * max((max(found.tokens, found.cost) for found in known), default=1.0)
    rows = "".join(
        f'<div class="sd-why">{chip(lane.number) if len(lanes) > 1 else ""}<div><p>{escape(lane.words)}</p>'
        + (_bar(lane.found, most) if lane.found is not None else "")
        + "</div></div>"
        for lane in lanes
    )
    less = LESS if any(value <= -MIN_LOSS for found in known for _, value in found.segments) else ""
    doubt = INTERVAL if any("95% interval" in lane.words for lane in lanes) else ""
    return f"<style>{STYLE}</style>{rows}" + (
        f'<p class="sd-why-hint">{escape(HINT + less + doubt)}</p>' if known else ""
    )


def _lengths(found: Diagnosis) -> list[float]:
    """How long each segment is drawn. A negative one shortens the others, from the plain round on, so that the bar ends
    at the round's cost."""
    values = [value for _, value in found.segments]
    saved = -sum(min(0.0, value) for value in values)
    lengths = []
    for value in values:
        taken = min(saved, max(0.0, value))
        lengths.append(max(0.0, value) - taken)
        saved -= taken
    return lengths


def _bar(found: Diagnosis, most: float) -> str:
    parts = "".join(
        f'<i class="{_kind(name)}" style="width:{100 * length / most:.2f}%"></i>'
        for (name, _), length in zip(found.segments, _lengths(found), strict=True)
    )
    named = "".join(
        f'<li tabindex="0" title="{escape(MEANS.get(name, ""))}"><i class="{_kind(name)}"></i>'
        f"{escape(name)} {_number(value, at)}</li>"
        for at, ((name, _), value) in enumerate(zip(found.segments, found.hundredths, strict=True))
    )
    noise = " (below 1: timing noise)" if found.cost < 1.0 - MIN_LOSS else ""
    total = f"<li><b>= {found.cost:.2f} plain rounds{noise}, {found.tokens:.2f} tokens</b></li>"
    mark = f'<b class="mark" style="left:{100 * found.tokens / most:.2f}%">▼</b>'
    return f'<div class="bar" aria-hidden="true">{parts}{mark}</div><ul>{named}{total}</ul>'


def _kind(name: str) -> str:
    """The class of a segment; drafting, passes and other work look as on the player's time axis."""
    kinds = {"one plain round": "s0", "drafting": "s1", "other work": "s4", "slowed by other programs": "s5"}
    return kinds.get(name, "s3" if name.startswith("time ") else "s2")


def _number(value: float, at: int) -> str:
    return "1" if at == 0 else f"{'+' if value >= 0 else '−'} {abs(value):.2f}"


STYLE = """
.sd-why{display:flex;gap:.75rem;margin:.9rem 0;max-width:62rem}
.sd-why>div{flex:1;min-width:0}
.sd-why p{margin:0 0 1.15rem;line-height:1.45}
.sd-why .bar{position:relative;display:flex;height:1.1rem}
.sd-why .bar .mark{position:absolute;top:-1.05rem;transform:translateX(-50%);font-size:.75rem;line-height:1}
.sd-why .bar .mark::after{content:"";position:absolute;left:50%;top:.85rem;height:1.3rem;border-left:2px solid;
box-shadow:0 0 0 1px var(--page)}
.sd-why i{display:block;height:100%}
.sd-why i:first-child{border-radius:3px 0 0 3px}
.sd-why .s0{background:color-mix(in srgb,var(--target) 62%,var(--page))}
.sd-why .s1{background:repeating-linear-gradient(0deg in srgb,var(--draft) 0 2px,
color-mix(in srgb,var(--draft) 40%,transparent) 2px 4px)}
.sd-why .s2{background:repeating-linear-gradient(90deg in srgb,color-mix(in srgb,var(--target) 62%,var(--page)) 0 3px,
color-mix(in srgb,var(--target) 30%,var(--page)) 3px 6px)}
.sd-why .s3{background:var(--muted)}
.sd-why .s5{background:repeating-linear-gradient(45deg in srgb,var(--page) 0 2px,
color-mix(in srgb,var(--target) 62%,var(--page)) 2px 7px)}
.sd-why .s4{background:color-mix(in srgb,var(--text) 22%,var(--page))}
.sd-why ul{display:flex;flex-wrap:wrap;gap:.15rem 1rem;list-style:none;margin:.35rem 0 0;padding:0;font-size:.875rem;
font-variant-numeric:tabular-nums}
.sd-why li{display:flex;align-items:center;gap:.35rem;margin:0;padding:0;font-size:inherit}
.sd-why li[title]{position:relative;cursor:help}
.sd-why li[title]:focus::after{content:attr(title);position:absolute;z-index:2;
inset:calc(100% + .3rem) auto auto 0;width:max-content;max-width:min(20rem,70vw);padding:.4rem .6rem;
border:1px solid var(--border);border-radius:.5rem;background:var(--page);font-size:.8125rem;line-height:1.45}
.sd-why li i{width:.75rem;height:.75rem;border-radius:2px}
.sd-why-hint{font-size:.875rem;color:var(--muted);margin:.25rem 0 0}
"""
