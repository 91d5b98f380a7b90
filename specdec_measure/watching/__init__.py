"""A running server's speculation, measured from outside: guesses kept, the time of a pass, what to change."""
