"""How is a model taught not to fall into loops? It writes greedily, and what it repeats is made less likely.

Sequence-level unlikelihood (Welleck et al. 2020, section 4.2): the penalty on the corpus's own text
(`pretrain.repeat_penalty`) never sees a loop, since people do not write them; only the model's own text has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.export import llama_config
from training.model import SmallLlama
from training.shapes import EOS_ID

ROWS, PREFIX, LENGTH = 24, 40, 104  # 24 texts a step: 40 tokens of the corpus, 104 of the model's own
GRAM = 4
WEIGHT = 0.5
EVERY = 2  # steps from one look at the model's own text to the next


def repeated_grams(ids: Tensor, size: int = GRAM) -> Tensor:
    """Where a token completes `size` tokens in a row that stood earlier in the same text.

    ids: int64 [batch, time]; returns bool [batch, time].
    """
    grams = ids.unfold(1, size, 1)  # gram t ends at token t + size − 1
    places = torch.arange(grams.shape[1], device=ids.device)
    same = (grams[:, :, None] == grams[:, None]).all(-1)
    again = (same & (places[None, :] < places[:, None])).any(-1)
    return F.pad(again, (size - 1, 0))


def cut(row: np.ndarray, count: int, length: int, rng: np.random.Generator) -> list[np.ndarray]:
    """`count` pieces of `length` tokens from a row, from the beginnings of documents where it has any."""
    last = len(row) - length
    begins = [at + 1 for at in np.flatnonzero(row == EOS_ID) if at + 1 <= last]
    anywhere = rng.integers(0, last + 1, size=count).tolist()
    starts = [begins[int(rng.integers(len(begins)))] if begins and at % 2 else at for at in anywhere]
    return [row[at : at + length] for at in starts]


class OwnLoops:
    """The penalty on the model's own greedy text, continued from pieces of the rows of some families."""

    def __init__(self, model: SmallLlama, device: str, seed: int) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        self.model, self.device, self.seed, self.step = model, device, seed, 0
        config = LlamaConfig.from_dict(llama_config(model.shape))
        self.writer: Any = LlamaForCausalLM(config).to(device, torch.float32).eval()
        self.repeated = 0.0  # share of the last look's own tokens that repeat

    def write(self, rows: Tensor) -> Tensor:
        """Continue pieces of `rows` (int64 [n, time], n ≥ 1) greedily: int64 [ROWS, PREFIX + LENGTH]."""
        rng = np.random.default_rng([self.seed, 4241, self.step])
        texts = rows.cpu().numpy()
        share = -(-ROWS // len(texts))
        pieces = [piece for row in texts for piece in cut(row, share, PREFIX, rng)][:ROWS]
        start = torch.from_numpy(np.stack(pieces)).to(self.device)
        self.writer.load_state_dict(self.model.state_dict(), strict=False)
        self.writer.tie_weights()
        with torch.no_grad():
            out: Tensor = self.writer.generate(
                start,
                attention_mask=torch.ones_like(start),
                do_sample=False,
                max_new_tokens=LENGTH,
                min_new_tokens=LENGTH,
            )
        return out

    def penalty(self, rows: Tensor) -> Tensor:
        """The mean over the model's own tokens of −log(1 − p) where they repeat, and 0 elsewhere; a scalar."""
        ids = self.write(rows)
        again = repeated_grams(ids)[:, PREFIX:]
        self.repeated = float(again.float().mean())
        with torch.autocast(self.device, torch.bfloat16):
            logits = self.model(ids[:, :-1])[:, PREFIX - 1 :]
        likely = torch.softmax(logits.float(), -1).gather(2, ids[:, PREFIX:, None])[:, :, 0]
        return (-torch.log1p(-likely.clamp(max=0.999)) * again).sum() / again.numel()

    def __call__(self, loss: Tensor, rows: Tensor) -> Tensor:
        """The loss and, every `EVERY` steps and where there are rows, the weighted penalty: [2]."""
        self.step += 1
        look = self.step % EVERY == 0 and len(rows)
        return torch.stack([loss, WEIGHT * self.penalty(rows) if look else torch.zeros_like(loss)])
