#!/usr/bin/env bash
# speculators 0.9.0 and SpecForge 0.2.0 both write `norm_output` into an EAGLE-3 head's config.json, and mean two
# things. SpecForge: whether the last norm stands before the output matrix (left out: yes). speculators: whether the
# normed state is fed back to the next step (left out: no); its output matrix always reads the normed state.
# So one and the same head with `norm_output: false` is an ordinary head to the one and a head without norm to the other.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q "torch==2.13.0" "transformers==5.19.0" "speculators==0.9.0"
venv/bin/pip install -q --no-deps "specforge==0.2.0"
venv/bin/pip uninstall -q -y torchvision torchaudio 2>/dev/null || true
cat > run.py <<'P'
from importlib.metadata import version
import torch
from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3
from speculators import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals import GreedyTokenProposalConfig
from transformers import LlamaConfig

sizes = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             vocab_size=100, num_hidden_layers=1, max_position_embeddings=64, rms_norm_eps=1e-6)
torch.manual_seed(0)


def forge(**entries):
    return LlamaForCausalLMEagle3(LlamaConfig(draft_vocab_size=100, **sizes, **entries)).eval()


def other(**entries):
    layer = LlamaConfig(**sizes)
    layer._attn_implementation = "eager"
    whose = SpeculatorsConfig(algorithm="eagle3", proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=2)],
                              default_proposal_method="greedy",
                              verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]))
    return Eagle3DraftModel(Eagle3SpeculatorConfig(transformer_layer_config=layer, draft_vocab_size=100,
                            eagle_aux_hidden_state_layer_ids=[1, 2, 3], speculators_config=whose, **entries)).eval()


first = forge()
with torch.no_grad():
    for weight in first.parameters():
        weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
weights = {key.replace("midlayer.", "layers.0."): value for key, value in first.state_dict().items()}
tokens, states = torch.randint(0, 100, (1, 9)), torch.randn(1, 9, 96)


@torch.no_grad()
def forged(**entries):
    model, mask = forge(**entries), torch.ones(1, 9, dtype=torch.bool)
    model.load_state_dict(first.state_dict())
    read = model.project_hidden_states(states)
    wide = model.prepare_decoder_attention_mask(mask, read, 1, 9, 0)
    return model.compute_logits(model.backbone(model.embed_input_ids(tokens), read, [[], []], wide, torch.arange(9)[None]))


@torch.no_grad()
def others(**entries):
    model, seen = other(**entries), []
    model.load_state_dict({key: value for key, value in weights.items() if key in model.state_dict()}, strict=False)
    model.lm_head.register_forward_hook(lambda _, __, out: seen.append(out))
    model(states, tokens, torch.zeros_like(tokens), ttt_steps=2)
    return seen


plain, off, on = forged(), forged(norm_output=False), forged(norm_output=True)
steps = {flag: others(norm_output=flag) for flag in (False, True)}
near = lambda a, b: bool(torch.allclose(a, b, atol=1e-4))
seen = {
    "SpecForge: left out = true": near(plain, on),
    "SpecForge: false = left out": near(plain, off),
    "speculators: first step of false = of true": near(steps[False][0], steps[True][0]),
    "speculators: second step of false = of true": near(steps[False][1], steps[True][1]),
    "speculators' false = SpecForge's true, first step": near(steps[False][0], on),
    "speculators' false = SpecForge's false, first step": near(steps[False][0], off),
}
print("speculators", version("speculators"), "specforge", version("specforge"))
for name, holds in seen.items():
    print(f"{name}: {holds}")
as_recorded = list(seen.values()) == [True, False, True, False, True, False]
print("PASS" if as_recorded else "FAIL")
raise SystemExit(not as_recorded)
P
venv/bin/python run.py 2>/dev/null
