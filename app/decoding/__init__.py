"""The seam to the decoder: loaded models, runs, and the line in front of a device."""
