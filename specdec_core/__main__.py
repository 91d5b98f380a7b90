"""`python -m specdec_core`: the command line."""

from .cli import app

app(prog_name="python -m specdec_core")
