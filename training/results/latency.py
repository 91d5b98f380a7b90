"""How long does one forward take with a cache? Target against draft, one new token per call."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch


@torch.inference_mode()
def token_seconds(model: Any, calls: int = 60, prompt: int = 128, fed: int = 1) -> float:
    """Median seconds of a cached transformers forward reading `fed` tokens after a prompt of `prompt` tokens."""
    from transformers import DynamicCache

    from specdec_core.runtime.cache_keyword import cached

    cache = DynamicCache(config=model.config)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, model.config.vocab_size, (1, prompt + fed), generator=generator)
    model(ids[:, :prompt], use_cache=True, **cached(model, cache))
    times = []
    for call in range(calls + 5):
        start = time.perf_counter()
        model(ids[:, prompt:], use_cache=True, **cached(model, cache))
        if call >= 5:
            times.append(time.perf_counter() - start)
        cache.crop(-fed)
    return statistics.median(times)


def latency_ratio(target: Any, draft: Any, rounds: int = 3) -> tuple[float, float, float]:
    """(target seconds, draft seconds, draft / target), the best of alternating rounds on this machine."""
    pairs = [(token_seconds(target), token_seconds(draft)) for _ in range(rounds)]
    target_time, draft_time = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    return target_time, draft_time, draft_time / target_time
