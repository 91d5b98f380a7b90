"""`python -m specdec_core`: the command line, which lies in a wing of its own."""

from specdec_cli.__main__ import main

if __name__ == "__main__":
    main("python -m specdec_core")
