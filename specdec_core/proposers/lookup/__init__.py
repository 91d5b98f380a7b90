"""Guesses looked up: in the text, in earlier texts, in what the target found likely before."""
