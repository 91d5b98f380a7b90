"""A draft is trained while one watches: from random weights, on text that the target writes, in about a minute.

It learns the target's probabilities, of which the likeliest are kept with each token that the target writes. The
prompts of the race are not among the openings, and a row that repeats what the target answers to them is dropped.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save
from transformers import DynamicCache

from specdec_core.engine.decode import decode
from specdec_core.engine.events import Finished
from specdec_core.engine.race import race
from specdec_core.foundations.errors import ModelError
from specdec_core.models.bundle import HubModel, Models
from specdec_core.settings import Settings
from specdec_measure.optimisation import (
    BATCH_ROWS,
    TOP_PROBABILITIES,
    Optimisers,
    Rates,
    next_tokens,
    relative_rate,
)
from specdec_measure.sweep.cases import shipped

from .distilled import DRAFT_LENGTH, HELD_BACK, Distilled, Heat, Report, Score, Standing, scored

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

BUDGET_S = 60.0
WRITING = 0.4  # of the budget; the rest is training
ROWS, LENGTH = 64, 64  # of a batch that the target writes
SLICE_S = 1.5  # of writing or training between two reports
RATES = Rates(matrices=0.02, others=0.01)
TOKENS = 64  # of each answer held back
SHARED = 16  # a row with so many tokens in a row of an answer held back is not trained on

OPENINGS = {
    "story": ("Once upon a time", "One day,", "There was a", "It was a", "The little", "Tim had a", "A girl named",
              '"Mom,', "In a small", "Every day,", "Ben and", "The sun"),
    "code": ("def ", "class ", "import ", "from ", "    def ", "for i in", "# ", "@"),
}  # fmt: skip


@dataclass(slots=True)
class LiveTraining:
    """One training.

    Args:
        models: a family with a draft, both causal language models of transformers.
        kind: of text, a key of `OPENINGS`.
        budget_s: seconds for writing and training.
        cancelled: whether to end early; then it ends without a result.

    Raises:
        ModelError: one sentence, if no draft can be trained for these models.
    """

    models: Models
    kind: str
    budget_s: float
    cancelled: Callable[[], bool]
    _seconds: float = 0.0  # computed so far
    _steps: int = 0
    _answers: list[tuple[list[int], list[int]]] = field(default_factory=list)  # held back: prompts, answers
    _written: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  # of `write`

    def __post_init__(self) -> None:
        if not (isinstance(self.models.draft, HubModel) and isinstance(self.models.target, HubModel)):
            raise ModelError("A draft is trained here only for a family that has a draft model of its own.")
        if self.kind not in OPENINGS:
            raise ModelError(
                f"Text of the kind {self.kind!r} is not written here; take {' or '.join(OPENINGS)}."
            )

    def run(self) -> Generator[Report, None, None]:
        """Train and race. It computes only while the next report is waited for."""
        draft = self._fresh()
        for phase in (self._hold_back(), self._write(), self._train(draft)):
            start = time.perf_counter()
            for standing in phase:
                if self.cancelled():
                    return
                self._seconds += time.perf_counter() - start
                yield replace(standing, seconds=self._seconds)
                start = time.perf_counter()
        yield from self._race(draft)

    def _fresh(self) -> PreTrainedModel:
        """A draft with random weights, the same each time, of the shape of the one that ships."""
        like = _of(self.models.draft)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            draft = type(like)(like.config)
        for weight in draft.parameters():
            weight.data = weight.data.to(like.device, torch.float32)
        return draft

    @property
    def _tokens(self) -> int:
        return ROWS * LENGTH * len(self._written)

    def _hold_back(self) -> Iterator[Standing]:
        """The target's answers to the prompts of the race."""
        settings = Settings(proposer="none", max_new_tokens=TOKENS)
        for number, case in enumerate(shipped([self.kind], HELD_BACK), 1):
            trace = decode(self.models, case.prompt, settings)
            self._answers.append((trace.header.prompt_ids, trace.token_ids))
            yield Standing("reading", 0.0, number / HELD_BACK, 0)

    def _write(self) -> Iterator[Standing]:
        """Text of the target's own, until its share of the time is over."""
        openings = [self.models.codec.encode(text) for text in OPENINGS[self.kind]]
        generator = torch.Generator().manual_seed(0)
        begun, budget = self._seconds, max(1e-9, WRITING * self.budget_s)
        while not self._written or self._seconds < begun + budget:
            since = time.perf_counter()
            for step, batch in enumerate(write(self.models, openings, generator), 1):
                if step == LENGTH:
                    self._written.append(batch)
                if step == LENGTH or time.perf_counter() - since > SLICE_S:
                    tokens = self._tokens + ROWS * (step % LENGTH)
                    yield Standing("writing", 0.0, min(1.0, (self._seconds - begun) / budget), tokens)
                    since = time.perf_counter()

    def _train(self, draft: PreTrainedModel) -> Iterator[Standing]:
        """Training on what was written, over and over, and the draft's score on what was held back."""
        ids, chances, whose = (torch.cat(parts) for parts in zip(*self._written, strict=True))
        own = [not shares(row, self._answers) for row in ids.tolist()]
        ids, chances, whose = ids[own], chances[own], whose[own]
        optimiser, generator = Optimisers(draft, RATES, weight_decay=0.0), torch.Generator().manual_seed(0)
        begun, read, share = self._seconds, 0, 0.0
        budget = max(1e-9, (1.0 - WRITING) * self.budget_s)
        while True:
            yield Standing("training", 0.0, share, read, self.score(_stored(draft)))
            if share == 1.0:
                return
            since, rows = time.perf_counter(), torch.empty(0, dtype=torch.long)
            while share < 1.0 and (inside := time.perf_counter() - since) < SLICE_S and not self.cancelled():
                if len(rows) < BATCH_ROWS:
                    rows = torch.randperm(len(ids), generator=generator)
                now, rows = rows[:BATCH_ROWS], rows[BATCH_ROWS:]
                with torch.enable_grad():
                    guessed = draft(ids[now, :-1], use_cache=False).logits.log_softmax(-1)
                    loss = -(chances[now] * guessed.gather(-1, whose[now])).sum(-1).mean()
                    loss.backward()
                share = min(1.0, (self._seconds + inside - begun) / budget)
                self._steps, read = self._steps + 1, read + len(now) * LENGTH
                optimiser.step(relative_rate(self._steps - 1, share))

    @torch.inference_mode()
    def score(self, draft: PreTrainedModel) -> Score:
        """A draft's rounds on the answers held back."""
        agreements = []
        for prompt, answer in self._answers:
            ids = torch.tensor([[*prompt, *answer[:-1]]], device=draft.device)
            guesses = draft(ids, use_cache=False).logits[0, len(prompt) - 1 :].argmax(-1).tolist()
            agreements.append([guess == token for guess, token in zip(guesses, answer, strict=True)])
        return scored(agreements)

    def _race(self, draft: PreTrainedModel) -> Generator[Report, None, None]:
        """Plain decoding, the draft as it was and the draft as it is, on the prompts held back."""
        weights, usual = _file(draft), self.score(_of(self.models.draft))
        after, before = (
            HubModel("the draft, trained", _stored(draft)),
            HubModel("the draft, before", self._fresh()),
        )
        for side in (after, before):
            side.arrange(steps=True)
        models = replace(self.models, draft=after, larger_draft=before)
        lanes = [
            Settings(
                max_new_tokens=TOKENS,
                draft_length=DRAFT_LENGTH,
                record="tokens",
                proposer=proposer,
                options=options,
            )
            for proposer, options in (("none", {}), ("draft-model", {"draft": "larger"}), ("draft-model", {}))
        ]
        heats: list[Heat] = []
        for prompt, _ in self._answers:
            start = time.perf_counter()
            events = race(models, prompt, lanes, cancelled=self.cancelled)
            found = {event.lane: event.stats for event in events if isinstance(event, Finished)}
            if self.cancelled():
                return
            passes = (found[lane].tokens_per_pass or 1.0 for lane in (1, 2))
            heats.append(Heat(*passes, *(found[lane].decode_s for lane in (1, 2, 0))))
            self._seconds += time.perf_counter() - start
            yield Standing("racing", self._seconds, len(heats) / HELD_BACK, 0)
        yield Distilled(tuple(heats), usual, weights, self._steps, self._tokens)


@torch.inference_mode()
def write(
    models: Models, openings: Sequence[Sequence[int]], generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """What the target writes at temperature 1, from the openings on: one batch, whole after the last of LENGTH steps.

    Yields:
        int64 (ROWS, LENGTH + 1), the tokens, after one that begins a text; float32 (ROWS, LENGTH,
        TOP_PROBABILITIES), the target's greatest probabilities for each token but the first; int64 of the same shape,
        whose they are.
    """
    target = _of(models.target)
    ids = torch.zeros(ROWS, LENGTH + 1, dtype=torch.long)
    ids[:, 0] = models.bos or 0
    shape = (ROWS, LENGTH, TOP_PROBABILITIES)
    chances, whose = torch.zeros(shape), torch.zeros(shape, dtype=torch.long)
    begins = [openings[row % len(openings)][:LENGTH] for row in range(ROWS)]
    cache = DynamicCache(config=target.config)
    for at in range(LENGTH):
        chances[:, at], whose[:, at], tokens = next_tokens(target, ids[:, at : at + 1], cache, generator)
        drawn = tokens[:, 0].tolist()
        ids[:, at + 1] = torch.tensor(
            [begin[at] if at < len(begin) else token for begin, token in zip(begins, drawn, strict=True)]
        )
        yield ids, chances, whose


def shares(row: Sequence[int], answers: Sequence[tuple[Sequence[int], Sequence[int]]]) -> bool:
    """Whether a row has `SHARED` tokens in a row with an answer held back."""

    def runs(ids: Sequence[int]) -> set[tuple[int, ...]]:
        return {tuple(ids[at : at + SHARED]) for at in range(len(ids) - SHARED + 1)}

    own = runs(row)
    return any(own & runs(answer) for _, answer in answers)


def _of(model: object) -> PreTrainedModel:
    assert isinstance(model, HubModel)  # `LiveTraining` refuses others
    return model.model


def _stored(draft: PreTrainedModel) -> PreTrainedModel:
    """A copy with the weights that its file holds: what is scored is what races and what is kept."""
    stored: PreTrainedModel = copy.deepcopy(draft).half().float()
    return stored


def _file(draft: PreTrainedModel) -> bytes:
    """The draft as a safetensors file, in float16, the matrix that embedding and output share once."""
    tied = {"lm_head.weight"} if draft.config.tie_word_embeddings else set()
    weights = {
        name: weight.detach().to("cpu", torch.float16).contiguous()
        for name, weight in draft.state_dict().items()
        if name not in tied
    }
    return save(weights, metadata={"format": "pt"})
