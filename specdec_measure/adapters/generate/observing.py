"""One assisted `generate` of transformers while it runs: what was drafted, what the target said, what was kept, when.

Nothing of transformers is copied. The candidate generator that `generate` makes for itself is asked as before; its two
methods also report here, and hooks on the models' forward passes keep the logits. Time spent here is off the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from specdec_core.foundations.errors import SettingsError
from specdec_core.sampling import Warp

from .keeping import Observed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The generators whose candidates are one chain of the target's tokens, and the proposers that do the same here.
PROPOSERS = {
    "AssistedCandidateGenerator": "draft-model",
    "EarlyExitCandidateGenerator": "early-exit",
    "PromptLookupCandidateGenerator": "prompt-lookup",
}


@dataclass(slots=True)
class Setup:
    """How `generate` was set up: its own configuration, the candidate generator it made, and the prompt."""

    config: Any
    generator: Any
    prompt: list[int]
    penalties: list[Any]  # what changes the logits by the text so far, before temperature and cuts

    @property
    def warp(self) -> Warp:
        """What `generate` does to the logits after penalties."""
        config = self.config
        if not config.do_sample:
            return Warp()
        return Warp(config.temperature or 1.0, config.top_k or 0, config.top_p or 1.0, config.min_p or 0.0)

    @property
    def proposer(self) -> str:
        """The proposer here that does the same."""
        return PROPOSERS[type(self.generator).__name__]

    @property
    def first_length(self) -> int:
        """How many tokens are drafted in the first round, at most."""
        length = getattr(self.generator, "num_assistant_tokens", None) or self.config.prompt_lookup_num_tokens
        return int(length)


class Observer:
    """Watches one call of `generate`; `then` receives each round as soon as its last time is known."""

    def __init__(
        self, model: PreTrainedModel, draft: PreTrainedModel | None, then: Callable[[Observed], None]
    ) -> None:
        self.model, self.draft, self.then = model, draft, then
        self.setup: Setup | None = None
        self._phase: Literal["", "draft", "verify"] = ""
        self._rows: list[Tensor] = []
        self._logits: Tensor | None = None
        self._marks: list[float] = []
        self._proposed: tuple[list[int], Tensor | None] = ([], None)
        self._length = 0
        self._round: Observed | None = None
        self._began: float | None = None
        self._away = 0.0  # seconds spent here

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While `generate` runs."""
        models = [self.model] if self.draft in (None, self.model) else [self.model, self.draft]
        hooks = [model.register_forward_hook(self._forward) for model in models if model is not None]
        model: Any = self.model  # whose attributes torch types as tensors
        make = model._get_candidate_generator

        def made(*args: Any, **kwargs: Any) -> Any:
            generator = make(*args, **kwargs)
            self._watch(generator, kwargs)
            return generator

        # An attribute of this one object; the class keeps its method.
        model._get_candidate_generator = made
        try:
            yield
            self._end_round()
        finally:
            del model._get_candidate_generator
            for hook in hooks:
                hook.remove()

    def _watch(self, generator: Any, kwargs: dict[str, Any]) -> None:
        kind, config = type(generator).__name__, kwargs["generation_config"]
        if kind not in PROPOSERS:
            raise SettingsError(
                f"generate drafts with its {kind} here, whose rounds are not recorded; an assistant model with the "
                "same tokenizer, an early exit and prompt lookup are."
            )
        if config.assistant_ensemble_weight is not None:
            raise SettingsError("Rounds with an assistant_ensemble_weight are not recorded; leave it out.")
        penalties = [one for one in kwargs["logits_processor"] if not type(one).__name__.endswith("Warper")]
        self.setup = Setup(config, generator, kwargs["input_ids"][0].tolist(), penalties)
        get, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(input_ids: Tensor, **more: Any) -> Any:
            self._begin_round(input_ids)
            ids, scores = get(input_ids, **more)
            self._drafted(ids, scores)
            return ids, scores

        def update_candidate_strategy(input_ids: Tensor, scores: Tensor, num_matches: Any) -> None:
            self._judged(input_ids, scores)
            update(input_ids, scores, num_matches)

        generator.get_candidates = get_candidates
        generator.update_candidate_strategy = update_candidate_strategy

    def _begin_round(self, ids: Tensor) -> None:
        self._end_round()
        self._marks = [self._now()]
        self._phase, self._rows, self._logits, self._length = "draft", [], None, ids.shape[1]

    def _drafted(self, ids: Tensor, scores: Tensor | None) -> None:
        self._marks.append(self._now())
        with self._off_the_clock():
            self._phase = "verify"
            self._proposed = (
                ids[0, self._length :].tolist(),
                None if scores is None else scores[0].float().clone(),
            )

    def _forward(self, module: Any, _inputs: Any, output: Any) -> None:
        """A model has finished a pass: the draft's last row is what it draws from, of the target's all count."""
        if not self._phase:
            return
        now = self._now()
        with self._off_the_clock():
            if self._phase == "draft":
                self._rows.append(output.logits[0, -1].float().clone())
            elif module is self.model:
                self._marks.append(now)
                self._logits = output.logits[0, -len(self._proposed[0]) - 1 :].float().clone()

    def _judged(self, ids: Tensor, scores: Tensor) -> None:
        self._marks.append(self._now())
        with self._off_the_clock():
            candidates, q = self._proposed
            assert self._logits is not None
            complete = len(self._rows) == len(candidates) > 0 and self._rows[0].shape == self._logits[0].shape
            self._round = Observed(
                start_s=self._marks[0], candidates=candidates, committed=ids[0, self._length :].tolist(),
                logits=self._logits, scores=scores[0].clone(),
                drafted=torch.stack(self._rows).to(self._logits.device) if complete else None,
                q=None if q is None else q.to(self._logits.device), draft_passes=len(self._rows),
                penalised=self._penalised(ids[0, : self._length], scores[0]),
            )  # fmt: skip
            self._phase = ""

    def _penalised(self, before: Tensor, scores: Tensor) -> Tensor | None:
        """The target's logits after penalties, row by row of the pass; greedy `scores` are just these."""
        assert self.setup is not None and self._logits is not None
        if not self.setup.penalties:
            return None
        if self.setup.warp.greedy:
            return scores.clone()
        text = torch.cat([before, before.new_tensor(self._proposed[0])])
        rows = []
        for at, row in enumerate(self._logits):
            penalised = row.unsqueeze(0).clone()
            for penalty in self.setup.penalties:
                penalised = penalty(text[: len(before) + at].unsqueeze(0), penalised)
            rows.append(penalised[0])
        return torch.stack(rows)

    def _end_round(self) -> None:
        if self._round is None:
            return
        self._marks.append(self._now())
        with self._off_the_clock():
            marks, done = self._marks, self._round
            done.seconds = [end - start for start, end in pairwise(marks)]
            self._round = None
            self.then(done)

    def _now(self) -> float:
        """Seconds since the first round began, without what was spent here."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        now = time.perf_counter()
        if self._began is None:
            self._began = now
        return now - self._began - self._away

    @contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._away += time.perf_counter() - began
