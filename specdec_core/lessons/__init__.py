"""What the course shows by running it: broken decoders under the meters, Jacobi decoding, rounding."""
