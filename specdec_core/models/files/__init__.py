"""Where a model's files come from, which of them are read, and what is wrong with them."""
