"""The compiled kernels: every row for itself, the same on every processor and with any number of threads; and the
models that run on them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM
from transformers.models.qwen3 import Qwen3ForCausalLM

import specdec_core as sd
from app.choosing import defaults
from specdec_core.engine import choice
from specdec_core.models import catalogue
from specdec_core.models.bundle import HubModel
from specdec_core.record.schema import ModelInfo
from specdec_core.runtime.compiled import library, products
from specdec_core.runtime.reader import CausalReader
from specdec_core.tree import TokenTree
from specdec_measure.testing import scripted

pytestmark = pytest.mark.skipif(library.library() is None, reason="no build for this processor")

SIZES = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 256,
}  # fmt: skip
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),  # biases
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)),  # norms of queries and keys
}


@pytest.fixture
def threads() -> Iterator[None]:
    """torch's number of threads is put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layer(out: int, inputs: int, bias: bool = False) -> nn.Linear:
    """A linear layer whose weights float16 holds."""
    made = nn.Linear(inputs, out, bias=bias).requires_grad_(False)
    made.weight.copy_(made.weight.half())
    return made


def exact(module: nn.Linear, rows: Tensor) -> Tensor:
    """What 8 bits are to compute, in float64: whole levels of weights times two terms of the rows."""
    levels, sizes = products.rounded8(module.weight)
    largest = rows.abs().amax(1, keepdim=True)
    scaled = rows * torch.where(largest > 0, 127 / largest, 0)
    coarse = scaled.round()
    rest = ((scaled - coarse) * 254).round()
    weights = levels.double() * sizes.double().repeat_interleave(levels.shape[1] // sizes.shape[1], 1)
    found = (coarse.double() + rest.double() / 254) @ weights.T * (largest.double() / 127)
    return found if module.bias is None else found + module.bias.double()


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("out", "inputs", "bias"), [(16, 16, False), (48, 80, True), (160, 576, False)])
def test_a_product_is_right(bits: int, out: int, inputs: int, bias: bool) -> None:
    """Catches: weights packed in another order than they are read, a forgotten offset, scale or bias, rows mixed up."""
    torch.manual_seed(out)
    module, rows = layer(out, inputs, bias), torch.randn(9, inputs) * torch.logspace(-3, 2, 9).unsqueeze(1)
    expected = module(rows).double() if bits == 16 else exact(module, rows)
    found = products.CompiledProduct(module, bits)(rows)
    assert float(((found - expected).abs() / expected.abs().amax(1, keepdim=True)).max()) < 1e-5


@pytest.mark.parametrize("bits", [8, 16])
def test_a_row_is_the_same_alone_and_among_others(bits: int, threads: None) -> None:
    """Catches: a row that depends on its neighbours, on the number of threads, or on where in the block it lies."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(12):
        out, inputs, count = (int(torch.randint(1, most, (1,), generator=generator)) for most in (14, 40, 36))
        module = layer(16 * out, 16 * inputs)
        rows = torch.randn(count, 16 * inputs, generator=generator)
        product = products.CompiledProduct(module, bits)
        torch.set_num_threads(1)
        alone = torch.cat([product(row) for row in rows.split(1)])
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert torch.equal(product(rows), alone)


def test_zeros_and_one_large_value_are_rows_like_others() -> None:
    """Catches: a division by the largest value of a row of zeros."""
    product = products.CompiledProduct(layer(16, 32), 8)
    rows = torch.zeros(2, 32)
    rows[1, 3] = 1e6
    found = product(rows)
    assert torch.equal(found[0], torch.zeros(16)) and torch.isfinite(found).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_all_builds_for_this_machine_compute_the_same(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: another order of sums, or rounding, on another processor, so that a seed would write another text."""
    able = torch.cpu.get_capabilities()
    names = [
        name
        for builds in library.BUILDS.values()
        for name, needed in builds.items()
        if all(map(able.get, needed))
    ]
    if len(names) < 2:
        pytest.skip("this processor runs one build only")
    found = []
    for name in names:
        code = library.opened(library.FOLDER / f"{name}.so")
        monkeypatch.setattr(library, "library", lambda code=code: code)
        found.append(passes(compiled("qwen3", bits)))
    for other in found[1:]:
        assert torch.equal(found[0], other)


def compiled(kind: str, bits: int) -> HubModel:
    """A small model on the kernels."""
    torch.manual_seed(0)
    model = MODELS[kind]().eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.copy_((weight * 8).half())
    made = HubModel(kind, model)
    made.arrange(bits=bits)
    assert made.lean is not None and made.lean.compiled is not None
    return made


def reader(made: HubModel) -> CausalReader:
    one = made.reader(200)
    assert isinstance(one, CausalReader)
    return one


def passes(made: HubModel) -> Tensor:
    """Logits of a prompt's end, of a tree, and after it."""
    one = reader(made)
    one.prefill([5, 17, 80, 33, 2])
    logits = [one.read(9, TokenTree([3, 4, 5, 6, 7], [-1, -1, 0, 1, 3]))]
    one.keep([0, 2, 4])
    logits.append(one.read(11, TokenTree.chain([12, 13])))
    return torch.cat(logits)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("bits", [8, 16])
def test_a_pass_is_that_of_transformers_with_the_same_products(kind: str, bits: int) -> None:
    """Catches: a layer's part left out or in another order; biases, norms of queries and keys, shared heads, angles."""
    made = compiled(kind, bits)
    own, lean = passes(made), made.lean
    made.lean = None  # transformers' forward, on the same products
    expected = passes(made)
    made.lean = lean
    assert float((own - expected).abs().max()) <= (1e-4 if bits == 16 else 5e-3) * float(expected.abs().max())


@pytest.mark.parametrize("bits", [8, 16])
def test_a_row_of_a_tree_is_the_row_of_its_text_bit_for_bit(bits: int, threads: None) -> None:
    """Catches: a sum over the rows a token sees whose order depends on where in the cache they lie. Greedy texts with
    speculation then differ from plain ones where two tokens are nearly tied."""
    made, prompt = compiled("llama", bits), [5, 17, 80, 33, 2, 8, 1]
    tokens, parents = [3, 4, 5, 6, 7, 8, 9], [-1, -1, 0, 1, 3, 2, 4]
    torch.set_num_threads(2)
    one = reader(made)
    one.prefill(prompt)
    tree = one.read(9, TokenTree(tokens, parents))
    torch.set_num_threads(1)
    for node in range(len(tokens)):
        path, place = [], node
        while place >= 0:
            path.insert(0, tokens[place])
            place = parents[place]
        alone = reader(made)
        for token in (*prompt, 9):
            alone.step(torch.tensor([token]))
        for token in path:
            logits = alone.step(torch.tensor([token]))
        assert torch.equal(tree[node + 1], logits), node


@pytest.mark.parametrize("count", [63, 64, 65, 130])
def test_a_prompt_of_any_length_is_read_as_token_by_token(count: int) -> None:
    """Catches: a pass of more rows than one call takes, cut wrongly; and the listeners' states of such a pass."""
    made = compiled("qwen2", 16)
    tokens = [(7 * place) % 96 for place in range(count)]
    whole, steps = reader(made), reader(made)
    heard: list[Tensor] = []
    whole.watch(lambda states: heard.append(states.clone()), (0, 2, 3))
    whole.prefill(tokens)
    one_by_one: list[Tensor] = []
    steps.watch(lambda states: one_by_one.append(states.clone()), (0, 2, 3))
    for token in tokens:
        expected = steps.step(torch.tensor([token]))
    assert torch.equal(torch.cat(heard), torch.cat(one_by_one))
    assert torch.equal(whole.step(torch.tensor([1])), steps.step(torch.tensor([1]))) and expected.shape == (
        96,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"proposer": "draft-model"}, {"proposer": "eagle"}, {"proposer": "eagle3"}, {"proposer": "medusa"},
        {"proposer": "prompt-lookup"}, {"proposer": "mtp"}, {"proposer": "early-exit"},
    ],
    ids=lambda settings: settings["proposer"],
)  # fmt: skip
def test_speculation_in_8_bits_writes_the_plain_text(settings: dict[str, str], eight: sd.Models) -> None:
    """Catches: rows that depend on the others of their pass, so that a guess is judged by another model."""
    for prompt in ("Once upon a time there was a fox", "def area(width, height):\n"):
        plain = sd.decode(eight, prompt, sd.Settings(proposer="none", max_new_tokens=48))
        trace = sd.decode(eight, prompt, sd.Settings(max_new_tokens=48, **settings))
        assert trace.token_ids == plain.token_ids


@pytest.fixture(scope="module")
def eight() -> sd.Models:
    """The bundled family in 8 bits."""
    return sd.load_models(device="cpu", weights="8-bit")


def test_a_model_in_8_bits_is_called_so(eight: sd.Models) -> None:
    """Catches: another target under the name of the one it was made from."""
    assert eight.target.info.name.endswith(", 8-bit")


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"weights": "4-bit"}, "8-bit"), ({"weights": "8-bit", "dtype": "bfloat16"}, "float32")],
)
def test_weights_that_cannot_be_had_are_refused_in_a_sentence(asked: dict[str, str], words: str) -> None:
    """Catches: a traceback, or 16 bits where 8 were asked for."""
    with pytest.raises(sd.ModelError, match=words):
        sd.load_models(device="cpu", **asked)


def test_the_builds_are_those_of_the_source(tmp_path: Path) -> None:
    """Catches: a kernel changed without a new build, and a build that nobody can repeat."""
    if importlib.util.find_spec("ziglang") is None and not os.environ.get("CI"):
        pytest.skip("ziglang, the compiler of requirements-dev.txt, is not installed")
    from scripts.kernels import build

    for path in build(tmp_path):
        assert path.read_bytes() == (library.FOLDER / path.name).read_bytes(), path.name
        assert isinstance(library.opened(path), ctypes.CDLL)


def test_a_lane_that_leaves_its_tree_out_has_the_one_that_pays_on_a_cpu() -> None:
    """Catches: Python, the command line and the app with other trees for one proposer, and a setting not obeyed."""
    models = scripted(lambda ids: [1.0, 1.0], lambda ids: [1.0, 1.0])
    models.target.info = ModelInfo(f"{catalogue.CHAT}, 8-bit", 1)
    found = choice.usual(models, sd.Settings(proposer="eagle", options={"nodes": 9}))
    assert found.options == {**defaults.begins(catalogue.CHAT, "eagle").options, "nodes": 9}
    models.device = "cuda"
    assert choice.usual(models, sd.Settings(proposer="eagle")).options == {}


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, (6, "confidence")),
        ({"draft_length": 4}, (4, "fixed")),
        ({"draft_length": 3}, (3, "fixed")),
        ({"length_policy": "cost-aware"}, (4, "cost-aware")),
    ],
)
def test_a_length_that_somebody_sets_is_obeyed(chosen: dict[str, object], wanted: tuple[int, str]) -> None:
    """Catches: a γ of 4 that was asked for, replaced because it is also what is meant where none is."""
    models = scripted(lambda ids: [1.0, 1.0], lambda ids: [1.0, 1.0])
    models.target.info = ModelInfo(f"{catalogue.CHAT}, 8-bit", 1)
    found = choice.usual(models, sd.Settings(seed=3, **chosen).but(max_new_tokens=9))
    assert (found.draft_length, found.length_policy) == wanted
