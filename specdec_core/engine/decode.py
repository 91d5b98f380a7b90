"""The loop: propose → verify → judge → commit, as a generator of events that can be closed between rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec_core.chat import Prompt
from specdec_core.lengths import room
from specdec_core.models.bundle import Models
from specdec_core.models.tokenizer import Pieces
from specdec_core.penalties import paths_of
from specdec_core.proposers import Outcome, Proposal
from specdec_core.randomness import Stream, uniforms
from specdec_core.record.schema import EndReason, Output, Round, Source, Verdict
from specdec_core.record.stats import Tally
from specdec_core.record.trace import Trace
from specdec_core.rules import Judgement
from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.runtime.machine import threads
from specdec_core.sampling import draw
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .describe import RawRound
from .events import Ended, Event, Finished, Started, Step
from .plan import Ask, Plan
from .recorder import Recorder, new_round

Cancelled = Callable[[], bool]


def decode(models: Models, prompt: Prompt, settings: Settings | None = None) -> Trace:
    """Decode to the end and return the record.

    Args:
        models: what `load_models` gave.
        prompt: text, a `Chat` message, or token ids.
        settings: defaults to `Settings()`.

    Raises:
        SpecdecError: one sentence, if the prompt, the settings and the models do not fit together.
    """
    for event in stream(models, prompt, settings):
        if isinstance(event, Finished):
            return event.trace
    raise AssertionError("a stream ends with Finished")


def stream(
    models: Models,
    prompt: Prompt,
    settings: Settings | None = None,
    *,
    lane: int = 0,
    cancelled: Cancelled = lambda: False,
    ask: Ask | None = None,
) -> Iterator[Event]:
    """Decode as a generator: `Started`, a `Step` per round, `Ended` as computing ends, `Finished` with the trace.

    Closing the generator ends the work at once; `cancelled` is asked between rounds and ends it with a trace. `ask`
    is given the text so far and answers with the next words a person types, for the proposer 'you'.
    Raises as `decode`; everything a user can get wrong is refused before the first event.
    """
    plan = Plan.make(models, prompt, settings or Settings(), ask)  # raises here, not at the first next()
    return _Loop(plan, lane, cancelled).run()


@dataclass(slots=True)
class _Ending:
    """How many of a round's tokens are kept, and why the text ends there, if it does."""

    kept: int
    reason: EndReason | None


class _Loop:
    """One lane: its clock, its record, and the round."""

    def __init__(self, plan: Plan, lane: int, cancelled: Cancelled) -> None:
        self.plan, self.lane, self.cancelled = plan, lane, cancelled
        self.settings = plan.settings
        self.recorder = Recorder(plan.settings.record, plan.context.warp)
        self.tally = Tally()
        self.pieces = Pieces(plan.models.codec, plan.context.tokens)
        self.output = Output([], [], [], "")
        self.tokens = plan.context.tokens

    def run(self) -> Iterator[Event]:
        with threads(self.plan.models.threads):
            prefill_s = self._prefill()
        plan, settings = self.plan, self.settings
        reason: EndReason | None = None
        try:
            yield Started(self.lane, settings.proposer, settings.rule, len(plan.prompt_ids), prefill_s)
            while reason is None and not self.cancelled():
                with threads(plan.models.threads):
                    step, reason = self._round()
                if step is None:
                    break
                yield step
        finally:
            plan.proposer.close()
        end: EndReason = reason or "cancelled"
        yield Ended(self.lane, end)
        with threads(plan.models.threads):
            rounds = self.recorder.finish()
        rest = self.pieces.rest()
        if rest and self.output.texts:
            self.output.texts[-1] += rest
        self.output.text = "".join(self.output.texts)
        stats = self.tally.stats(prefill_s, self.recorder.seconds)
        trace = Trace(plan.header(), rounds, self.output, end, stats, plan.names(rounds, self.output.ids))
        yield Finished(self.lane, end, stats, trace)

    @torch.inference_mode()
    def _prefill(self) -> float:
        """Read the prompt without its last token, which is the first root; seconds."""
        began = time.perf_counter()
        prompt = self.tokens[:-1]
        for start in range(
            0, len(prompt) or 1, PREFILL_CHUNK
        ):  # at least once: an encoder reads its source here
            if self.cancelled():
                return time.perf_counter() - began
            self.plan.target.prefill(prompt[start : start + PREFILL_CHUNK])
        self.plan.proposer.start(self.plan.context)
        self.plan.target.synchronise()
        return time.perf_counter() - began

    @torch.inference_mode()
    def _round(self) -> tuple[Step | None, EndReason | None]:
        """One round; without a step if it was cancelled between drafting and verifying."""
        plan, context, target = self.plan, self.plan.context, self.plan.target
        index, start_s, before = self.tally.passes, self.tally.clock, target.length
        context.round = index
        context.limit = self.settings.max_new_tokens - len(self.output.ids) - 1
        context.length = max(0, min(context.policy.length(context), context.limit))
        context.room = room(self.settings, plan.models, target.length)
        context.waited = context.ahead_s = 0.0
        context.ahead_passes = 0
        context.asides = []
        if context.past is not None:
            context.past.extend(self.tokens[context.past.length :])

        laps = [time.perf_counter()]
        proposal = plan.proposer.propose(context)
        tree, riders = proposal.tree, proposal.riders
        plan.hold(tree.joined(riders))
        if self.cancelled():
            return None, None
        target.synchronise()
        laps.append(time.perf_counter())
        if self.settings.overlap:
            plan.proposer.draft_ahead(context, proposal)
        logits = target.read(self.tokens[-1], tree.joined(riders))
        target.synchronise()
        laps.append(time.perf_counter())
        logits, rider_logits = logits[: len(tree) + 1], logits[len(tree) + 1 :]
        coins = uniforms(self.settings.seed, Stream.COINS, index, len(tree)).tolist() if len(tree) else []
        scores = logits if context.past is None else context.past.penalised(logits, paths_of(tree))
        p, q = self._laws(scores, proposal)
        judgement = plan.rule.judge(tree, p, q, coins)
        number, last = self._draw(judgement, index)
        laps.append(time.perf_counter())
        tokens = [tree.tokens[node] for node in judgement.path] + [last]
        ending = self._ending(tokens)  # decodes text, which is not the decoder's time
        resumed = time.perf_counter()
        tokens = tokens[: ending.kept]
        target.keep([0, *(node + 1 for node in judgement.path[: ending.kept - 1])])
        self.tokens.extend(tokens)
        phases = (laps[1] - laps[0] - context.waited, laps[2] - laps[1])
        outcome = Outcome(judgement.path[: ending.kept], tokens, rider_logits, phases)
        plan.proposer.observe(context, outcome)
        context.policy.observe(context, outcome)
        target.synchronise()
        committed = time.perf_counter()

        verdicts = _cut(tree, judgement, ending.kept)
        final: Source = judgement.source if len(tree) else "plain"
        sources: list[Source] = ["accepted"] * min(ending.kept, len(judgement.path))
        sources += [final] * (ending.kept - len(sources))
        seconds = [*phases, laps[3] - laps[2], committed - resumed]
        verdicts += [aside.verdict for aside in context.asides]
        self.tally.add(tree, verdicts, len(tokens), proposal.passes + context.ahead_passes, seconds)
        row = new_round(
            index, start_s, seconds, (before, target.length), proposal, verdicts, (tokens, sources), context
        )
        one_hot = context.warp.greedy and not plan.rule.own_probabilities
        self.recorder.add(
            RawRound(
                row, tree, judgement, coins, logits, None if one_hot else p, None if one_hot else q,
                proposal.logits, proposal.logit_rows, number,
                [aside.model_q for aside in context.asides],
                None if context.past is None else scores,
            )
        )  # fmt: skip
        return self._step(row), ending.reason

    def _laws(self, scores: Tensor, proposal: Proposal) -> tuple[Tensor, Tensor | None]:
        """p and q as the rule is to see them, p of the target's penalised logits; see `Rule.judge`."""
        warp, past, tree = self.plan.context.warp, self.plan.context.past, proposal.tree
        if not (warp.greedy and self.plan.rule.own_probabilities):
            return warp(scores), proposal.q
        q = None
        if proposal.logits is not None and len(tree):
            drafted = proposal.logits[_drafting_rows(proposal)]
            if past is not None:
                paths = paths_of(tree)
                drafted = past.penalised(drafted, [paths[parent + 1] for parent in tree.parents])
            q = drafted.softmax(-1)
        return scores.softmax(-1), q

    def _draw(self, judgement: Judgement, index: int) -> tuple[float | None, int]:
        """The corrected or bonus token, and the number that drew it (None where the law is one-hot)."""
        final: Tensor = judgement.final
        if self.plan.context.warp.greedy:
            return None, int(final.argmax())
        number = float(uniforms(self.settings.seed, Stream.CORRECTION, index, 1)[0])
        return number, int(draw(final, number))

    def _ending(self, tokens: list[int]) -> _Ending:
        """Cut a round's tokens exactly at the end of sequence, a stop string, or the length limit."""
        room = self.settings.max_new_tokens - len(self.output.ids)
        for kept, token in enumerate(tokens, start=1):
            if self._append(token):
                return _Ending(kept, "stop")
            if token in self.plan.models.eos:
                return _Ending(kept, "eos")
            if kept == room:
                return _Ending(kept, "length")
        return _Ending(len(tokens), None)

    def _append(self, token: int) -> bool:
        """Add a token's piece to the output; whether a stop string now stands at its end."""
        piece = self.pieces.push(token)
        output = self.output
        output.ids.append(token)
        output.texts.append(piece)
        output.offsets.append(len(output.text))
        output.text += piece
        return any(stop in output.text[-len(piece) - len(stop) :] for stop in self.settings.stop if piece)

    def _step(self, row: Round) -> Step:
        return Step(
            lane=self.lane,
            round=row.index,
            clock_s=row.end_s,
            tokens=row.committed.token,
            texts=self.output.texts[-len(row.committed.token) :],
            sources=row.committed.source,
            parent=row.nodes.parent,
            node_texts=self.plan.models.codec.names(row.nodes.token),
            verdict=row.nodes.verdict,
            total=len(self.output.ids),
            start_s=row.start_s,
            draft_s=row.draft_s,
            verify_s=row.verify_s,
            judge_s=row.judge_s,
            commit_s=row.commit_s,
            ahead_s=row.ahead_s,
        )


def _drafting_rows(proposal: Proposal) -> list[int]:
    """For each node the row of the draft's logits that it was drafted from."""
    rows = proposal.logit_rows
    return [parent + 1 if rows is None else rows[parent + 1] for parent in proposal.tree.parents]


def _cut(tree: TokenTree, judgement: Judgement, kept: int) -> list[Verdict]:
    """The rule's verdicts, with `cut` for what it judged beyond the last committed token."""
    if kept > len(judgement.path):
        return judgement.verdicts
    alive = {-1, *judgement.path[: kept - 1]}
    return [
        "cut" if verdict in ("accepted", "rejected") and tree.parents[node] not in alive else verdict
        for node, verdict in enumerate(judgement.verdicts)
    ]
