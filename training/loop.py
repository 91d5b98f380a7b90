"""How does a training run work? The loop shared by pretraining, distillation and heads: budget, log, checkpoints."""

from __future__ import annotations

import json
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from tqdm import tqdm

from specdec_measure.optimisation import Optimisers, Rates, is_matrix, relative_rate
from training.batches import Batches
from training.checkpoints import latest_checkpoint, load_optimisers, load_state, load_weights, save_checkpoint
from training.data.mix import FOCUS
from training.model import SmallLlama
from training.results.evaluate import family_losses, heldout_rows


@dataclass(frozen=True)
class Plan:
    """Budget and logging of one run. Budgets: active minutes, tokens, or whichever ends first."""

    minutes: float | None = None
    tokens: int | None = None
    context: int = 1024
    batch: int = 8
    seed: int = 0
    warmup_steps: int = 100
    decay_share: float = 0.3
    checkpoint_every: int = 100
    evaluate_every: int = 500
    heldout_per_source: int = 4
    rates: Rates = field(default_factory=Rates)
    stop_after_steps: int | None = None
    focus: bool = False
    unrepeat: tuple[str, ...] = ()
    """Families whose rows are trained against falling into loops; see `pretrain.repeat_penalty`."""

    def progress(self, seconds: float, tokens: int) -> float:
        """Spent share of the budget, 0 to 1 or above."""
        shares = [seconds / 60 / self.minutes] if self.minutes else []
        shares += [tokens / self.tokens] if self.tokens else []
        if not shares:
            raise ValueError("A run needs a budget: give --minutes or --tokens.")
        return max(shares)


class ActiveClock:
    """Seconds spent in steps; a pause of the process (SIGSTOP) counts as no more than three usual steps."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.recent: list[float] = []

    def add(self, elapsed: float) -> None:
        """Count one step of `elapsed` seconds."""
        usual = statistics.median(self.recent) if len(self.recent) >= 5 else float("inf")
        self.recent = [*self.recent[-20:], elapsed]
        self.seconds += min(elapsed, 3 * usual)


class StopRequest:
    """Turns SIGTERM and SIGINT into a clean stop after the current step (with a checkpoint)."""

    wanted = False

    def __enter__(self) -> StopRequest:
        self._before = {number: signal.signal(number, self) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.wanted = True


def append_log(run: Path, row: dict[str, Any]) -> None:
    """Append one JSON line to the run's loss log."""
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def train(
    run: Path,
    model: SmallLlama,
    objective: Callable[..., Tensor],
    data: Path,
    plan: Plan,
    start_weights: dict[str, Tensor] | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train a language model until the budget is spent, from the run's latest checkpoint if it has one.

    `objective` maps int64 ids [batch, context + 1] to the loss (a scalar, nats per token); where the plan names
    families for `unrepeat`, its second argument is 1.0 for their rows and 0.0 for others, [batch]. Returns the
    counters.
    """
    batches = Batches(data, plan.context, plan.batch, plan.seed, FOCUS if plan.focus else None)
    rows = heldout_rows(data, plan.context + 1, plan.heldout_per_source)

    def logits_of(ids: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            out: Tensor = model(ids.to(device))
        return out.cpu()

    def losses() -> dict[str, float]:
        model.eval()
        found = {family: round(x, 4) for family, x in family_losses(logits_of, rows).items()}
        model.train()
        return found

    def marked(ids: Tensor) -> Tensor:
        rows = [float(family in plan.unrepeat) for family in batches.drawn]
        return objective(ids, torch.tensor(rows, device=ids.device))

    facts = {"shape": model.shape.to_dict()}
    objective_of = marked if plan.unrepeat else objective
    return steps(run, model, objective_of, batches, losses, plan, facts, start_weights, device=device)


class Source(Protocol):
    """Where the rows of a step come from; its counters go into the checkpoint."""

    def next(self) -> Tensor:
        """The next batch: int64 [batch, context + 1]."""
        ...

    def state(self) -> dict[str, Any]:
        """Counters to store in a checkpoint."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from stored counters."""
        ...


def steps(
    run: Path,
    model: nn.Module,
    objective: Callable[[Tensor], Tensor],
    batches: Source,
    evaluate: Callable[[], dict[str, Any]],
    plan: Plan,
    facts: dict[str, Any],
    start_weights: dict[str, Tensor] | None = None,
    parts_weights: Tensor | Callable[[float], Tensor] | None = None,
    matrices: Callable[[str, Tensor], bool] = is_matrix,
    device: str = "cpu",
    size: Callable[[Tensor], int] = lambda ids: ids.shape[0] * (ids.shape[1] - 1),
) -> dict[str, Any]:
    """Train any module until the budget is spent, from the run's latest checkpoint if it has one; returns the counters.

    `objective` maps ids to the loss, or to its parts, weighted by `parts_weights`, which may depend on the spent share
    of the budget; `evaluate` returns what the log reports on held-out text; `facts` describe the module in the
    checkpoint; `size` counts a batch's tokens.
    """
    run.mkdir(parents=True, exist_ok=True)
    optimisers = Optimisers(model, plan.rates, matrices)
    state: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0, **facts}
    state = _resumed(run, model, optimisers, batches, start_weights) or state
    clock, taken = ActiveClock(state["seconds"]), 0
    share = min(100.0, 100 * plan.progress(clock.seconds, state["tokens"]))

    def store() -> None:
        state.update(seconds=clock.seconds, data=batches.state())
        save_checkpoint(run, model, optimisers.state_dict(), state)

    with StopRequest() as stop, tqdm(total=100.0, initial=share, unit="%") as bar:
        while True:
            progress = plan.progress(clock.seconds, state["tokens"])
            if progress >= 1 or stop.wanted or taken == plan.stop_after_steps:
                break
            start = time.perf_counter()
            rate = relative_rate(state["step"], progress, plan.warmup_steps, plan.decay_share)
            ids = batches.next().to(device)
            weights = parts_weights(progress) if callable(parts_weights) else parts_weights
            parts = objective(ids)
            value = _learn(
                model, parts if weights is None else parts * weights, optimisers, rate, state["step"]
            )
            state["step"] += 1
            state["tokens"] += size(ids)
            taken += 1
            clock.add(time.perf_counter() - start)
            if state["step"] % 10 == 0:
                state["seconds"] = clock.seconds
                bar.n = min(100.0, round(100 * plan.progress(clock.seconds, state["tokens"]), 1))
                _log(run, state, value, parts, rate, bar)
            if state["step"] % plan.evaluate_every == 0:
                append_log(run, {"step": state["step"], "tokens": state["tokens"], "heldout": evaluate()})
            if state["step"] % plan.checkpoint_every == 0:
                store()
    store()
    return state


def _learn(model: nn.Module, parts: Tensor, optimisers: Optimisers, rate: float, step: int) -> float:
    """A step down the sum of the loss's parts, which is returned.

    Raises:
        ValueError: if it is no number.
    """
    loss = parts.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimisers.step(rate)
    value = float(loss.item())
    if value != value:
        raise ValueError(f"The loss became not-a-number at step {step}: lower the learning rates.")
    return value


def _log(run: Path, state: dict[str, Any], loss: float, parts: Tensor, rate: float, bar: tqdm[Any]) -> None:
    """A row of the run's log, and the same beside the bar."""
    row = {"step": state["step"], "tokens": state["tokens"], "seconds": round(state["seconds"], 1)}
    row |= {"loss": round(loss, 4), "rate": round(rate, 4)}
    shown = f"{loss:.3f}"
    if parts.numel() > 1:
        row["parts"] = [round(part, 4) for part in parts.tolist()]
        shown += " (" + " ".join(f"{part:.2f}" for part in row["parts"]) + ")"
    append_log(run, row)
    bar.set_postfix(loss=shown, step=state["step"], tokens=f"{state['tokens'] / 1e6:.2f}M")
    bar.refresh()


def _resumed(
    run: Path, model: nn.Module, optimisers: Optimisers, batches: Source, start: dict[str, Tensor] | None
) -> dict[str, Any] | None:
    """The counters of the run's latest checkpoint, all restored from it; None where there is none, with the weights of
    `start`, if given."""
    checkpoint = latest_checkpoint(run)
    if checkpoint is None:
        if start is not None:
            model.load_state_dict(start)
        return None
    state: dict[str, Any] = load_state(checkpoint)
    model.load_state_dict(load_weights(checkpoint))
    optimisers.load_state_dict(load_optimisers(checkpoint))
    batches.restore(state["data"])
    return state
