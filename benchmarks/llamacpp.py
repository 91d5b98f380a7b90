"""llama.cpp on the same float32 weights, where `llama-cpp-python` is installed (`pip install llama-cpp-python`; it is
compiled on installation and not one of our requirements): greedy decoding, and passes over several tokens."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

CONTEXT = 1024
WIDTHS = (1, 2, 5, 9, 17)


def installed() -> bool:
    """Whether it can be compared with."""
    return find_spec("llama_cpp") is not None


class Peer:
    """One model in llama.cpp with one KV cache.

    Args:
        path: a GGUF file.
        threads: number of CPU threads.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self.api: Any = import_module("llama_cpp")
        self.api.llama_backend_init()
        given = self.api.llama_model_default_params()
        self.model = self.api.llama_model_load_from_file(str(path).encode(), given)
        if not self.model:
            raise OSError(f"llama.cpp cannot load {path.name}")
        asked = self.api.llama_context_default_params()
        asked.n_ctx = asked.n_batch = asked.n_ubatch = CONTEXT
        asked.n_threads = asked.n_threads_batch = threads
        self.context = self.api.llama_init_from_model(self.model, asked)
        self.vocabulary = self.api.llama_vocab_n_tokens(self.api.llama_model_get_vocab(self.model))
        self.batch = self.api.llama_batch_init(CONTEXT, 0, 1)
        self.length = 0

    def read(self, tokens: Sequence[int], every: bool = False) -> int:
        """Read tokens after those kept and keep them; the most likely next one. `every`: logits of all are computed."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place] = token
            batch.pos[place] = self.length + place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = every or place == len(tokens) - 1
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama.cpp failed to decode")
        self.length += len(tokens)
        logits = self.api.llama_get_logits_ith(self.context, len(tokens) - 1)
        return int(np.ctypeslib.as_array(logits, shape=(self.vocabulary,)).argmax())

    def forget(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), 0, length, -1)
        self.length = length

    def generate(self, prompt: Sequence[int], length: int, ends: frozenset[int]) -> list[int]:
        """Greedy decoding."""
        self.forget(0)
        text = [self.read(prompt)]
        while len(text) < length and text[-1] not in ends:
            text.append(self.read(text[-1:]))
        return text

    def passes(self, context: int, repeats: int) -> dict[int, float]:
        """Median seconds of a pass over n tokens after `context`, with the logits of all, in turn."""
        seconds: dict[int, list[float]] = {width: [] for width in WIDTHS}
        self.forget(0)
        self.read([1 + place % (self.vocabulary - 1) for place in range(context)])
        for _ in range(repeats + 1):
            for width in WIDTHS:
                began = time.perf_counter()
                self.read(range(1, width + 1), every=True)
                seconds[width].append(time.perf_counter() - began)
                self.forget(context)
        return {width: median(measured[1:]) for width, measured in seconds.items()}

    def close(self) -> None:
        """Give its memory back."""
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)


@contextmanager
def peers(model: PreTrainedModel, counts: Sequence[int]) -> Iterator[dict[int, Peer]]:
    """The model in llama.cpp, by number of threads, from a GGUF file that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write(model, path)
        found = {count: Peer(path, count) for count in sorted(set(counts))}
        try:
            yield found
        finally:
            for peer in found.values():
                peer.close()


def write(model: PreTrainedModel, path: Path) -> None:
    """A Llama's float32 weights as a GGUF file without a tokenizer."""
    from gguf import GGUFWriter

    config: Any = model.config
    heads, shared, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    writer = GGUFWriter(str(path), "llama")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("none")
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, weight in model.named_parameters():
        part = name.removesuffix(".weight")
        if part.startswith("model.layers."):
            number, part = part.removeprefix("model.layers.").split(".", 1)
            own = f"blk.{number}.{names[part]}.weight"
        else:
            own = f"{names[part]}.weight"
        numbers = weight.detach().float()
        if part.endswith(("q_proj", "k_proj")):
            numbers = _interleaved(numbers, heads if part.endswith("q_proj") else shared)
        writer.add_tensor(own, numbers.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(weight: Tensor, heads: int) -> Tensor:
    """llama.cpp turns neighbouring numbers for this architecture, transformers the halves of a head."""
    out, wide = weight.shape
    return weight.reshape(heads, 2, out // heads // 2, wide).swapaxes(1, 2).reshape(out, wide)
