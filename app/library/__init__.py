"""What only the library page shows: runs in lists, chosen, opened, named, shared and imported. `records` keeps them."""
