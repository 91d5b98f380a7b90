"""`specdec`, or `python -m specdec_cli`: the command line."""

import os
import signal
import sys

# an interrupted import cannot be cleaned up: Ctrl+C just exits
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from specdec_cli.commands import app  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)


def main(name: str = "specdec") -> None:
    """Run the command that was given; Ctrl+C exits quietly."""
    try:
        app(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main("python -m specdec_cli")
