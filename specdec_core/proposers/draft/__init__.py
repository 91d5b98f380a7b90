"""A draft model guesses, or the target's own first layers: chains, trees, another tokenizer."""
