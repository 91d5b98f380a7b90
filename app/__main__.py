"""`python -m app`: start what decoders are forked from, which has to import PyTorch, and meanwhile the server."""

import argparse
import os
import sys

from app.decoding.in_child import forking

HELP = """Serve Specdec Lab until Ctrl+C. PORT and HOST say where (8501 on 127.0.0.1); the other settings are also
environment variables: docs/operate.md has the table, and is for whoever runs it for a class."""


def main() -> None:
    """Serve until interrupted (Ctrl+C: status 130 or 0); an unusable setting ends it with 2 and a sentence."""
    argparse.ArgumentParser("python -m app", description=HELP).parse_args()
    if os.environ.get("SPECDEC_DECODER", "").strip() in ("", "local"):
        forking.begin()
    from app.web import server

    try:
        server.main()
    except KeyboardInterrupt:  # uvicorn has ended everything in order, and raises the signal again
        sys.exit(130)


if __name__ == "__main__":
    main()
