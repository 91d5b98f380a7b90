"""The loaded models: the bundled family first, then the server's default, others on demand."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.config import MOST_DOWNLOAD, Policy
from specdec_core.foundations.errors import DownloadRefused, ModelError, SpecdecError
from specdec_core.models import catalogue as core_catalogue

from .api import Family

log = logging.getLogger(__name__)

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")

State = Literal["absent", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which models a run uses: the bundled family without a target, else a catalogue name or a model's own."""

    target: str | None = None
    draft: str | None = None
    device: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Status:
    """A choice's loading progress; `text` can be shown."""

    state: State = "absent"
    text: str = ""
    fraction: float | None = None
    seconds: float = 0.0


def permitted(choice: ModelChoice, policy: Policy, catalogue: Collection[str]) -> ModelChoice:
    """The choice with its folders resolved.

    Raises:
        ModelError: if the operator does not allow it, or a name is neither a hub id nor a folder below the root.
    """
    if choice.target is None or (choice.target == policy.family and choice.draft is None):
        return choice
    if policy.models == "bundled":
        raise ModelError("This server runs only its bundled models; start your own copy to use others.")
    names = {name for name in (choice.target, choice.draft) if name}
    if policy.models == "catalogue" and not names <= set(catalogue):
        raise ModelError(
            "This server runs only the models of its catalogue; start your own copy to use others."
        )
    return replace(
        choice,
        target=_resolved(choice.target, policy),
        draft=_resolved(choice.draft, policy) if choice.draft else None,
    )


def family(name: str) -> ModelChoice:
    """The choice for a catalogue entry, with the partners that the entry names."""
    return ModelChoice() if name == core_catalogue.BUNDLED else ModelChoice(name)


def _resolved(name: str, policy: Policy) -> str:
    if core_catalogue.named(name) is not None:
        return name
    root = policy.models_root
    if root is not None:
        try:
            folder = (root / name).resolve()  # resolves links, so that none can lead out of the root
            if folder != root and folder.is_relative_to(root) and folder.is_dir():
                return str(folder)
        except (OSError, ValueError):  # too long or otherwise invalid as a path
            pass
    # The loader would read a name that is also a path from the disk, bypassing the root.
    if HUB_ID.fullmatch(name) and ".." not in name and not Path(name).exists():
        return name
    where = "the operator's models folder" if root else "this machine"
    raise ModelError(
        f"“{name[:80]}” is not a model's name. Give a hub id such as openai-community/gpt2"
        + (f", or a folder below {where}." if root else "; this server has no models folder set.")
    )


class ModelCache:
    """Loads models one at a time and keeps the most recently used families.

    Args:
        load: loads the models of a choice.
        fetch: downloads what a name needs, at most so many bytes, reporting those so far and in all, until its last
            argument says to stop.
        prepare: converts what a choice needs, reporting its progress (0 to 1, or None) and its current step.
        dropped: called with each choice whose models are no longer kept.
        keep: how many families are kept besides those in `stay`, counting the bundled one.
        stay: families loaded at the start, in this order, and never unloaded.
    """

    def __init__(
        self,
        load: Callable[[ModelChoice], Family],
        fetch: Callable[[str, int, Callable[[int, int], None], Callable[[], bool]], None],
        *,
        most_bytes: int = MOST_DOWNLOAD,
        prepare: Callable[[ModelChoice, Callable[[float | None, str], None]], None] = lambda choice, report: (
            None
        ),
        dropped: Callable[[ModelChoice], None] = lambda choice: None,
        keep: int = 2,
        stay: Sequence[ModelChoice] = (ModelChoice(),),
    ) -> None:
        self._most_bytes = most_bytes
        self._load, self._fetch, self._prepare, self._dropped = load, fetch, prepare, dropped
        self._keep, self._stay = keep, tuple(stay)
        self._families: OrderedDict[ModelChoice, Family] = OrderedDict()
        self._status: dict[ModelChoice, Status] = {}
        self._guard = threading.Lock()
        self._loading = threading.Lock()  # one load at a time
        self._warmed = threading.Event()

    def warm(self) -> None:
        """Start loading the families that stay, the bundled one first, on a thread of its own."""
        for choice in self._stay:
            words = (
                "The bundled models are warming up"
                if choice == ModelChoice()
                else "Waiting for the bundled models"
            )
            self._set(choice, Status("loading", words))
        threading.Thread(target=self._warm, name="warm-up", daemon=True).start()

    def wait(self) -> None:
        """Wait until the families that stay are loaded, or have failed to."""
        self._warmed.wait()

    def _warm(self) -> None:
        for choice in self._stay:
            try:
                self.get(choice)
            except SpecdecError as error:
                log.warning("%s could not be loaded: %s", _called(choice), error)
            except Exception:
                log.exception("%s could not be loaded", _called(choice))
        self._warmed.set()

    def status(self, choice: ModelChoice) -> Status:
        """The choice's loading progress."""
        with self._guard:
            return self._status.get(choice, Status())

    def ready(self, choice: ModelChoice) -> Family | None:
        """The models, if they are loaded."""
        with self._guard:
            return self._families.get(choice)

    def get(self, choice: ModelChoice, gone: Callable[[], bool] = lambda: False) -> Family:
        """The models, loaded if necessary, unless `gone` returns true before they are downloaded.

        Raises:
            ModelError: one sentence, if they are unavailable.
        """
        while not self._loading.acquire(timeout=0.1):
            if models := self._take(choice):
                return models
            if gone():
                raise ModelError("The run was stopped before its models were loaded.")
        try:
            return self._take(choice) or self._bring(choice, gone)
        finally:
            self._loading.release()

    def _take(self, choice: ModelChoice) -> Family | None:
        with self._guard:
            models = self._families.get(choice)
            if models is not None:
                self._families.move_to_end(choice)
            return models

    def _bring(self, choice: ModelChoice, gone: Callable[[], bool]) -> Family:
        started = time.perf_counter()
        self._set(choice, Status("loading", "Loading the models"))
        try:
            self._prepare(choice, self._reporter(choice))
            for name in (choice.target, choice.draft):
                if name and not Path(name).is_absolute():
                    self._download(choice, name, gone)
            self._set(choice, Status("loading", "Loading the models"))
            models = self._load(choice)
        except Exception as error:
            message = (
                str(error)
                if isinstance(error, SpecdecError)
                else "The models could not be loaded; the log has the details."
            )
            self._set(choice, Status("failed", message))
            if isinstance(error, SpecdecError):
                raise
            log.exception("loading %s failed", choice)
            raise ModelError(message) from error
        seconds = time.perf_counter() - started
        with self._guard:
            self._families[choice] = models
            others = [key for key in self._families if key not in self._stay]
            unwanted = others[: max(0, len(others) - (self._keep - 1))]
            for old in unwanted:
                del self._families[old]
                self._status.pop(old, None)
        for old in unwanted:
            self._dropped(old)
        self._set(choice, Status("ready", "ready", 1.0, seconds))
        log.info("loaded %s in %.1f s", _called(choice), seconds)
        return models

    def _reporter(self, choice: ModelChoice) -> Callable[[float | None, str], None]:
        """Shows a conversion's progress on the page, and logs it in steps of 10%."""
        logged = -1

        def report(fraction: float | None, words: str) -> None:
            nonlocal logged
            self._set(choice, Status("loading", words, fraction))
            if fraction is None or int(10 * fraction) > logged:
                logged = logged if fraction is None else int(10 * fraction)
                share = "" if fraction is None else f"{fraction:.0%} "
                log.info("preparing %s: %s%s", _called(choice), share, words)

        return report

    def _download(self, choice: ModelChoice, name: str, gone: Callable[[], bool]) -> None:
        def on_progress(done: int, total: int) -> None:
            share = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
            self._set(
                choice, Status("loading", f"Downloading {name}: {share}", done / total if total else None)
            )

        try:
            self._fetch(name, self._most_bytes, on_progress, gone)
        except DownloadRefused:
            raise
        except ModelError as error:  # a local copy may still do without the network; loading will tell
            log.info("%s", error)

    def _set(self, choice: ModelChoice, status: Status) -> None:
        with self._guard:
            self._status[choice] = status
            failed = [key for key, value in self._status.items() if value.state == "failed"]
            for old in failed[:-20]:
                del self._status[old]


def _called(choice: ModelChoice) -> str:
    return choice.target or "the bundled models"
