"""The live page: the tiny models decode in the visitor's browser, in one file without a server."""
