"""Figures of a finished run: headline numbers, distances and differences between texts."""
