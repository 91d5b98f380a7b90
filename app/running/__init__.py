"""A run on a page: waiting, the player, the headline numbers, charts and downloads."""
