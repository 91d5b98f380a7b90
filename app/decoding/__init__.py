"""The seam to the decoder: loaded models, runs, and the queue for a device."""
