"""OpenVINO GenAI for benchmarks/peers.py, run by the Python of the peers' folder: WAYS is JSON, by name
{model, draft?, lookup?}. A line {way, ids, count} is answered by {tokens, seconds, passes}. With `--convert`, its
arguments are GGUF files, each of which becomes OpenVINO's own format in the folder of its name."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

LOOKUP = {"num_assistant_tokens": 5, "max_ngram_size": 3}  # it wants both; 5 is its default for a draft


def convert(files: list[str]) -> None:
    """Each file in the folder of its name without `.gguf`."""
    for file in map(Path, files):
        folder = file.with_suffix("")
        folder.mkdir(exist_ok=True)
        moved = file.rename(folder / file.name)  # what is converted is written beside the file
        genai.LLMPipeline(str(moved), "CPU", enable_save_ov_model=True)
        moved.rename(file)


def opened(model: str, draft: str | None = None, lookup: bool = False) -> Any:
    """A pipeline with OpenVINO's own defaults."""
    more: dict[str, Any] = {"prompt_lookup": True} if lookup else {}
    if draft is not None:
        more["draft_model"] = genai.draft_model(draft, "CPU")
    return genai.LLMPipeline(model, "CPU", **more)


def written(pipeline: Any, guesses: dict[str, int], ids: list[int], count: int) -> dict[str, Any]:
    """The greedy answer to a prompt, and the seconds it took."""
    prompt = np.array([ids], np.int64)
    began = time.perf_counter()
    given = genai.TokenizedInputs(ov.Tensor(prompt), ov.Tensor(np.ones_like(prompt)))
    config = genai.GenerationConfig(max_new_tokens=count, eos_token_id=2, **guesses)
    result = pipeline.generate(given, config)
    return {
        "tokens": [int(token) for token in result.tokens[0]],
        "seconds": time.perf_counter() - began,
        "passes": len(result.perf_metrics.raw_metrics.m_batch_sizes),
    }


if __name__ == "__main__":
    if sys.argv[1] == "--convert":
        convert(sys.argv[2:])
        raise SystemExit
    given_ways = json.loads(sys.argv[1])
    ways = {
        name: (opened(**given), LOOKUP if given.get("lookup") else {}) for name, given in given_ways.items()
    }
    print("{}", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(written(*ways[asked["way"]], asked["ids"], asked["count"])), flush=True)
