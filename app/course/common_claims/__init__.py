"""Common claims and the page that shows them."""
