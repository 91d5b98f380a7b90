"""One model over one token tree: its forward pass, its KV cache, and the machine it runs on."""
