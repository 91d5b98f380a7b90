"""Between text and tokens: tokenizers, chat templates, and vocabularies that differ."""
