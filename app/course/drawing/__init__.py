"""What a picture consists of, and how it is drawn on a page."""
