"""Forward passes of our own for Llama-shaped models, and readers of models that are no plain decoder."""
