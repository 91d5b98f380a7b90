"""Runs that are kept: stored for their owner in one SQLite file, shared by links, and the examples that ship."""
