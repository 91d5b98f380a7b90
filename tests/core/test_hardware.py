"""The width curve: measured on readers whose times are known, read between its points, kept as JSON."""

from __future__ import annotations

import gc
import json
import math
import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.runtime.reader import Reader
from specdec_core.runtime.timing import width_curve as hardware
from specdec_core.runtime.timing.width_curve import WidthCurve, known_curve, width_curve
from specdec_core.tree import TokenTree
from specdec_measure.testing import ScriptedModel, ScriptedReader, scripted

from .distributions import wavering
from .tiny import build, like, pair

CURVE = WidthCurve(
    (1, 2, 5, 9), (0.004, 0.0044, 0.0056, 0.012), 0.001, 128, "cpu", "float32", "a machine", "big", "small",
    "2026-01-01T00:00:00+00:00",
)  # fmt: skip


class Clock:
    """In the place of the `time` module: goes on only as passes are read."""

    def __init__(self) -> None:
        self.now = 100.0
        self.passes: list[tuple[int, int]] = []  # width and prefix of each target pass
        self.steps: list[int] = []  # prefix of each draft pass

    def perf_counter(self) -> float:
        return self.now


class Slow(ScriptedModel):
    """One second for a pass of one token, a fifth more for each further one, half a second for a draft step. The
    first passes take ten times as long, and so does every seventh."""

    clock: Clock

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        return SlowReader(self, capacity)


class SlowReader(ScriptedReader):
    model: Slow

    def read(self, root: int, tree: TokenTree, known: int = 0) -> torch.Tensor:
        clock = self.model.clock
        clock.passes.append((len(tree) + 1, self.length))
        count = len(clock.passes)
        clock.now += (1.0 + 0.2 * len(tree)) * (10 if count <= 4 or count % 7 == 0 else 1)
        return torch.zeros(len(tree) + 1, self.vocabulary)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        self.model.clock.now += 0.5
        self.model.clock.steps.append(self.length)
        return super().step(tokens)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(hardware, "time", clock)
    monkeypatch.setattr(Slow, "clock", clock, raising=False)
    return clock


def _slow(draft: bool = True) -> sd.Models:
    models = scripted(lambda context: [0.5, 0.5])
    slow = [Slow(lambda context: [0.5, 0.5], 2, name) for name in ("slow target", "slow draft")]
    return replace(models, target=slow[0], draft=slow[1] if draft else None)


def test_the_curve_of_a_machine_whose_times_are_known(clock: Clock) -> None:
    """Readers that set the clock themselves, with a slow start and slow moments. Catches: widths without the root, a
    prefix that grows, a mean where a median was promised, a warm-up that counts, widths measured one after another."""
    curve = width_curve(_slow(), (1, 2, 6, 11), prefix=7, repeats=5, budget_s=math.inf)
    assert curve.table == pytest.approx({1: 1.0, 2: 1.2, 6: 2.0, 11: 3.0})
    assert curve.draft_s == pytest.approx(0.5)
    assert curve.cost_ratio == pytest.approx(0.5)
    assert clock.passes == [(width, 7) for _ in range(6) for width in (1, 2, 6, 11)]
    assert clock.steps == [7] * 6
    clock.passes.clear()
    once = width_curve(_slow(), (1, 2, 6, 11), prefix=7, repeats=1)
    assert (once.at(1), once.at(2)) == pytest.approx((1.0, 1.2))
    assert (curve.prefix, curve.model, curve.draft) == (7, "slow target", "slow draft")


def test_measuring_keeps_to_its_time(clock: Clock) -> None:
    """Catches: a start that waits for minutes on a large model, and one that does not measure at all."""
    width_curve(_slow(draft=False), (1,), budget_s=50.0)
    assert 50.0 <= clock.now - 100.0 <= 60.0  # the last turn may run over by one pass
    clock.passes.clear()
    curve = width_curve(_slow(draft=False), (3,), budget_s=0.0)
    assert [width for width, _ in clock.passes] == [1, 3, 1, 3]
    assert curve.draft_s is None and curve.cost_ratio is None and curve.draft == ""


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_real_readers_are_measured_after_a_prefix_that_they_can_hold(architecture: str, device: str) -> None:
    """Models of 256 positions: a prefix of 128, every width. Catches: a memory one row too small, and a measuring that
    leaves the lanes' readers changed; the text is the same before and after."""
    models = pair(architecture, device)
    settings = sd.Settings(max_new_tokens=12)
    before = sd.decode(models, [5, 9, 3], settings).token_ids
    curve = width_curve(models, repeats=1, budget_s=0.0)
    assert curve.widths == hardware.WIDTHS and curve.prefix == 128
    assert all(seconds > 0 for seconds in curve.seconds)
    assert curve.cost_ratio == pytest.approx((curve.draft_s or 0) / curve.seconds[0])
    assert (curve.device, curve.dtype, curve.machine) == (device, models.dtype, models.machine)
    assert sd.decode(models, [5, 9, 3], settings).token_ids == before


def test_widths_that_a_short_model_cannot_read_are_left_out() -> None:
    """A model of 32 positions. Catches: position ids beyond the model's table."""
    target = build("opt", max_position_embeddings=32)
    draft = like(target, "opt", max_position_embeddings=32)
    models = replace(pair("opt"), target=HubModel("t", target), draft=HubModel("d", draft))
    curve = width_curve(models, budget_s=0.0)
    assert (curve.prefix, curve.widths) == (16, (1, 2, 3, 5, 9))


def test_a_curve_is_measured_once_per_models_and_forgotten_with_them() -> None:
    """Catches: half a second at every start, another model's curve, and weights that a table keeps alive."""
    models, others = scripted(wavering(3, 1), wavering(3, 2)), scripted(wavering(3, 1))
    first = known_curve(models)
    assert known_curve(models) is first
    assert known_curve(replace(models)) is first  # the same weights in another wrapper
    assert known_curve(replace(models, draft=None)).draft_s is None
    assert known_curve(others) is not first
    target, size = weakref.ref(models.target), len(hardware._measured)
    del models
    gc.collect()
    assert target() is None and len(hardware._measured) == size - 1


def test_between_and_beyond_the_measured_widths() -> None:
    """Against numpy inside, the last slope outside. Catches: the nearest point taken for the line."""
    for tokens in range(1, 10):
        assert CURVE.at(tokens) == pytest.approx(np.interp(tokens, CURVE.widths, CURVE.seconds))
    assert CURVE.at(19) == pytest.approx(0.012 + 10 * 0.0016)
    assert CURVE.ratios == pytest.approx({1: 1.0, 2: 1.1, 5: 1.4, 9: 3.0})
    assert CURVE.cost_ratio == pytest.approx(0.25)
    with pytest.raises(sd.SettingsError):
        CURVE.at(0)


def test_json_gives_back_an_equal_curve() -> None:
    """Catches: tuples that come back as lists, digits lost."""
    for curve in (CURVE, replace(CURVE, draft_s=None, draft="", seconds=(0.1, 0.2, 1 / 3, 0.7))):
        text = curve.to_json()
        assert WidthCurve.from_json(text) == WidthCurve.from_json(text.encode()) == curve
        assert isinstance(WidthCurve.from_json(text).widths, tuple)


@pytest.mark.parametrize(
    "change",
    [
        {"widths": [1, 2, 5]},
        {"widths": [1, 5, 2, 9]},
        {"widths": [2, 3, 5, 9]},
        {"widths": []},
        {"seconds": [0.004, 0.0044, 0.0056, 0.0]},
        {"seconds": [0.004, 0.0044, 0.0056, float("nan")]},
        {"draft_s": -1.0},
        {"machine": None},
        {"further": 1},
        {"model": "x" * 501},
    ],
)
def test_a_damaged_profile_is_refused_in_one_sentence(change: dict[str, Sequence[float]]) -> None:
    """Catches: a recorded curve that would be drawn, and paid by, as it stands."""
    text = json.dumps(json.loads(CURVE.to_json()) | change)
    with pytest.raises(sd.SettingsError, match=r"^This is not a recorded width curve: .*\.$") as caught:
        WidthCurve.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "no", b"\xff", '{"widths": [1]}'])
def test_what_is_no_profile_is_refused_in_one_sentence(text: str | bytes) -> None:
    """Catches: a traceback from the JSON reader."""
    with pytest.raises(sd.SettingsError, match="This is not a recorded width curve"):
        WidthCurve.from_json(text)


def test_a_number_out_of_range_is_refused() -> None:
    """Catches: a negative prefix or width that fails deep inside a model."""
    for values in ({"widths": (0, 1)}, {"prefix": -1}, {"repeats": 0}, {"budget_s": -1.0}):
        with pytest.raises(sd.SettingsError, match="A width curve needs"):
            width_curve(_slow(), **values)  # type: ignore[arg-type]
