"""The memory ledger, against the bytes of real tensors: the bundled models, and what their passes really wrote."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.models.assembling import assemble
from specdec_core.models.bundle import NarrowModel
from specdec_core.runtime import cpu_linear
from specdec_core.runtime.architectures.t5 import EncoderDecoderReader
from specdec_core.runtime.kv import KVLayer, KVMemory
from specdec_measure import testing
from specdec_measure.analysis.memory import MemoryLine, ledger, total

from . import tiny
from .test_draft_vocabulary import narrow_models
from .tiny_t5 import pair_t5

LANES = {
    "plain": sd.Settings(proposer="none", max_new_tokens=24),
    "draft": sd.Settings(max_new_tokens=24),
    "tree": sd.Settings(proposer="branching", max_new_tokens=24),
    "lookahead": sd.Settings(proposer="lookahead", max_new_tokens=24),
    "medusa": sd.Settings(proposer="medusa", max_new_tokens=24),
    "eagle": sd.Settings(proposer="eagle", max_new_tokens=24),
    "early-exit": sd.Settings(proposer="early-exit", max_new_tokens=24),
    "oracle": sd.Settings(proposer="oracle", max_new_tokens=24),
}


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models(device="cpu", dtype="float32")


class Seen:
    """What a decode really had in hand: KV memories by the block they own, rows per pass, logits."""

    def __init__(self) -> None:
        self.blocks: dict[int, Tensor] = {}
        self.logits = 0

    def bytes(self) -> int:
        return sum(block.nbytes for block in self.blocks.values())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Watches the rows of every KV layer that a pass wrote to, by transformers' forward or by ours."""
    found = Seen()
    update, reserved = KVLayer.update, KVMemory.reserved

    def watch(layer: KVLayer, keys: Tensor, values: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
        result = update(layer, keys, values, *rest, **more)
        for block in (layer.block_keys, layer.block_values):
            assert block is not None
            found.blocks[block.data_ptr()] = block
        return result

    def watch_ours(memory: KVMemory, *given: Any) -> Tensor:
        layers = reserved(memory, *given)
        found.blocks |= {block.data_ptr(): block for pair in layers for block in pair}
        return layers

    monkeypatch.setattr(KVLayer, "update", watch)
    monkeypatch.setattr(KVMemory, "reserved", watch_ours)
    return found


def storage(module: Any) -> int:
    """Bytes of a module's tensors by the memory they lie in, so that shared ones count once; packed ones have none."""
    tensors = [one for one in (*module.parameters(), *module.buffers()) if one.device.type != "meta"]
    parts = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(parts.values())


def halves(module: Any) -> int:
    """Bytes of the copies in 16 bits: what ships is of 16 bits, and CI's processor has the product."""
    return 2 * sum(one.weight.numel() for one in module.modules() if isinstance(one, torch.nn.Linear))


def named(lines: list[MemoryLine]) -> dict[str, int]:
    return {line.name: line.size for line in lines}


def parts(lines: list[MemoryLine]) -> list[tuple[MemoryLine, MemoryLine]]:
    """Each share with the entry it stands under."""
    wholes = [next(line for line in lines[at::-1] if not line.part) for at in range(len(lines))]
    return [(whole, line) for whole, line in zip(wholes, lines, strict=True) if line.part]


@pytest.mark.parametrize("lane", LANES)
def test_reserved_keys_and_values_are_the_tensors_that_were_reserved(
    models: sd.Models, seen: Seen, lane: str
) -> None:
    """Every block that any layer of any memory wrote to, draft and heads included, is in the ledger; nothing else."""
    trace = sd.decode(models, "Once upon a time there was a fox", LANES[lane])
    lines = ledger(trace, models)
    booked = sum(line.size for line in lines if line.name.endswith("keys and values"))
    assert booked == seen.bytes() > 0


@pytest.mark.parametrize("lane", LANES)
def test_weights_are_the_bytes_of_the_loaded_tensors(models: sd.Models, lane: str) -> None:
    trace = sd.decode(models, "Once upon a time", LANES[lane])
    lines = named(ledger(trace, models))
    assert lines["Target's weights"] == storage(models.target.model)
    assert ("Draft's weights" in lines) == (lane in ("draft", "tree"))
    if "Draft's weights" in lines:
        assert lines["Draft's weights"] == storage(models.draft.model)
        assert lines["Draft's packed copies"] == halves(models.draft.model)
    for part, name in (("medusa", "Medusa heads' weights"), ("eagle", "EAGLE head's weights")):
        assert (name in lines) == (lane == part)
        if name in lines:
            assert lines[name] == storage(models.heads[part]) + halves(models.heads[part])


@pytest.mark.parametrize("lane", ["plain", "draft", "tree", "lookahead", "eagle"])
def test_logits_and_waste_are_those_of_the_passes(
    models: sd.Models, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's own logits tensors and KV lengths, pass by pass. Catches: extra tokens or the root forgotten, pruned
    nodes counted though they were never sent."""
    from specdec_core.proposers.lookup.lookahead import Lookahead
    from specdec_core.runtime.reader import CausalReader

    largest, written, kept, target = [0], [0], [0], models.target.model
    read, keep, propose = CausalReader.read, CausalReader.keep, Lookahead.propose
    riding: list[int] = []  # rows of the window, as lookahead hands them over
    fallen: list[int] = []  # rows of guesses that were not kept

    def proposing(proposer: Lookahead, context: Any) -> Any:
        found = propose(proposer, context)
        riding.append(len(found.extra))
        return found

    def reading(reader: CausalReader, root: int, tree: Any, known: int = 0) -> Tensor:
        logits = read(reader, root, tree, known)
        if reader.model is target:
            largest[0] = max(largest[0], logits.nbytes)
            written[0] = len(logits) + known
        return logits

    def keeping(reader: CausalReader, positions: Any) -> None:
        keep(reader, positions)
        if reader.model is target:
            kept[0] = len(positions)
            fallen.append(written[0] - kept[0] - (riding[-1] if riding else 0))

    monkeypatch.setattr(Lookahead, "propose", proposing)
    monkeypatch.setattr(CausalReader, "read", reading)
    monkeypatch.setattr(CausalReader, "keep", keeping)
    found = ledger(sd.decode(models, "def add(a, b):", LANES[lane]), models)
    lines, explanations = named(found), {line.name: line.explanation for line in found}
    assert lines["Logits of the widest pass"] == largest[0] > 0
    for name, rows in (("Wasted on rejected guesses", fallen), ("Used by the window", riding)):
        assert lines.get(name, 0) == max(rows, default=0) * models.target.kv_bytes
        assert f"{sum(rows):,} rows" in explanations.get(name, "0 rows")
    assert (max(fallen) > 0) == (lane != "plain")
    assert (sum(riding) > 0) == (lane == "lookahead")
    of = {line.name: whole.name for whole, line in parts(found)}
    assert set(of.values()) <= {"Target's keys and values"} and len(of) == (max(fallen) > 0) + (
        sum(riding) > 0
    )


@pytest.mark.parametrize("lane", ["plain", "draft"])
def test_an_encoder_decoder_keeps_its_encoded_prompt(
    seen: Seen, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tensors that the readers hold of the source, each once: the encoder's output, and cross-attention's keys and
    values in all decoder layers, of target and draft. Catches: a memory that only the decoder's text fills."""
    readers: list[EncoderDecoderReader] = []
    encode = EncoderDecoderReader._encode

    def watch(reader: EncoderDecoderReader) -> None:
        encode(reader)
        if reader not in readers:
            readers.append(reader)

    monkeypatch.setattr(EncoderDecoderReader, "_encode", watch)
    models = pair_t5("t5")
    lines = named(ledger(sd.decode(models, "abcabcde", LANES[lane].but(max_new_tokens=12)), models))
    held = []
    for reader in readers:
        tensors = {reader._encoded.last_hidden_state}  # type: ignore[union-attr]
        for layer in reader._cache.cross_attention_cache.layers:
            tensors |= {layer.keys, layer.values}
        held.append(sum(tensor.nbytes for tensor in tensors))
    names = ["Target's encoded prompt", "Draft's encoded prompt"][: len(readers)]
    assert len(readers) == (2 if lane == "draft" else 1)
    assert sorted(lines[name] for name in names) == sorted(held) and min(held) > 0
    booked = sum(size for name, size in lines.items() if name.endswith("keys and values"))
    assert booked == seen.bytes() > 0  # the decoder's own, as for any model


def test_a_draft_over_part_of_the_vocabulary_is_counted() -> None:
    """The chat family's draft wraps another model. Catches: a ledger that fails on it, and with it the comparison."""
    models = narrow_models("draft-model")
    lines = named(ledger(sd.decode(models, [1, 2, 3], sd.Settings(max_new_tokens=8)), models))
    assert isinstance(models.draft, NarrowModel)
    assert lines["Draft's weights"] == storage(models.draft.model.model)


def test_the_total_leaves_shares_out_and_labels_what_is_assumed(models: sd.Models) -> None:
    lines = ledger(sd.decode(models, "Once upon a time", LANES["tree"]), models)
    assert total(lines) == sum(line.size for line in lines) - named(lines)["Wasted on rejected guesses"]
    assumed = [line.name for line in lines if line.source == "modelled"]
    assert assumed == ["Target's packed copies", "Draft's packed copies"]
    assert named(lines)["Target's packed copies"] == halves(models.target.model)


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_held_in_place_of_weights_is_told_from_what_is_held_beside_them(
    tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large model's matrices are freed once they are packed, but for a tied output matrix, whose rows the embedding
    reads. Catches: a replacement that is called a copy, or a copy that is called a replacement."""
    monkeypatch.setattr(cpu_linear, "SMALL_BYTES", 0)
    weights = tiny.build("llama", vocab_size=300, tie_word_embeddings=tied)
    for weight in weights.parameters():
        weight.data = weight.half().float()
    models = assemble(tiny.tokenizer(), weights)
    cpu_linear.arrange(weights)
    found = {line.name: line for line in ledger(sd.decode(models, "abc", LANES["plain"]), models)}
    output = weights.get_output_embeddings().weight
    kept, packed = found["Target's weights that are not packed"], found["Target's packed matrices"]
    assert kept.size == storage(weights) >= weights.get_input_embeddings().weight.nbytes
    assert packed.size == halves(weights) - tied * 2 * output.numel()
    assert packed.explanation.startswith("In place of") and "cop" not in packed.name + packed.explanation
    assert ("Target's packed copies" in found) == tied
    if tied:
        copies = found["Target's packed copies"]
        assert copies.size == 2 * output.numel() and copies.explanation.startswith("In addition to")


def test_one_is_one(models: sd.Models) -> None:
    """Catches: “1 tokens in the pass”."""
    lines = {line.name: line for line in ledger(sd.decode(models, "Once", LANES["plain"]), models)}
    assert lines["Logits of the widest pass"].explanation.startswith("1 token in the pass × ")


def test_other_models_than_the_record_s_are_refused(models: sd.Models) -> None:
    other = testing.scripted(lambda context: [0.5, 0.5])
    trace = sd.decode(other, [0], sd.Settings(proposer="none", max_new_tokens=4))
    with pytest.raises(sd.SettingsError, match="'scripted target', but 'specdec-target' is loaded"):
        ledger(trace, models)
    with pytest.raises(sd.TraceError, match=r"^A trace is what decode\(\)"):
        ledger(other, trace)  # type: ignore[arg-type]
    lines = named(ledger(trace, other))
    assert set(lines) == {"Logits of the widest pass"}  # a scripted model has neither weights nor keys


def test_two_memories_over_one_block_count_once() -> None:
    """The premise of the first test: an early exit writes to its target's blocks."""
    memory = KVMemory(2, 4)
    keys = torch.zeros(1, 1, 1, 2)
    memory.layers[0].update(keys, keys)
    shared = memory.first(1).layers[0]
    assert isinstance(shared, KVLayer) and shared.block_keys is not None
    assert shared.block_keys.data_ptr() == memory.layers[0].block_keys.data_ptr()  # type: ignore[attr-defined]


def test_an_accepted_end_token_is_named_among_the_waste(chat_models: sd.Models) -> None:
    """Catches: one row more here than the guesses that the table calls wasted, without a word on why."""
    tree = {"depth": 3, "top_k": 2, "nodes": 4}
    lanes = sd.Settings(proposer="eagle", options=tree), sd.Settings(proposer="draft-model", draft_length=4)
    more = []
    for settings in lanes:
        trace = sd.decode(chat_models, sd.Chat("Say hello."), settings.but(max_new_tokens=60))
        stats, last = trace.stats, trace.rounds[-1]
        refused = stats.proposed - stats.pruned - stats.discarded - stats.accepted
        line = next(one for one in ledger(trace, chat_models) if one.name == "Wasted on rejected guesses")
        more.append(trace.end == "eos" and last.committed.source[-1] == "accepted")
        assert f"{refused + more[-1]:,} rows" in line.explanation
        assert ("end token" in line.explanation) == more[-1]
    assert more == [True, False]
