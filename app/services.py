"""What all sessions of this process share: loaded models, runs, the library, the operator's policy."""

from __future__ import annotations

from functools import cache

from app.decoding.api import Decoders
from app.decoding.in_child.local import Local
from app.decoding.models import ModelCache, ModelChoice, family
from app.decoding.needs import Needs
from app.decoding.on_ray import cluster
from app.decoding.on_ray.serve import Serve
from app.decoding.run import Run
from app.decoding.runs import Runs
from app.records import keeping, visitor
from app.records.database import Database
from app.records.journal import Journal
from app.records.keys import Keys
from app.records.store import Library, Limits

from . import config as policy


@cache
def operator() -> policy.Policy:
    """The operator's policy."""
    return policy.read()


@cache
def decoder() -> Decoders:
    """The decoders: in processes of this server, or on Ray Serve.

    Raises:
        ValueError: one sentence, if they are to be on Ray Serve and a setting is invalid or Ray is not installed, or if
            they are not and a setting is only for Ray Serve.
    """
    if operator().decoder == "serve":
        return Serve(cluster.read())
    cluster.refuse_unused()
    return Local()


@cache
def shelf() -> ModelCache:
    """The loaded models."""
    usual, here = family(operator().family), decoder()
    return ModelCache(
        here.load,
        here.fetch,
        prepare=here.prepare,
        dropped=here.drop,
        most_bytes=operator().most_download,
        stay=tuple(dict.fromkeys((ModelChoice(), usual))),
    )


@cache
def needs() -> Needs:
    """What models need of the memory before they are loaded."""
    return Needs(decoder().needs)


@cache
def runs() -> Runs:
    """The runs of all sessions."""
    return Runs(
        lambda choice, gone: shelf().get(choice, gone),
        places=decoder().places,
        owner=visitor.of_session,
        remembered=visitor.is_remembered,
        save=_save,
        journal=journal(),
    )


@cache
def database() -> Database:
    """The database of everything that is kept.

    Raises:
        LibraryError: one sentence, if the one that the operator named cannot be used.
    """
    return Database(operator().database or operator().library)


@cache
def keys() -> Keys:
    """The secrets of this server."""
    return Keys(database(), operator().cookie_secret)


@cache
def library() -> Library:
    """The library of kept runs."""
    return Library(database(), Limits.within(operator().library_bytes))


@cache
def journal() -> Journal | None:
    """Where this process reads and writes about runs; None where nobody else could."""
    return Journal(database(), library().limits.all_bytes, _deleted) if database().lasting else None


def run_of(key: str | None, whose: str) -> Run | None:
    """The run that the address key `key` names, for this visitor: their own, or one that a shared link opens."""
    return keeping.find(key, whose, runs(), library(), journal())


def _deleted(run_id: str) -> None:
    runs().drop(run_id)


def _save(run: Run) -> None:
    keeping.keep(run, library())
