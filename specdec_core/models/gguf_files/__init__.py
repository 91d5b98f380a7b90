"""GGUF files: their header, their configuration, and their conversion, which is kept."""
