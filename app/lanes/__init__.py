"""What a lane is: its settings, its words, its place in the page's address."""
