#!/usr/bin/env bash
# mlx-lm: with a draft model a logits processor sees the prompt's last token alone, without one the whole prompt. So
# greedy text with a repetition penalty is another text as soon as a draft is given, even if the draft is the target itself.
#
# A random Llama of two layers, ten prompts of ten tokens, 24 tokens each. Seen with mlx-lm 0.32.2 and mlx 0.32.4 on a CPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q mlx-lm==0.32.2 "mlx[cpu]==0.32.4"

cat > run.py <<'PY'
from importlib.metadata import version

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.llama import Model, ModelArgs
from mlx_lm.sample_utils import make_repetition_penalty

mx.random.seed(5)
model = Model(ModelArgs(
    model_type="llama", hidden_size=64, num_hidden_layers=2, intermediate_size=128, num_attention_heads=4,
    num_key_value_heads=4, rms_norm_eps=1e-5, vocab_size=50, head_dim=16, tie_word_embeddings=False,
))
mx.eval(model.parameters())
lengths = {"plain": [], "draft": []}


def watched(name):
    """A processor that changes nothing and keeps how many tokens it was given."""
    def watch(tokens, logits):
        lengths[name].append(len(tokens))
        return logits
    return watch


def plain(prompt, processors):
    return [int(token) for token, _ in generate_step(mx.array(prompt), model, max_tokens=24, logits_processors=processors)]


def drafted(prompt, processors):
    steps = speculative_generate_step(
        mx.array(prompt), model, model, max_tokens=24, num_draft_tokens=3, logits_processors=processors
    )
    return [int(token) for token, *_ in steps]


prompts = [[(7 * at + 3 * place * place) % 50 for place in range(10)] for at in range(10)]
plain(prompts[0], [watched("plain")])
drafted(prompts[0], [watched("draft")])
print("mlx-lm", version("mlx-lm"), "mlx", version("mlx"))
print("tokens that a processor sees at its first call: plain", lengths["plain"][0], "- with a draft", lengths["draft"][0])
bare = sum(plain(prompt, None) == drafted(prompt, None) for prompt in prompts)
penalty = [make_repetition_penalty(1.8)]
same = sum(plain(prompt, penalty) == drafted(prompt, penalty) for prompt in prompts)
print(f"greedy texts that are the same with the target as its own draft: {bare} of 10; with a repetition penalty {same} of 10")
print("PASS" if lengths["plain"][0] == 10 and lengths["draft"][0] == 1 and bare == 10 and same < 10 else "FAIL")
PY
venv/bin/python run.py | tee said.txt
grep -q '^PASS$' said.txt
