"""What the course demonstrates live: broken decoders, Jacobi decoding, rounding."""
