"""Several requests decoded together: each round is one pass of the target over the proposals of all of them.

Every request is a `LaneDecoder` as it is alone, with its own proposer, rule, random numbers and end. Only passes are
made together, the draft's as well, so a text is the one its request gets alone, up to rounding in near ties. A request
that has ended leaves the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from specdec_core.engine.choice import check
from specdec_core.engine.decode import LaneDecoder, RoundClock
from specdec_core.engine.plan import Plan, listed, of_types
from specdec_core.engine.proposal_check import check_proposal
from specdec_core.foundations.errors import SettingsError
from specdec_core.models.bundle import HubModel, Model, Models, NarrowModel
from specdec_core.models.tokens.chat import Prompt
from specdec_core.models.tokens.draft_vocabulary import NarrowReader
from specdec_core.proposers.draft.draft_model import Drafting, DraftModel
from specdec_core.record.schema import EndReason, Output, Stats
from specdec_core.round import Context, Proposal
from specdec_core.runtime.machine import threads
from specdec_core.runtime.reader import Reader
from specdec_core.settings import Settings
from specdec_measure.batch.reader import Batched

PROPOSERS = ("none", "draft-model", "prompt-lookup")  # chains that listen to no states of the target
MAX_BATCH_REQUESTS = 64  # requests in a batch


@dataclass(frozen=True, slots=True)
class BatchText:
    """What became of one request.

    Attributes:
        proposed, committed: tokens round by round.
        stats: as of a decode; its seconds are those of the batch's rounds, which it shared.
    """

    output: Output
    end: EndReason
    stats: Stats
    proposed: list[int]
    committed: list[int]


@dataclass(frozen=True, slots=True)
class BatchRound:
    """One round of all requests that were still being written.

    Attributes:
        texts: how many they were.
        width: tokens of each in the target's pass; shorter proposals were filled up.
        committed: tokens of all of them together.
        seconds: of the draft, verify, judge and commit phases.
    """

    texts: int
    width: int
    committed: int
    seconds: tuple[float, float, float, float]


@dataclass(slots=True)
class Batch:
    """A decoded batch: its requests, in the order given, and its rounds."""

    texts: list[BatchText] = field(default_factory=list)
    rounds: list[BatchRound] = field(default_factory=list)
    prefill_s: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of all requests together, over the rounds in which none of them had ended yet; prefill is left out."""
        full = [row for row in self.rounds if row.texts == len(self.texts)]
        return sum(row.committed for row in full) / sum(sum(row.seconds) for row in full)


def decode_batch(
    models: Models,
    prompts: Sequence[Prompt],
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] | None = None,
) -> Batch:
    """Decode several prompts together, on a CPU, with Llama-shaped models.

    Args:
        models: from `load_models`.
        prompts: one for each request.
        settings: of all requests; of each its text, counts and times are kept, and no rounds.
        seeds: one for each request; None gives all of them that of the settings.

    Raises:
        SpecdecError: one sentence, if something does not fit together, or cannot be computed in a batch.
    """
    settings = of_types(models, settings).but(record="off")
    listed("prompts of a batch", prompts)
    if not 1 <= len(prompts) <= MAX_BATCH_REQUESTS:
        raise SettingsError(f"A batch has 1 to {MAX_BATCH_REQUESTS} requests, got {len(prompts)}.")
    seeds = [settings.seed] * len(prompts) if seeds is None else seeds
    if len(seeds) != len(prompts):
        raise SettingsError(f"A batch has one seed for each request, got {len(seeds)} for {len(prompts)}.")
    running = _Running(models, settings)
    with threads(models.threads):
        return running.decode(
            [(prompt, settings.but(seed=seed)) for prompt, seed in zip(prompts, seeds, strict=True)]
        )


class _Shared:
    """A model that all requests of the batch read: a `Model` whose readers are slots of one batch."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model, HubModel) or model.lean is None:
            raise SettingsError(
                f"A batch needs Llama-shaped models (Llama, Mistral, Qwen) on a CPU, and '{model.info.name}' is not "
                "one. Decode its prompts one by one."
            )
        self.info, self.positions, self.kv_bytes, self.mask = (
            model.info,
            model.positions,
            model.kv_bytes,
            model.mask,
        )
        self.vocabulary = model.vocabulary
        self.batched = Batched(model.lean, model.vocabulary)

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        return self.batched.slot(capacity)


class _Running:
    """The requests still being written, and the two models' caches."""

    def __init__(self, models: Models, settings: Settings) -> None:
        choice = check(settings)
        if settings.proposer not in PROPOSERS or settings.overlap:
            raise SettingsError(
                f"A batch is decoded with the proposers {', '.join(PROPOSERS)}, without overlap; "
                f"'{settings.proposer}'{' with overlap' * settings.overlap} is possible for one request at a time."
            )
        kind = choice.proposer
        models = models.drafting(kind.which_draft(choice.options))
        target = _Shared(models.target)
        self.target, self.draft = target.batched, None
        draft = models.draft if kind.uses_draft() else None
        if draft is not None:
            shared = _Shared(draft.model if isinstance(draft, NarrowModel) else draft)
            self.draft = shared.batched
            draft = (
                NarrowModel(shared, draft.ids, draft.vocabulary) if isinstance(draft, NarrowModel) else shared
            )
        self.models = replace(
            models, target=target, draft=draft, larger_draft=draft, foreign_draft=None, heads={}
        )
        self.lanes: list[LaneDecoder] = []
        self.counts: dict[int, tuple[list[int], list[int]]] = {}

    @torch.inference_mode()
    def decode(self, requests: Sequence[tuple[Prompt, Settings]]) -> Batch:
        """All of them to their ends."""
        plans = [Plan.make(self.models, prompt, settings) for prompt, settings in requests]
        self.lanes = [LaneDecoder(plan, number, lambda: False) for number, plan in enumerate(plans)]
        self.counts = {lane.number: ([], []) for lane in self.lanes}
        batch = Batch()
        prefills = [lane.prefill() for lane in self.lanes]
        batch.prefill_s = sum(prefills)
        done: dict[int, BatchText] = {}
        while self.lanes:
            reasons, row = self.round()
            batch.rounds.append(row)
            for lane, end in zip(self.lanes, reasons, strict=True):
                if end is not None:
                    stats = lane.tally.stats(prefills[lane.number], 0.0)
                    done[lane.number] = BatchText(lane.text.finish(), end, stats, *self.counts[lane.number])
            self.go_on([at for at, end in enumerate(reasons) if end is None])
        batch.texts = [done[number] for number in sorted(done)]
        return batch

    def round(self) -> tuple[list[EndReason | None], BatchRound]:
        """As `LaneDecoder.round`, for all; why each ends, if it does."""
        lanes = self.lanes
        before = [lane.target.length for lane in lanes]
        contexts = [lane.context() for lane in lanes]
        clock = RoundClock()
        proposals = self.propose(contexts)
        clock.lap()
        read = [[lane.tokens[-1], *one.tree.tokens] for lane, one in zip(lanes, proposals, strict=True)]
        logits = self.target.reader.read(read)
        clock.lap()
        seen = [rows[: len(own)] for rows, own in zip(logits, read, strict=True)]
        given = list(zip(lanes, contexts, proposals, seen, strict=True))
        judged = [lane.judge(context, proposal, one) for lane, context, proposal, one in given]
        clock.lap()
        kept = [lane.text.add(one.tokens) for lane, one in zip(lanes, judged, strict=True)]
        clock.resume()
        committed = [
            lane.commit(context, one, one[:0], verdict, ending[0], clock)
            for (lane, context, _, one), verdict, ending in zip(given, judged, kept, strict=True)
        ]
        clock.lap()
        for (lane, _, proposal, one), rows, verdict, (end, ahead) in zip(
            given, before, judged, committed, strict=True
        ):
            lane.record(rows, proposal, one, verdict, end, ahead, clock.laps)
            proposed, written = self.counts[lane.number]
            proposed.append(len(proposal.tree))
            written.append(len(end.tokens))
        draft_s, verify_s, judge_s, commit_s = clock.laps
        total = sum(len(one.tokens) for one, _ in committed)
        row = BatchRound(len(lanes), max(map(len, read)), total, (draft_s, verify_s, judge_s, commit_s))
        return [reason for _, reason in kept], row

    def propose(self, contexts: Sequence[Context]) -> list[Proposal]:
        """Every lane's proposal; drafts take each pass together."""
        found: dict[int, Proposal] = {}
        drafting: dict[int, Drafting[Proposal]] = {}
        for at, (lane, context) in enumerate(zip(self.lanes, contexts, strict=True)):
            proposer = lane.plan.proposer
            if isinstance(proposer, DraftModel):
                drafting[at] = proposer.drafting(context)
            else:
                found[at] = proposer.propose(context)
        while drafting:
            wanted: list[list[int]] = [[] for _ in self.lanes]
            for at, one in [*drafting.items()]:
                try:
                    wanted[at] = self.read_by_draft(at, next(one).tolist())
                except StopIteration as end:
                    found[at] = end.value
                    del drafting[at]
            if drafting and self.draft is not None:
                logits = self.draft.reader.step(wanted)
                for at in drafting:
                    self.draft.slots[at].logits = logits[at]
        for at, (lane, context) in enumerate(zip(self.lanes, contexts, strict=True)):
            check_proposal(lane.settings.proposer, context, found[at], lane.plan.shape)
        return [found[at] for at in range(len(self.lanes))]

    def read_by_draft(self, at: int, tokens: list[int]) -> list[int]:
        """The target's tokens as the draft numbers them."""
        proposer = self.lanes[at].plan.proposer
        reader = proposer.draft if isinstance(proposer, DraftModel) else None
        return [reader.names[token] for token in tokens] if isinstance(reader, NarrowReader) else tokens

    def go_on(self, alive: Sequence[int]) -> None:
        """Go on with these lanes."""
        if alive and len(alive) < len(self.lanes):
            self.target.only(alive)
            if self.draft is not None:
                self.draft.only(alive)
        self.lanes = [self.lanes[at] for at in alive]
