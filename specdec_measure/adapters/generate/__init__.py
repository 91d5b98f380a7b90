"""The `generate` of another library, recorded while it runs."""
