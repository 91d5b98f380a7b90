"""`python -m specdec_core`: the command line."""
