"""Several requests decoded in each pass, to measure what a batch leaves of a speedup."""
