"""llama.cpp on the same weights, where llama-cpp-python is installed: plain decoding, its own speculation, passes.

The weights are written to a GGUF file in float32 without a vocabulary: prompts are token ids, and the outputs are
compared with ours. llama.cpp gets the number of threads that suits it best.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from gguf import GGUFWriter
from transformers import PreTrainedModel

ROOM = 1024  # tokens of text
PLAIN, DRAFT, LOOKUP = "llama.cpp", "llama.cpp, draft model", "llama.cpp, prompt lookup"

Decoder = Callable[[Sequence[int], int], list[int]]


def installed() -> bool:
    """Whether llama-cpp-python is there."""
    return importlib.util.find_spec("llama_cpp") is not None


def write(model: PreTrainedModel, path: Path, tokenizer: Path | None = None, half: bool = False) -> None:
    """Write a model of Llama's shape, in float32 on a CPU and stored by rows, to a GGUF file.

    Args:
        tokenizer: the tiny family's tokenizer.json, to be written too; None: prompts are token ids.
        half: matrices in float16.

    Raises:
        ValueError: if the model is of another kind.
    """
    config: Any = model.config
    if config.model_type != "llama" or getattr(config, "attention_bias", False):
        raise ValueError(f"only Llama models are written here, not '{config.model_type}'")
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    writer = GGUFWriter(path, "llama")
    writer.add_file_type(1 if half else 0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(float(config.rope_parameters["rope_theta"]))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if tokenizer is None:
        writer.add_tokenizer_model("no_vocab")
    else:
        _add_tokenizer(writer, json.loads(tokenizer.read_text(encoding="utf-8")), config)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        kept = weight.detach().to(torch.float32)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            kept = interleaved(kept, heads if "q_proj" in name else shared)
        stored = kept.to(torch.float16) if half and kept.ndim == 2 else kept
        writer.add_tensor(gguf_name(name), stored.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, content: dict[str, Any], config: Any) -> None:
    """A byte-level tokenizer whose digits stand alone, which llama.cpp calls "smollm"."""
    added = {token["id"]: token["content"] for token in content["added_tokens"]}
    texts = {number: text for text, number in content["model"]["vocab"].items()} | added
    merges = [one if isinstance(one, str) else " ".join(one) for one in content["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([texts[number] for number in range(config.vocab_size)])
    writer.add_token_types([3 if number in added else 1 for number in range(config.vocab_size)])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_pad_token_id(config.pad_token_id)
    writer.add_add_bos_token(False)


def interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows reordered from RoPE over halves (transformers) to RoPE over neighbours (llama.cpp's "llama")."""
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def gguf_name(name: str) -> str:
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name.replace("model.layers.", "blk.")


class Loaded:
    """One model in llama.cpp, on `count` threads."""

    def __init__(self, path: Path, count: int, drafting: Any = None) -> None:
        import llama_cpp

        self.low: Any = llama_cpp
        self.llama: Any = llama_cpp.Llama(
            str(path), n_ctx=ROOM, n_batch=ROOM, n_threads=count, n_threads_batch=count, verbose=False,
            draft_model=drafting,
        )  # fmt: skip
        self.vocabulary = int(self.llama.n_vocab())

    def read(self, tokens: Sequence[int], start: int, rows: int) -> np.ndarray[Any, Any]:
        """One pass over tokens after `start` kept ones; logits (rows, V) of the last `rows` of them, as a view."""
        context, memory = self.llama.ctx, self.low.llama_get_memory(self.llama.ctx)
        self.low.llama_memory_seq_rm(memory, 0, start, -1)
        batch = self.llama._batch
        batch.reset()
        batch.set_batch(batch=list(tokens), n_past=start, logits_all=rows > 1)
        if self.low.llama_decode(context, batch.batch):
            raise RuntimeError("llama.cpp refused a batch")
        found = [
            np.ctypeslib.as_array(
                self.low.llama_get_logits_ith(context, len(tokens) - rows + row), (self.vocabulary,)
            )
            for row in range(rows)
        ]
        return found[0][None] if rows == 1 else np.stack(found)

    def plain(self, ids: Sequence[int], length: int) -> list[int]:
        """Greedy decoding by its C interface, without what the binding adds."""
        found = [int(self.read(ids, 0, 1)[0].argmax())]
        while len(found) < length:
            found.append(int(self.read(found[-1:], len(ids) + len(found) - 1, 1)[0].argmax()))
        return found

    def speculated(self, ids: Sequence[int], length: int) -> list[int]:
        """Greedy decoding by the binding's `generate`, with the draft that was given."""
        self.llama.reset()
        found: list[int] = []
        for token in self.llama.generate(
            list(ids), temp=0.0, repeat_penalty=1.0, top_k=0, top_p=1.0, min_p=0.0
        ):
            found.append(int(token))
            if len(found) == length:
                break
        return found

    def widths(self, widths: Sequence[int], repeats: int, context: int = 64) -> dict[int, float]:
        """Seconds of a pass over n tokens with all logits, after `context` tokens; medians, widths in turn."""
        self.read([1] * context, 0, 1)
        seconds: dict[int, list[float]] = {width: [] for width in widths}
        for turn in range(repeats + 2):
            for width in widths:
                began = time.perf_counter()
                self.read([2] * width, context, width)
                if turn > 1:
                    seconds[width].append(time.perf_counter() - began)
        return {width: median(values) for width, values in seconds.items()}


def drafting(path: Path, count: int, gamma: int) -> Any:
    """A draft model behind llama-cpp-python's interface for drafts: γ greedy tokens, its KV cache kept in step."""
    from llama_cpp.llama_speculative import LlamaDraftModel

    class Draft(LlamaDraftModel):  # type: ignore[misc]  # has no types
        def __init__(self) -> None:
            self.loaded, self.known = Loaded(path, count), [-1]

        def __call__(self, input_ids: Any, /, **kwargs: Any) -> Any:
            ids = [int(token) for token in input_ids]
            same = next(
                (at for at, (a, b) in enumerate(zip(ids, self.known, strict=False)) if a != b),
                min(len(ids), len(self.known)),
            )
            same = min(same, len(ids) - 1)
            found = [int(self.loaded.read(ids[same:], same, 1)[0].argmax())]
            while len(found) < gamma:
                found.append(int(self.loaded.read(found[-1:], len(ids) + len(found) - 1, 1)[0].argmax()))
            self.known = [*ids, *found[:-1]]
            return np.array(found, dtype=np.intc)

    return Draft()


class Peer:
    """llama.cpp with a target and perhaps a draft. A context manager: the files are deleted at its end.

    Attributes:
        ways: by name, from a number of threads to a function of prompt and length; the models are loaded each time.
    """

    def __init__(
        self, target: PreTrainedModel, draft: PreTrainedModel | None, gamma: int, lookup: int
    ) -> None:
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self._folder = TemporaryDirectory()
        path = self._path = Path(self._folder.name) / "target.gguf"
        write(target, path)
        self.ways: dict[str, Callable[[int], Decoder]] = {
            PLAIN: lambda count: Loaded(path, count).plain,
            LOOKUP: lambda count: (
                Loaded(path, count, LlamaPromptLookupDecoding(num_pred_tokens=lookup)).speculated
            ),
        }
        if draft is not None:
            small = Path(self._folder.name) / "draft.gguf"
            write(draft, small)
            self.ways[DRAFT] = lambda count: Loaded(path, count, drafting(small, count, gamma)).speculated

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *about: object) -> None:
        self._folder.cleanup()

    def widths(self, counts: Sequence[int], widths: Sequence[int], repeats: int) -> dict[int, float]:
        """Seconds of a pass by width, each with its best number of threads."""
        curves = [Loaded(self._path, count).widths(widths, repeats) for count in counts]
        return {width: min(curve[width] for curve in curves) for width in widths}
