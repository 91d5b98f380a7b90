"""Trained heads guess from the target's hidden states."""
