"""A trace in a notebook, or as a file: the same player as the app's, in a self-contained page.

The page is made by `app/export`, which lies in `specdec_core.root()`; the core decodes and records without it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import SpecdecError, kind_of
from specdec_core.foundations.paths import root

if TYPE_CHECKING:
    from specdec_core.record.trace import Trace

MAKER = "app.export.page"
FRAME = "Speculative decoding, round by round"
HEIGHT = 900  # pixels


@dataclass(frozen=True, slots=True)
class PlayerPage:
    """A page that plays traces: a notebook displays it, `save` writes it. `html` is the whole document."""

    html: str
    height: int = HEIGHT

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, in UTF-8; an existing file is replaced.

        Raises:
            SpecdecError: one sentence, if the file cannot be written.
        """
        try:
            Path(path).write_text(self.html, encoding="utf-8", newline="\n")
        except OSError as error:
            reason = error.strerror or "unknown error"
            raise SpecdecError(
                f"The page could not be written to '{path}': {reason}. Choose another file."
            ) from None
        return Path(path)

    def _repr_html_(self) -> str:
        """A frame for the notebook. It has a separate origin, so its script cannot see the notebook."""
        page = self.html.replace("&", "&amp;").replace("'", "&#39;")
        look = f"title='{FRAME}' style='width: 100%; height: {self.height}px; border: 0'"
        return f"<iframe sandbox='allow-scripts allow-downloads' {look} srcdoc='{page}'></iframe>"

    def __repr__(self) -> str:
        return f"<player page, {len(self.html):,} characters; a notebook shows it, save(path) writes it>"


def show(
    traces: Sequence[Trace],
    *,
    labels: Sequence[str] | None = None,
    title: str | None = None,
    height: int = HEIGHT,
    path: str | Path | None = None,
) -> PlayerPage:
    """A page that plays `traces` as lanes of one prompt, plain decoding first; with `path` it is written there as well.

    Args:
        labels: the names of the lanes; by default from their settings.
        title: the page's heading.
        height: of the notebook's frame, in pixels.

    Raises:
        SpecdecError: one sentence: lanes of different prompts, a file that cannot be written, or `app/export` is
            missing.
    """
    if not isinstance(traces, Sequence):
        raise SpecdecError(f"The traces to show are a list, got {kind_of(traces)}.")
    if not (isinstance(height, int) and 200 <= height <= 4000):
        raise SpecdecError(f"The frame's height is 200 to 4000 pixels, got {height!r}.")
    page = PlayerPage(_maker().make(traces, labels, title=title), height)
    if path is not None:
        page.save(path)
    return page


def _maker() -> Any:
    """The module that makes pages, from the lab's own folder only.

    That folder is on the path for this import alone: a package `app` of the user's own keeps its name.
    """
    folder = root()
    sys.path.insert(0, str(folder))
    try:
        maker = import_module(MAKER)
    except ModuleNotFoundError:
        maker = None
    finally:
        sys.path.remove(str(folder))
    if maker is None or Path(str(maker.__file__)).resolve().parent != folder / "app" / "export":
        raise SpecdecError(
            "Showing a trace needs the lab's own package 'app', and another one of that name was found, or none. "
            "Run from the repository's root or from elsewhere with the package installed, or keep the record with "
            "to_json()."
        )
    return maker
