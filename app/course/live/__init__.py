"""What the course computes or measures with the bundled models."""
