"""What the pages of a room show."""
