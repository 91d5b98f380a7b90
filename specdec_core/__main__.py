"""`python -m specdec_core`: the command line."""

import os
import signal
import sys

# an interrupted import cannot be cleaned up: Ctrl+C just exits
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from specdec_core.cli.commands import app  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    app(prog_name="python -m specdec_core")
except KeyboardInterrupt:
    sys.exit(130)
