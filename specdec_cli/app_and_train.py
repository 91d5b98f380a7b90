"""`app` and `train`: the programs that lie beside the core, started by name."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from specdec_core.foundations.errors import SpecdecError
from specdec_core.foundations.paths import root

from .render import sentences

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def start_app(
    host: Annotated[str | None, typer.Option(help="Where to listen; HOST or 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; PORT or 8501 by default.")] = None,
) -> None:
    """Serve the web app until Ctrl+C."""
    given = {"HOST": host, "PORT": port}
    os.environ.update({name: str(value) for name, value in given.items() if value is not None})
    with sentences():
        _become("app", needs="streamlit")


def train(context: typer.Context) -> None:
    """Train drafts and heads for a model; 'train --help' lists the stages."""
    with sentences():
        _become("training", needs="tqdm", arguments=context.args)


def _become(package: str, *, needs: str, arguments: list[str] | None = None) -> NoReturn:
    """Replace this process by `python -m package`.

    These packages have names that others use too, so they are installed in a folder that is not on the path. It goes
    first there, for the processes they start as well; `-P` keeps a package in the current folder from being taken.
    """
    folder = root()
    if not (folder / package).is_dir():
        raise SpecdecError(f"This installation has no folder '{package}' in '{folder}'. Install it again.")
    if find_spec(needs) is None:
        extra = {"training": "train"}.get(package, package)
        raise SpecdecError(f"This needs more packages: pip install 'specdec-lab[{extra}]'.")
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    os.execv(sys.executable, [sys.executable, "-P", "-m", package, *(arguments or [])])
