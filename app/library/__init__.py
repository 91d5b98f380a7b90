"""What only the library page shows: runs in a list, and what tells one from the others. `records` keeps them."""
