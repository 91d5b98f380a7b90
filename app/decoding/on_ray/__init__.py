"""Decoders on Ray Serve."""
