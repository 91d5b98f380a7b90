"""`python -m app.site [FOLDER]`: write the static site."""

from __future__ import annotations

import sys
from pathlib import Path

from .build import write


def main(arguments: list[str]) -> None:
    """Write it to the folder that was named, or to `site`."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        sys.exit("Usage: python -m app.site [FOLDER]")
    folder = Path(arguments[0] if arguments else "site")
    try:
        pages = write(folder)
    except (OSError, ValueError) as error:
        sys.exit(f"The site could not be written to '{folder}': {error}")
    print(
        f"{len(pages)} files in {folder}; open {folder / 'index.html'}, or put the folder on any static host."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
