"""What is loaded together: target, drafts, trained heads and tokenizer; where their files come from."""
