"""The same settings in other programs: transformers, vLLM, and servers."""
