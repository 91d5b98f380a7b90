"""Time, arithmetic, and what they buy."""
