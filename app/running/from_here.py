"""From here: a run goes on from another one with a token that its viewer chose among the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.decoding.run import Request, Run
from app.ui.state import state
from specdec_core.foundations.errors import PromptError
from specdec_core.models.tokens.chat import Branched


def request(run: Run, chosen: Mapping[str, Any]) -> Request | None:
    """What goes on from the run's record `trace`, after `at` of its tokens, with `token` in place of its own.

    None where the run has no such record or place, or the record no such candidate.
    """
    trace_id, at, token = (chosen.get(name) for name in ("trace", "at", "token"))
    trace = next((one for one in run.traces.values() if one.header.id == trace_id), None)
    if trace is None or type(at) is not int or type(token) is not int or str(token) not in trace.texts:
        return None
    asked, word = run.request, trace.texts[str(token)]
    within = run.templated or (asked.branch is not None and asked.branch.chat)
    try:
        branch = Branched.of(trace, at, token, chat=within)
    except PromptError:
        return None
    begin = trace.header.prompt + ("\n\n" if trace.header.chat else "")
    text = begin + "".join(trace.output.texts[:at]) + word
    return replace(asked, prompt=text, branch=branch, trail=(*asked.trail, (run.id, word)))


def trail(run: Run) -> list[dict[str, Any]]:
    """The runs to which the viewer can go from here, oldest first, as `player.data` takes them.

    Empty for one that nothing led to and that nothing goes on from, and for who came by a shared link: the others are
    not theirs.
    """
    words = [None, *(word for _, word in run.request.trail)]
    own = list(zip([*(name for name, _ in run.request.trail), run.id], words, strict=True))
    if own != state.trail[: len(own)]:  # not one that the viewer returned to
        state.trail = own
    if run.key or len(state.trail) < 2:
        return []
    return [{"run": name, "text": word, "shown": name == run.id} for name, word in state.trail]
