"""Parts of every page: the address, fragments, widgets, words and the visitor."""
