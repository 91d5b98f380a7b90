"""One model over one token tree: its forward pass, its KV cache, and the machine it runs on."""

PREFILL_CHUNK = 512  # tokens; bounds the mask for a long prompt and lets a cancelled run stop early
