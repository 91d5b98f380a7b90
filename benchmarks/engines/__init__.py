"""Other engines on the same files."""
