"""How the machine is used: packed products that are still the same products, and the threads that were chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

import specdec_core as sd
from specdec_core.columns.recorder import Recorder
from specdec_core.models.bundle import HubModel, Models
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.runtime import cpu_linear
from specdec_core.runtime.cpu_linear import arrange, copied_bytes
from specdec_core.runtime.machine import threads
from specdec_core.runtime.reader import CausalReader
from specdec_core.runtime.thread_tuner import ThreadTuner

from .tiny import ARCHITECTURES, PROMPTS, build, pair
from .trees import largest_difference

needs_halves = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rearranged_products_are_the_same_products(architecture: str, replace: bool, bits: int) -> None:
    """1 to 20 tokens in a pass. Catches: a bias that is forgotten, a shape that is not served. Tolerance 1e-5."""
    plain, packed = (stored(build(architecture), bits) for _ in range(2))
    arrange(packed, replace=replace)
    if torch.backends.mkldnn.is_available():
        assert copied_bytes(packed) > 0
    for size in (1, 2, 7, 20):
        ids = torch.arange(size).unsqueeze(0) + 3
        with torch.inference_mode():
            assert largest_difference(plain(ids).logits, packed(ids).logits) <= 1e-5


def stored(model: PreTrainedModel, bits: int) -> PreTrainedModel:
    """In float32, with weights that came from a file of so many bits."""
    return model.half().float() if bits == 16 else model


@needs_halves
def test_a_row_of_halves_does_not_depend_on_the_others() -> None:
    """Bit by bit, in passes of 1 to 70 tokens and on one thread and two. Catches: a text that changes with the width
    of a pass, which no tolerance would excuse here."""
    layer = torch.nn.Linear(576, 300).half().float()
    rows = torch.randn(70, 576)
    assert arrange(layer) == 1 and copied_bytes(layer) == layer.weight.nbytes // 2
    with torch.inference_mode():
        whole = layer(rows)
        assert torch.equal(layer(rows[0]), whole[0]) and torch.equal(layer(rows[None])[0], whole)
        assert all(torch.equal(layer(rows[:count]), whole[:count]) for count in range(71))
        with threads(1):
            assert torch.equal(layer(rows), whole)


@needs_halves
@pytest.mark.parametrize(
    ("change", "halves"),
    [
        (lambda weight: weight, True),
        (lambda weight: weight[0, 0].fill_(1 + 2**-20), False),
        (lambda weight: weight[0, 0].fill_(70_000.0), False),
        (lambda weight: weight[0, 0].fill_(float("nan")), False),
        (lambda weight: weight[0, 0].fill_(2.0**-30), True),  # below the rounding of any sum it is part of
        (lambda weight: weight.mul_(2.0**-20), False),
    ],
    ids=["exact", "finer", "too large", "not a number", "lost in rounding", "all too small"],
)
def test_only_weights_that_16_bits_hold_are_kept_so(change: Callable[[Tensor], Tensor], halves: bool) -> None:
    """Catches: a model that is quietly rounded."""
    layer = torch.nn.Linear(64, 32).requires_grad_(False).half().float()
    change(layer.weight)
    arrange(layer)
    assert (copied_bytes(layer) == layer.weight.nbytes // 2) is halves


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_of_a_large_model_are_not_held_twice(
    tied: bool, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a target that takes twice its size, and a tied output matrix taken away from the embedding."""
    monkeypatch.setattr(cpu_linear, "SMALL_BYTES", 0)
    model = stored(build("llama", tie_word_embeddings=tied), bits)
    sizes = {name: weight.shape for name, weight in model.named_parameters()}
    before = copied_bytes(model)
    arrange(model)
    held = {name for name, weight in model.named_parameters() if weight.device.type != "meta"}
    assert not any("proj" in name for name in held)
    assert "model.embed_tokens.weight" in held and ("lm_head.weight" in held) is False
    assert model.get_output_embeddings().weight.is_meta is not tied
    assert {name: weight.shape for name, weight in model.named_parameters()} == sizes
    assert before == 0 < copied_bytes(model)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_by_columns_stay(tied: bool) -> None:
    """Every weight keeps its values. Catches: an embedding that is stored by columns, where a token's row is to be
    found in one place; memory that the ledger forgets."""
    model, before = (build("llama", tie_word_embeddings=tied) for _ in range(2))
    arrange(model, steps=True)
    for (name, weight), (_, old) in zip(model.named_parameters(), before.named_parameters(), strict=True):
        assert torch.equal(weight, old)
        assert weight.is_contiguous() is ("proj" not in name and "lm_head" not in name), name
    assert copied_bytes(model) == (before.get_output_embeddings().weight.nbytes if tied else 0)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("lean", [False, True])
def test_the_second_copy_of_small_weights_is_counted(lean: bool, bits: int) -> None:
    """A small target has its weights and a packed copy; joined products count once. Catches: a ledger that shows half
    of what is held."""
    model = HubModel("tiny", stored(build("llama", tie_word_embeddings=False), bits), lean=lean)
    model.arrange()
    linears = [module for module in model.model.modules() if isinstance(module, torch.nn.Linear)]
    assert copied_bytes(model.model) == sum(module.weight.nbytes for module in linears) * bits // 32
    assert all(not module.weight.is_meta for module in linears)


def test_what_cannot_be_packed_is_left_as_it_is() -> None:
    """Other dtypes have no packed product here. Catches: a ledger that shows copies which do not exist, and parts of a
    joined product that compute the whole."""
    assert arrange(build("llama").to(torch.bfloat16)) == 0
    model = HubModel("tiny", build("llama").to(torch.bfloat16))
    assert model.lean is not None
    for steps in (False, True):
        model.arrange(steps)
        assert copied_bytes(model.model) == 0
        assert not any("forward" in vars(module) for module in model.model.modules())


def test_a_draft_has_its_weights_once() -> None:
    """Catches: a draft of a gigabyte that takes two, which the check before loading does not count."""
    model = HubModel("tiny", build("llama", tie_word_embeddings=False))
    model.arrange(steps=True)
    assert copied_bytes(model.model) == 0


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As if nobody had chosen a number for torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_all_of_a_decode_runs_on_the_models_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes, judging, and describing what was recorded, the last rounds included; afterwards torch's setting is as it
    was found. Catches: a phase left outside, which on a busy machine takes a hundred times as long."""
    models = replace(pair("llama"), threads=1)
    seen: dict[str, set[int]] = {"call": set(), "judge": set(), "describe": set()}

    def watch(kind: type, name: str, key: str) -> None:
        original = getattr(kind, name)

        def watched(*args: object) -> object:
            seen[key].add(torch.get_num_threads())
            return original(*args)

        monkeypatch.setattr(kind, name, watched)

    watch(CausalReader, "_call", "call")
    watch(SpeculativeSampling, "judge_greedy", "judge")
    watch(Recorder, "_describe", "describe")
    for event in sd.stream(models, PROMPTS[0], sd.Settings(max_new_tokens=60)):
        assert torch.get_num_threads() == 2, f"left changed after {type(event).__name__}"
    assert seen == {"call": {1}, "judge": {1}, "describe": {1}}


@pytest.mark.usefixtures("two_threads")
def test_a_decode_follows_its_crew(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the round after the tuner gave way. Catches: a choice that no pass obeys, passes that it is not told of."""
    tuner, told, seen = ThreadTuner(2), [], []
    observe, original = tuner.observe, CausalReader._call

    def observed(width: int, seconds: float, count: int) -> None:
        told.append((width, count))
        observe(width, 0.01 if len(told) < 3 else 0.1, count)

    def call(*args: object) -> object:
        seen.append(torch.get_num_threads())
        return original(*args)

    monkeypatch.setattr(tuner, "observe", observed)
    monkeypatch.setattr(Models, "thread_tuner", tuner)
    monkeypatch.setattr(CausalReader, "_call", call)
    sd.decode(replace(pair("llama"), threads=2), PROMPTS[0], sd.Settings(proposer="none", max_new_tokens=8))
    assert told == [(1, 2)] * 4 + [(1, 1)] * 4
    assert seen[1:] == [2] * 4 + [1] * 4, "after the prompt"


def test_a_small_model_takes_one_thread_and_a_large_one_what_torch_had() -> None:
    """In a process of its own on two threads, asked from a new thread while a run of a small model holds torch to one.
    Catches: a large model that stays on one thread for life because of what ran while it was loaded."""
    script = """
import torch
from concurrent.futures import ThreadPoolExecutor
from specdec_core.runtime.machine import fitting_threads, threads

with threads(1), ThreadPoolExecutor(1) as worker:
    print([worker.submit(fitting_threads, torch.device("cpu"), size).result() for size in (8_000_000, 8_000_000_000)])
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[1, 2]"
