"""The app, whose default family comes only once the file `COMES_WITH` names is there. Started by test_real."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from app.decoding.api import Family
from app.decoding.models import ModelCache, ModelChoice
from app.web.server import main

bring = ModelCache._bring


def late(shelf: ModelCache, choice: ModelChoice, gone: Callable[[], bool]) -> Family:
    """Load the models, all but the bundled ones after the file."""
    while choice != ModelChoice() and not Path(os.environ["COMES_WITH"]).exists():
        time.sleep(0.05)
    return bring(shelf, choice, gone)


ModelCache._bring = late  # type: ignore[method-assign]
main()
