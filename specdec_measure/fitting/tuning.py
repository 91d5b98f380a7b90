"""The draft that was loaded, trained a little further on what the target answers to some of the person's own prompts.

The target answers each of these prompts again and again, once greedily and otherwise at temperature 1, and of its
probabilities the likeliest are kept with each token. The draft learns these, from its own weights on. It is saved as a
folder that `load_models(draft=…)` takes, and loaded from there: what is measured is what was saved.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.engine.prompt import read_prompt
from specdec_core.models.bundle import HubModel, Models, NarrowModel
from specdec_core.models.files.hub import load_model
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_core.settings import Settings
from specdec_measure.optimisation import BATCH_ROWS, next_tokens, relative_rate
from specdec_measure.sweep.cases import Case

from .bench import FitStopped

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

NAME = "draft"
MIN_TRAINING_S = 30.0  # below it a draft learns nothing that is worth the time
MIN_STEPS = 10  # of a training: with fewer it is not taken
WRITING = 0.5  # of the time; the rest is training
ROWS = 8  # answers to a prompt at a time, the first of them greedy
LENGTH = 96  # tokens of an answer, at the most
PEAK_RATE = 3e-4
MAX_DRAFT_SHARE = 0.5  # of the target's parameters: a larger draft is no draft, and trains too slowly


@dataclass(frozen=True, slots=True)
class Answers:
    """What the target wrote to one prompt.

    Attributes:
        ids: int64 (rows, prompt + length), prompt and answers.
        chances, whose: float32 and int64 (rows, length, TOP_PROBABILITIES), the target's greatest
            probabilities for each token of the answers, and of which tokens they are.
        judged: bool (rows, length), false after the end of a text.
    """

    ids: Tensor
    chances: Tensor
    whose: Tensor
    judged: Tensor


def why_not(models: Models) -> str | None:
    """Why the draft of these models is not trained, as a sentence; None where it can be."""
    draft = models.draft.model if isinstance(models.draft, NarrowModel) else models.draft
    if draft is None:
        return "No draft was loaded that could be trained further."
    if not isinstance(draft, HubModel) or not isinstance(models.target, HubModel):
        return "A draft is trained further only where it and the target are causal language models."
    if not isinstance(models.codec, HubCodec):
        return "A draft is saved with a tokenizer of transformers, and these models have none."
    if draft.info.parameters > MAX_DRAFT_SHARE * models.target.info.parameters:
        return f"'{draft.info.name}' has more than half of the target's parameters, which is too many to train here."
    return None


@dataclass(slots=True)
class Tuning:
    """One training. `say` receives the progress in words.

    Attributes:
        report: seconds, tokens written, steps and the loss before and after; after `run`.
    """

    models: Models
    settings: Settings
    cancelled: Callable[[], bool]
    say: Callable[[str], None]
    report: dict[str, Any] = field(default_factory=dict)

    def run(self, cases: Sequence[Case], folder: Path, seconds: float) -> None:
        """Write, train and save; nothing is saved where the machine was too slow for a training (see `report`).

        Raises:
            Stopped: nothing is saved.
        """
        began = time.monotonic()
        answers = list(self.written(cases, began + WRITING * seconds))
        draft = self._copy()
        steps, losses = self._train(draft, answers, began + seconds)
        if steps < MIN_STEPS:
            self.report["why_not"] = (
                f"In the time there was, the draft was trained for {steps} step{'s' if steps != 1 else ''}, too few to "
                "pay."
            )
            return
        save(draft, self.models, folder)
        self.report |= {
            "seconds": round(time.monotonic() - began, 1),
            "prompts": len({case.prompt for case in cases}),
            "tokens": sum(int(one.judged.sum()) for one in answers),
            "steps": steps,
            "loss": [round(sum(part) / max(1, len(part)), 4) for part in (losses[:10], losses[-10:])],
        }

    def _copy(self) -> PreTrainedModel:
        """A draft with the loaded one's weights, in float32."""
        like = _hub(self.models.draft).model
        with torch.random.fork_rng(devices=[]):
            draft = type(like)(like.config)
        draft.load_state_dict(like.state_dict())
        for weight in draft.parameters():
            weight.data = weight.data.to(like.device, torch.float32)
        return draft

    def written(self, cases: Sequence[Case], until: float) -> Iterator[Answers]:
        """The target's answers, each prompt in turn, until the time is over; at least one prompt's."""
        generator, written, turn = torch.Generator().manual_seed(0), 0, 0
        while True:
            for case in cases:
                if turn and time.monotonic() >= until:
                    return
                _, prompt = read_prompt(self.models, case.asked)
                self.say(f"the target answers '{case.name}', {written:,} tokens so far")
                found = self._answer(prompt, generator, until)
                written += int(found.judged.sum())
                turn += 1
                yield found

    @torch.inference_mode()
    def _answer(self, prompt: Sequence[int], generator: torch.Generator, until: float) -> Answers:
        """Answers to one prompt, cut off where the time is over."""
        from transformers import DynamicCache

        target = _hub(self.models.target).model
        length = min(LENGTH, self.settings.max_new_tokens)
        ids = torch.tensor([prompt] * ROWS)
        cache, read = DynamicCache(config=target.config), ids
        chances, whose, judged = [], [], []
        going = torch.ones(ROWS, dtype=torch.bool)
        ends = torch.tensor(sorted(self.models.eos), dtype=torch.long)
        for _ in range(length):
            if self.cancelled():
                raise FitStopped
            values, tokens, drawn = next_tokens(target, read, cache, generator)
            drawn[0] = tokens[0, 0]
            chances.append(values)
            whose.append(tokens)
            judged.append(going.clone())
            going &= ~torch.isin(drawn[:, 0], ends)
            ids, read = torch.cat((ids, drawn), 1), drawn
            if not going.any() or time.monotonic() >= until:
                break
        return Answers(ids, torch.stack(chances, 1), torch.stack(whose, 1), torch.stack(judged, 1))

    def _train(
        self, draft: PreTrainedModel, answers: Sequence[Answers], until: float
    ) -> tuple[int, list[float]]:
        """Over all answers again and again, until the time is over; the steps and their losses."""
        own = _Own.of(self.models)
        optimiser = torch.optim.AdamW(draft.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.0)
        generator = torch.Generator().manual_seed(0)
        losses: list[float] = []
        queue: list[tuple[int, Tensor]] = []
        began = time.monotonic()
        while (now := time.monotonic()) < until or not losses:
            if self.cancelled():
                raise FitStopped
            if not queue:
                queue = _batches(answers, generator)
            number, rows = queue.pop()
            with torch.enable_grad():
                loss = own.loss(draft, answers[number], rows)
                loss.backward()
            share = min(1.0, (now - began) / max(1e-9, until - began))
            optimiser.param_groups[0]["lr"] = PEAK_RATE * relative_rate(len(losses), share)
            torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            losses.append(float(loss.detach()))
            self.say(f"step {len(losses)}, loss {losses[-1]:.2f} nats per token")
        return len(losses), losses


@dataclass(frozen=True, slots=True)
class _Own:
    """The draft's own names of the target's tokens.

    Attributes:
        names: int64 (V,), the draft's token for each of the target's.
        known: how many of the draft's logits are of the target's tokens.
    """

    names: Tensor
    known: int

    @classmethod
    def of(cls, models: Models) -> _Own:
        draft, size = models.draft, models.target.vocabulary
        if not isinstance(draft, NarrowModel):
            assert draft is not None
            return cls(torch.arange(size).clamp(max=draft.vocabulary - 1), min(size, draft.vocabulary))
        names = torch.full((size,), len(draft.ids))
        names[draft.ids] = torch.arange(len(draft.ids))
        return cls(names, len(draft.ids))

    def loss(self, draft: PreTrainedModel, answers: Answers, rows: Tensor) -> Tensor:
        """Cross-entropy with what was kept of the target's distribution, in nats per token of the answers."""
        device = draft.device
        ids = self.names[answers.ids[rows, :-1]].to(device)
        length = answers.chances.shape[1]
        logits = draft(ids, use_cache=False).logits[:, -length:, : self.known].float().log_softmax(-1)
        whose = self.names[answers.whose[rows]]
        inside = whose < self.known
        chances = torch.where(inside, answers.chances[rows], 0.0).to(device)
        guessed = logits.gather(-1, whose.clamp(max=self.known - 1).to(device))
        judged = answers.judged[rows].to(device)
        found: Tensor = -(chances * guessed).sum(-1)[judged].mean()
        return found


def save(draft: PreTrainedModel, models: Models, folder: Path) -> None:
    """Write the draft as a folder in transformers' layout, whole or not at all."""
    assert isinstance(models.codec, HubCodec)
    beside = folder.with_name(folder.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)  # of a fit that ended before it noted this
    draft.half().save_pretrained(beside)
    models.codec.tokenizer.save_pretrained(beside)
    if isinstance(models.draft, NarrowModel):
        draft_vocabulary.write(beside, models.draft.ids, models.codec.tokenizer)
    beside.rename(folder)


def load(models: Models, folder: Path) -> Models:
    """The models with the saved draft in place of theirs."""
    device = torch.device(_hub(models.target).model.device)
    dtype = _hub(models.draft).model.dtype
    trained = HubModel("tuned draft", load_model(str(folder), device, dtype))
    trained.arrange(steps=True)
    if isinstance(models.draft, NarrowModel):
        return replace(models, draft=NarrowModel(trained, models.draft.ids, models.draft.vocabulary))
    return replace(models, draft=trained)


def _batches(answers: Sequence[Answers], generator: torch.Generator) -> list[tuple[int, Tensor]]:
    order = torch.randperm(len(answers), generator=generator).tolist()
    return [(number, rows) for number in order for rows in torch.arange(ROWS).split(BATCH_ROWS)]


def _hub(model: object) -> HubModel:
    inner = model.model if isinstance(model, NarrowModel) else model
    assert isinstance(inner, HubModel)  # `why_not` refuses others
    return inner
