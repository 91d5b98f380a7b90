"""Small GGUF files, written with the `gguf` package as llama.cpp's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

WIDTH, HEADS, SHARED, LAYERS, INNER, VOCABULARY = 64, 4, 2, 2, 96, 260
TEMPLATE = "{% for message in messages %}<s>{{ message['content'] }}{% endfor %}"


def write(
    path: Path,
    *,
    architecture: str = "llama",
    quantised: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q4_1,
    tokenizer: bool = True,
    leave_out: str | None = None,
    split: int = 0,
    part: int | None = None,
    tied: bool = True,
    weights: bool = True,
    splitting: str = "smollm",
    further: Mapping[str, str] | None = None,
) -> Path:
    """A random model of the Llama layout with quantised matrices; parts that a test wants missing are left out.

    `part` of `split` files has every so many tensors; `splitting` is how the vocabulary splits text; `further` are
    entries that are texts.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(VOCABULARY)
    for key, value in (further or {}).items():
        writer.add_string(key, value)
    if split:
        writer.add_uint16("split.count", split)
    if tokenizer:
        add_tokenizer(writer, splitting)
    random = np.random.default_rng(7)
    for at, (name, shape) in enumerate(_shapes(tied).items()):
        values = random.standard_normal(shape).astype(np.float32)
        if name == leave_out or not weights or (part is not None and at % split != part):
            continue
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quantize(values, quantised), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer: gguf.GGUFWriter, splitting: str = "smollm") -> None:
    """A byte-level vocabulary of 260 tokens with a chat template."""
    letters = sorted(ByteLevel.alphabet())
    tokens = ["<unk>", "<s>", "</s>", *letters, "th"]
    kinds = [3, 3, 3] + [1] * (len(tokens) - 3)
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)


def _shapes(tied: bool) -> dict[str, tuple[int, ...]]:
    shared = WIDTH // HEADS * SHARED
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    if not tied:
        shapes["output.weight"] = (VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        parts = {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (shared, WIDTH),
            "attn_v": (shared, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        shapes |= {f"blk.{layer}.{part}.weight": shape for part, shape in parts.items()}
    return shapes
