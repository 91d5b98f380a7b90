"""Training pipeline of Specdec Lab: from openly licensed text to the target and draft models."""
