"""What learners do themselves: write, and train a draft."""
