"""Lanes: their settings, their names, their place in the page's address."""
