"""What a visitor chooses before a run: models, prompt, proposer, rule and sampling."""
