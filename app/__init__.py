"""The web app of Specdec Lab. It knows traces and events, never tensors."""
