"""Forward pass of Llama-shaped models (Llama, SmolLM, Mistral, Qwen2, Qwen3) in few tensor operations.

A pass over a handful of tokens spends more time starting operations than computing. transformers' modules start about
twice as many as needed: three products for queries, keys and values, two for gate and up, and keys and values repeated
for grouped queries. Here these products are joined, RoPE turns queries and keys at once, and attention reads the
KV cache where it lies. The model's own weights are used: a joined matrix holds them, and the model's parameters become
views of it. `reader.lean_forward` compares the result with that of transformers' own forward before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.activations import SiLUActivation

from specdec_core.runtime.compiled.layers import CompiledLayers
from specdec_core.runtime.compiled.layers import suits as suits_compiled
from specdec_core.runtime.joined import Joined
from specdec_core.runtime.kv import KVMemory
from specdec_core.runtime.windows import Windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CLASSES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
PLAIN = (nn.Linear, nn.Embedding)  # not their quantised or adapted kinds
# angles that depend on nothing but the position
ROPE_TYPES = ("default", "linear", "llama3", "yarn")

FEW = 33  # tokens of a pass for which attention in three products is faster than the fused one

Product = Callable[[Tensor], Tensor]
Block = TypeVar("Block")  # a layer's part of the KV cache
Rows = tuple[Tensor, Tensor, Tensor]  # of one text: the rows a pass writes, keys and values up to these
# a pass's queries, keys and values (n, heads, width) and a layer's block → what was attended to (n, d)
Attention = Callable[[Tensor, Block], Tensor]


@dataclass(slots=True)
class _Layer:
    """The parts of one decoder layer."""

    before_attention: Product
    attention_input: Joined  # queries, keys, values
    query_norm: Product | None
    key_norm: Product | None
    attention_output: nn.Linear
    before_mlp: Product
    gate_and_up: Joined
    activation: Product
    down: nn.Linear
    norms: tuple[Tensor | None, ...]  # weights: before attention and MLP, of queries and keys
    silu: bool


class LlamaLayers:
    """Decoder layers of Llama's layout, each a pass over rows (n, d) after those in a KV cache, batch size 1.

    Args:
        layers: of transformers, in eval mode; share their weights with this object.
        config: their sizes.
        rotary: computes their angles.
        weight: any of the model's weights, for its dtype and device.
        normed: for each layer whether it norms what its attention reads; all do where it is left out.
    """

    def __init__(
        self,
        layers: Iterable[Any],
        config: Any,
        rotary: Any,
        weight: Tensor,
        normed: Sequence[bool] | None = None,
    ) -> None:
        found = list(layers)
        self.heads = int(config.num_attention_heads)
        self.shared_heads = int(config.num_key_value_heads)
        own = [True] * len(found) if normed is None else normed
        self.layers = [self._layer(layer, norm) for layer, norm in zip(found, own, strict=True)]
        attention: Any = found[0].self_attn
        self.width, self.scaling = int(attention.head_dim), float(attention.scaling)
        self.eps = {float(module.variance_epsilon) for layer in found for module in _norms(layer)}
        self.compiled: CompiledLayers | None = None
        self._rotary, self._nothing = rotary, weight.new_zeros(1)
        self._angles = self._table(64)  # replaced as a whole: lanes in other threads read it

    def joined(self) -> list[Joined]:
        """The joined products, for packing."""
        return [one for layer in self.layers for one in (layer.attention_input, layer.gate_and_up)]

    def prepare(self, positions: int) -> None:
        """Compute the angles of that many positions, if it has not been done."""
        if positions > len(self._angles[0]):
            self._angles = self._table(max(positions, 2 * len(self._angles[0])))

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What turns the rows at `positions`, int64 (n,), all below the number given to `prepare`."""
        cos, sin = (table[positions].unsqueeze(1) for table in self._angles)
        return cos, sin

    def reading(
        self, memory: KVMemory, count: int, mask: Tensor | None
    ) -> tuple[Iterable[Rows], Attention[Rows]]:
        """Each layer's part of `memory` for a pass of `count` rows, and the attention that writes there and reads.

        `mask` is additive, (n, memory.end + n); None shows everything to every row.
        """
        end = memory.end
        whole = memory.reserved(self._nothing, self.shared_heads, self.width)
        # of all layers at once: a view costs as much as a small operation
        written = whole[:, :, :, end : end + count].unbind()
        seen = whole[:, :, :, : end + count].flatten(0, 1).unbind()
        attend = self.attending(count, mask)

        def attention(rows: Tensor, block: Rows) -> Tensor:
            written, keys, values = block
            pairs = rows[:, self.heads :].view(count, 2, self.shared_heads, self.width)
            written.copy_(pairs.permute(1, 2, 0, 3))
            return attend(rows[:, : self.heads], keys, values)

        return zip(written, seen[::2], seen[1::2], strict=True), attention

    def through(
        self,
        layer: _Layer,
        rows: Tensor,
        onto: Tensor,
        angles: tuple[Tensor, Tensor],
        attention: Attention[Block],
        block: Block,
    ) -> Tensor:
        """One layer: its attention reads `rows` (n, in), and what it found is added to `onto` (n, d)."""
        mixed = attention(self.turned(layer, rows, *angles), block)
        states = onto + layer.attention_output.forward(mixed)
        gate, up = layer.gate_and_up.forward(layer.before_mlp(states)).chunk(2, -1)
        found: Tensor = states + layer.down.forward(layer.activation(gate).mul_(up))
        return found

    def attending(self, count: int, mask: Tensor | None) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Attention of a pass's queries (n, heads, width) to a layer's keys and values (shared heads, m, width), as
        rows (n, heads × width)."""
        heads, shared, width = self.heads, self.shared_heads, self.width
        # 16 bits are too few between the products
        if count > FEW or self._nothing.dtype != torch.float32:
            return lambda queries, keys, values: self.attend(
                queries.transpose(0, 1).unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0), mask
            )[0]
        # the queries of one shared head stand below each other; so the mask is repeated, and no key or value is
        group = heads // shared
        added = self._nothing if mask is None else torch.cat([mask] * group)
        beta = 0 if mask is None else 1

        def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            grouped = queries.view(count, shared, group, width).permute(1, 2, 0, 3)
            rows = grouped.reshape(shared, group * count, width)
            scores = torch.baddbmm(added, rows, keys.transpose(1, 2), beta=beta, alpha=self.scaling)
            mixed = torch.bmm(scores.softmax(-1), values).view(shared, group, count, width)
            return mixed.permute(2, 0, 1, 3).reshape(count, heads * width)

        return attend

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of queries (texts, heads, n, width) to keys and values (texts, shared heads, m, width), as rows
        (texts, n, heads × width)."""
        mixed = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            scale=self.scaling,
            enable_gqa=self.heads != self.shared_heads,
        )
        return mixed.transpose(1, 2).flatten(2)

    def turned(self, layer: _Layer, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """A layer's queries, keys and values (n, heads, width), the first two turned by their positions (RoPE)."""
        count, shared, turned = states.shape[0], self.shared_heads, self.heads + self.shared_heads
        rows = layer.attention_input.forward(layer.before_attention(states)).view(count, -1, self.width)
        both = rows[:, :turned]
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = both.split((self.heads, shared), 1)
            queries = layer.query_norm(queries.reshape(-1, self.width)).view(queries.shape)
            keys = layer.key_norm(keys.reshape(-1, self.width)).view(keys.shape)
            both = torch.cat((queries, keys), 1)
        # swaps the halves; the sign of the first is in `sin`
        torch.addcmul(both * cos, both.roll(self.width // 2, -1), sin, out=rows[:, :turned])
        return rows

    def _table(self, positions: int) -> tuple[Tensor, Tensor]:
        """cos and signed sin of every position, (positions, width); as transformers computes them."""
        numbers = torch.arange(positions, device=self._nothing.device).unsqueeze(0)
        cos, sin = (table[0] for table in self._rotary(self._nothing, numbers))
        half = sin.shape[-1] // 2
        return cos, torch.cat((-sin[:, :half], sin[:, half:]), -1)

    @staticmethod
    def _layer(layer: Any, normed: bool) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return _Layer(
            before_attention=norm_of(layer.input_layernorm) if normed else _itself,
            attention_input=Joined((attention.q_proj, attention.k_proj, attention.v_proj)),
            query_norm=norm_of(attention.q_norm) if hasattr(attention, "q_norm") else None,
            key_norm=norm_of(attention.k_norm) if hasattr(attention, "k_norm") else None,
            attention_output=attention.o_proj,
            before_mlp=norm_of(layer.post_attention_layernorm),
            gate_and_up=Joined((mlp.gate_proj, mlp.up_proj)),
            activation=mlp.act_fn.forward,
            down=mlp.down_proj,
            norms=tuple(
                None if one is None else one.weight
                for one in (
                    layer.input_layernorm if normed else None,
                    layer.post_attention_layernorm,
                    getattr(attention, "q_norm", None),
                    getattr(attention, "k_norm", None),
                )
            ),
            silu=type(mlp.act_fn) in (nn.SiLU, SiLUActivation),
        )


class LlamaForward(LlamaLayers):
    """A Llama-shaped model's pass over a few tokens after those in a KV cache, batch size 1.

    Args:
        model: in eval mode, for which `suits` holds; shares its weights with this object.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        core: Any = model.model
        self.embedding: nn.Embedding = core.embed_tokens
        self.output: Any = model.get_output_embeddings()
        self.norm, self._last_norm = norm_of(core.norm), core.norm.weight
        super().__init__(core.layers, model.config, core.rotary_emb, self.embedding.weight)

    def __call__(
        self,
        tokens: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        memory: KVMemory,
        logits_to_keep: int = 0,
        inner: dict[int, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Read tokens; their keys and values are written to rows `memory.end` and after.

        Args:
            tokens: int64 (n,).
            mask: additive (n, memory.end + n); None shows everything to every token.
            positions: int64 (n,), their places in the text, all below the number given to `prepare`.
            memory: the KV cache, with as many layers as are to be run.
            logits_to_keep: for how many tokens, from the last, logits are computed; 0 means all.
            inner: receives for each of its keys what the layer of that number reads, (n, d); the
                number of layers stands for what the last returns.

        Returns:
            Logits (1, m, V) in the model's dtype, and the states of all tokens (n, d) they are computed from.
        """
        if self.compiled is not None:
            rows = self.embedding.weight[tokens]
            states, found = self.compiled(rows, positions, mask, memory, logits_to_keep, inner)
            assert found is not None
            return found.unsqueeze(0), states
        blocks, attention = self.reading(memory, tokens.shape[0], mask)
        states = self.states(tokens, positions, blocks, attention, inner)
        logits: Tensor = self.output(states[-logits_to_keep:])
        return logits.contiguous().unsqueeze(0), states

    def compile(self) -> None:
        """Let whole passes run in the compiled kernels, where all products do."""
        if suits_compiled(self, self.output):
            self.compiled = CompiledLayers(self, self._last_norm, self.output)

    def states(
        self,
        tokens: Tensor,
        positions: Tensor,
        blocks: Iterable[Block],
        attention: Attention[Block],
        inner: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """The states (n, d) that logits are computed from, of tokens int64 (n,) of one text or of several.

        Args:
            positions, inner: as in `__call__`.
            blocks: the part of the KV cache of each layer to be run.
            attention: writes a layer's keys and values to its block and attends.
        """
        angles = self.angles(positions)
        states = self.embedding.weight[tokens]
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=False)):
            if inner is not None and number in inner:
                inner[number] = states
            states = self.through(layer, states, states, angles, attention, block)
        if inner is not None and len(self.layers) in inner:
            inner[len(self.layers)] = states
        return self.norm(states)


def norm_of(module: Any) -> Product:
    """RMSNorm of rows (n, d), as a module of transformers: about 0.6 times the time of `F.rms_norm` in float32 on a
    CPU."""
    weight, eps = module.weight, float(module.variance_epsilon)
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        return lambda rows: F.rms_norm(rows, (rows.shape[-1],), weight, eps)
    # a product with equal weights is the cheapest mean
    small, equal = torch.tensor(eps), torch.full((len(weight), 1), 1.0 / len(weight))

    def norm(rows: Tensor) -> Tensor:
        scale = torch.addmm(small, rows * rows, equal).rsqrt_()
        return torch.mul(rows, scale).mul_(weight)

    return norm


def _norms(layer: Any) -> Iterator[Any]:
    """The norms of a decoder layer of transformers."""
    for module in layer.modules():
        if hasattr(module, "variance_epsilon"):
            yield module


def _itself(rows: Tensor) -> Tensor:
    return rows


def suits(model: PreTrainedModel) -> bool:
    """Whether the model is of a kind that `LlamaForward` computes, on a device where it pays."""
    config: Any = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        # on CUDA, graphs remove what this saves
        all(weight.device.type == "cpu" for weight in model.parameters())
        and type(model).__name__ in CLASSES
        and Windows.of(config) is None
        and rope.get("rope_type", "default") in ROPE_TYPES
        and all(
            type(module) in PLAIN and "forward" not in vars(module)  # packed before
            for module in model.modules()
            if isinstance(module, (nn.Linear, nn.Embedding))
        )
    )
