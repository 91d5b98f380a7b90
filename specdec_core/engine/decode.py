"""The loop: propose → verify → judge → commit, as a generator of events that can be closed between rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from specdec_core.columns.recorder import Recorder
from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.lengths import room
from specdec_core.models.bundle import Models
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.schema import EndReason, Round, Source, Verdict
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace
from specdec_core.round import Context, DraftedAhead, Judged, Outcome, Proposal, RoundResult
from specdec_core.rules import Decision
from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.runtime.angles import LengthReader
from specdec_core.runtime.architectures.recurrent import RecurrentReader
from specdec_core.runtime.machine import threads
from specdec_core.runtime.reader import CausalReader
from specdec_core.sampling import draw, first_best, widen
from specdec_core.sampling.penalties import paths_of
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .events import Ended, Event, Finished, Started, Step
from .plan import Ask, Plan
from .proposal_check import check_observed, check_proposal
from .text import Text

Cancelled = Callable[[], bool]


def decode(models: Models, prompt: Prompt, settings: Settings | None = None) -> Trace:
    """Decode to the end and return the record.

    Args:
        models: from `load_models`.
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

    A round is computed while the caller waits for its `Step`, so closing the generator ends the work at once, without a
    trace. `cancelled` may be set from another thread: it is polled before each round and before the target's pass, and
    ends the work with a trace. `ask` receives the text so far and returns the next words a person types, for the
    proposer 'you'.
    Raises as `decode`; everything a user can get wrong is refused before the first event.
    """
    plan = Plan.make(models, prompt, settings, ask)  # raises here, not at the first next()
    return LaneDecoder(plan, lane, cancelled).run()


class RoundClock:
    """The seconds of a round's phases, lap by lap; time that is not the decoder's is left out."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._since = time.perf_counter()

    def lap(self, without: float = 0.0) -> None:
        """End a phase; `without` seconds of it are not counted."""
        now = time.perf_counter()
        self.laps.append(now - self._since - without)
        self._since = now

    def resume(self) -> None:
        """Leave out the time since the last lap."""
        self._since = time.perf_counter()


class LaneDecoder:
    """One lane: its clock, its record, and its rounds."""

    def __init__(self, plan: Plan, number: int, cancelled: Cancelled) -> None:
        self.plan, self.number, self.cancelled = plan, number, cancelled
        self.settings, self.target = plan.settings, plan.target
        self.start_context, self.warp = plan.start_context, plan.start_context.warp
        self.tokens, self.past = self.start_context.tokens, self.start_context.past
        self.recorder = Recorder(plan.settings.record, self.warp)
        self.tally = RoundTally()
        self.thread_tuner = plan.models.thread_tuner
        self.text = Text(plan.models.codec, self.tokens, plan.models.eos, plan.settings)

    @property
    def count(self) -> int:
        """The CPU threads that compute now; all of them where the draft takes one beside the target's pass, so that its
        duration says nothing of other programs."""
        return self.plan.models.threads if self.settings.overlap else self.thread_tuner.count

    def run(self) -> Iterator[Event]:
        """The lane's events, from `Started` to `Finished`."""
        plan, settings = self.plan, self.settings
        with threads(self.count):
            prefill_s = self.prefill()
        reason: EndReason | None = None
        try:
            root = "".join(plan.models.codec.names(self.tokens[-1:]))
            yield Started(
                self.number, settings.proposer, settings.rule, len(plan.prompt_ids), prefill_s, root
            )
            while reason is None and not self.cancelled():
                with threads(self.count):
                    step, reason = self.round()
                if step is None:
                    break
                yield step
        finally:
            plan.proposer.close()
        end: EndReason = reason or "cancelled"
        yield Ended(self.number, end)
        with threads(self.count):
            rounds = self.recorder.finish()
        output = self.text.finish()
        stats = self.tally.stats(prefill_s, self.recorder.seconds)
        trace = Trace(plan.header(), rounds, output, end, stats, plan.names(rounds, output.ids))
        yield Finished(self.number, end, stats, trace)

    @torch.inference_mode()
    def prefill(self) -> float:
        """Read the prompt without its last token, which is the first root; seconds."""
        began = time.perf_counter()
        prompt = self.tokens[:-1]
        if isinstance(self.target, CausalReader | RecurrentReader):
            self.target.begin(len(self.tokens))
        # at least once: an encoder reads its source here
        for start in range(0, len(prompt) or 1, PREFILL_CHUNK):
            if self.cancelled():
                return time.perf_counter() - began
            self.target.prefill(prompt[start : start + PREFILL_CHUNK])
        if self.plan.draft_levels(len(self.tokens)):
            self.plan.proposer.start(self.start_context)
        self.target.synchronise()
        return time.perf_counter() - began

    @torch.inference_mode()
    def round(self) -> tuple[Step | None, EndReason | None]:
        """One round: propose, verify, judge, commit (Leviathan et al. 2023, Algorithm 1, on a tree).

        Without a step if it was cancelled between drafting and verifying.
        """
        context, before, count = self.context(), self.target.length, self.count
        clock = RoundClock()
        proposal = self.propose(context)
        if self.cancelled():
            return None, None
        self.target.synchronise()
        clock.lap(without=proposal.waited)
        logits, extra = self.verify(context, proposal)
        clock.lap()
        if not self.settings.overlap:
            self.thread_tuner.observe(1 + len(proposal.read), clock.laps[-1], count)
        judged = self.judge(context, proposal, logits)
        clock.lap()
        kept, reason = self.text.add(judged.tokens[: context.limit + 1])  # detokenising is off the clock
        clock.resume()
        outcome, ahead = self.commit(context, logits, extra, judged, kept, clock)
        clock.lap()
        return self.record(before, proposal, logits, judged, outcome, ahead, clock.laps), reason

    def context(self) -> Context:
        """The proposer's context as the round begins."""
        if self.past is not None:
            self.past.extend(self.tokens[self.past.length :])
        limit = self.settings.max_new_tokens - len(self.text.output.ids) - 1
        limit = min(limit, self.plan.draft_levels(len(self.tokens)))
        if isinstance(self.target, LengthReader):
            limit = min(limit, self.target.levels)
        context = replace(
            self.start_context,
            round=self.tally.passes,
            limit=limit,
            room=room(self.settings, self.plan.models, self.target.length),
        )
        return replace(context, length=max(0, min(context.policy.length(context), limit)))

    def propose(self, context: Context) -> Proposal:
        """The proposer's tree, checked against the contract."""
        proposal = self.plan.proposer.propose(context)
        check_proposal(self.settings.proposer, context, proposal, self.plan.shape)
        return proposal

    def verify(self, context: Context, proposal: Proposal) -> tuple[Tensor, Tensor]:
        """One pass of the target over the root, the tree and the extra tokens: float32 logits after the root and every
        node (n + 1, V), and after every extra token (m, V)."""
        if self.settings.overlap:
            self.plan.proposer.draft_ahead(context, proposal)
        logits = self.target.read(self.tokens[-1], proposal.read)
        self.target.synchronise()
        size = len(proposal.tree) + 1
        return logits[:size], logits[size:]

    def judge(self, context: Context, proposal: Proposal, logits: Tensor) -> Judged:
        """How far the rule goes down the tree, and the token drawn where it stops."""
        seed, tree = self.settings.seed, proposal.tree
        coins = uniforms(seed, Stream.COINS, context.round, len(tree)).tolist() if len(tree) else []
        penalised = None if self.past is None else self.past.penalised(logits, paths_of(tree))
        scores = logits if penalised is None else penalised
        if self.warp.greedy and proposal.q is None and not self.plan.rule.own_probabilities:
            best: list[int] = first_best(scores).tolist()
            if (decision := self.plan.rule.judge_greedy(tree, best, coins)) is not None:
                tokens = [*(tree.tokens[node] for node in decision.path), best[decision.end]]
                return Judged(decision, decision.source_in(tree), coins, tokens, penalised)
        given = self._distributions(scores, proposal)
        judgement = self.plan.rule.judge(tree, *given, coins)
        if self.warp.greedy:
            number, last = None, int(first_best(judgement.final))
        else:
            number = float(uniforms(seed, Stream.CORRECTION, context.round, 1)[0])
            last = int(draw(judgement.final, number))
        tokens = [*(tree.tokens[node] for node in judgement.path), last]
        if self.warp.greedy and not self.plan.rule.own_probabilities:
            p = q = None  # one-hot
        else:
            p, q = given
        return Judged(judgement, judgement.source, coins, tokens, penalised, p, q, judgement.final, number)

    def commit(
        self, context: Context, logits: Tensor, extra: Tensor, judged: Judged, kept: int, clock: RoundClock
    ) -> tuple[Outcome, DraftedAhead]:
        """The first `kept` tokens become text, the KV cache keeps their rows, and the proposer receives the verdict."""
        tokens, path = judged.tokens[:kept], judged.decision.path[:kept]
        self.target.keep([0, *(node + 1 for node in path[: kept - 1])])
        self.tokens.extend(tokens)
        scores = logits if judged.penalised is None else judged.penalised
        outcome = Outcome(path, tokens, extra, (clock.laps[0], clock.laps[1]), scores)
        ahead = check_observed(self.settings.proposer, self.plan.proposer.observe(context, outcome))
        context.policy.observe(context, outcome)
        self.target.synchronise()
        return outcome, ahead

    def record(
        self,
        before: int,
        proposal: Proposal,
        logits: Tensor,
        judged: Judged,
        outcome: Outcome,
        ahead: DraftedAhead,
        seconds: list[float],
    ) -> Step:
        """Write the round down; `before` is the length of the KV cache as it began."""
        tree, kept = proposal.tree, len(outcome.tokens)
        sources: list[Source] = ["accepted"] * len(outcome.path)
        sources += [judged.source if len(tree) else "plain"] * (kept - len(sources))
        row = self.recorder.add(
            RoundResult(
                index=self.tally.passes,
                start_s=self.tally.clock,
                seconds=seconds,
                cache=(before, self.target.length),
                proposal=proposal,
                logits=logits,
                judged=judged,
                verdicts=_cut(tree, judged.decision, kept),
                tokens=outcome.tokens,
                sources=sources,
                ahead=ahead,
            )
        )
        self.tally.add(tree, row.nodes.verdict, kept, proposal.passes + ahead.passes, seconds)
        return self._step(row)

    def _distributions(self, scores: Tensor, proposal: Proposal) -> tuple[Tensor, Tensor | None]:
        """p and q as the rule sees them, p from the target's penalised logits; see `Rule.judge`."""
        tree = proposal.tree
        if not (self.warp.greedy and self.plan.rule.own_probabilities):
            return self.warp(scores), proposal.q
        q = None
        if proposal.logits is not None and len(tree):
            drafted = widen(proposal.logits[_drafting_rows(proposal)], proposal.ids, scores.shape[-1])
            if self.past is not None:
                paths = paths_of(tree)
                drafted = self.past.penalised(drafted, [paths[parent + 1] for parent in tree.parents])
            q = drafted.softmax(-1)
        return scores.softmax(-1), q

    def _step(self, row: Round) -> Step:
        output, candidates, by = self.text.output, row.note.get("candidates"), row.note.get("by")
        return Step(
            lane=self.number,
            round=row.index,
            clock_s=row.end_s,
            tokens=row.committed.token,
            texts=output.texts[-len(row.committed.token) :],
            sources=row.committed.source,
            parent=row.nodes.parent,
            node_texts=self.plan.models.codec.names(row.nodes.token),
            names=self.plan.models.codec.names(row.committed.token),
            verdict=row.nodes.verdict,
            total=len(output.ids),
            start_s=row.start_s,
            draft_s=row.draft_s,
            verify_s=row.verify_s,
            judge_s=row.judge_s,
            commit_s=row.commit_s,
            ahead_s=row.ahead_s,
            candidates=candidates if isinstance(candidates, int) else None,
            by=by if isinstance(by, str) else None,
        )


def _drafting_rows(proposal: Proposal) -> list[int]:
    """For each node the row of the draft's logits that it was drafted from."""
    rows = proposal.logit_rows
    return [parent + 1 if rows is None else rows[parent + 1] for parent in proposal.tree.parents]


def _cut(tree: TokenTree, decision: Decision, kept: int) -> list[Verdict]:
    """The rule's verdicts, with `cut` for what it judged beyond the last committed token."""
    if kept > len(decision.path):
        return decision.verdicts
    alive = {-1, *decision.path[: kept - 1]}
    return [
        "cut" if verdict in ("accepted", "rejected") and tree.parents[node] not in alive else verdict
        for node, verdict in enumerate(decision.verdicts)
    ]
