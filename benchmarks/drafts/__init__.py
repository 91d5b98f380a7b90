"""Drafts trained for one model."""
