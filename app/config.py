"""The operator's policy and file locations, read once from the environment."""

from __future__ import annotations

import difflib
import logging
import os
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import unquote

from specdec_core.models import catalogue
from specdec_measure.watching.client import Server, WatchError

log = logging.getLogger(__name__)

Allowed = Literal["bundled", "catalogue", "any"]
Decoder = Literal["local", "serve"]
SETTINGS = (
    "ALLOWED_HOSTS",
    "ALLOW_MODELS",
    "BUNDLED",
    "CACHE",
    "COOKIE_SECRET",
    "DATABASE",
    "DECODER",
    "DEFAULT_MODELS",
    "ENDPOINTS",
    "FRAME_ANCESTORS",
    "IGNORE_MEMORY",
    "KERNELS",
    "LIBRARY",
    "LIBRARY_MB",
    "LOG",
    "MAX_DOWNLOAD_GB",
    "MODELS_ROOT",
    "PATH",
    "RAY_ADDRESS",
    "SERVE_CPUS",
    "SERVE_FAMILIES",
    "SERVE_GPUS",
    "SERVE_QUEUE",
    "SERVE_REPLICAS",
    "WATCH_KEY",
)  # each after SPECDEC_; read here, by the decoders and by the core
HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
PATH = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)*")  # RFC 3986, section 3.3
SECRET = 32  # characters
DATABASES = ("postgresql://", "postgresql+psycopg://", "sqlite:///")
ORIGIN = re.compile(r"https?://(\*\.)?[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?(:\d{1,5})?")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERY_ADDRESS = ("0.0.0.0", "::")  # a server that listens there has all addresses of its machine
ADDRESSES = "<address>"
MOST_DOWNLOAD = 20_000_000_000  # bytes, of one model
LIBRARY_BYTES = 2_000_000_000


def _own_folder() -> Path:
    """Where the server keeps its data by default: in the repository, or in the user's own folder for an installed
    package, which an upgrade replaces."""
    home = Path(__file__).resolve().parent.parent
    if home.name != "specdec_lab":
        return home / "var"
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "specdec-lab"
    except RuntimeError:  # a user without a home folder
        return home / "var"


LIBRARY = _own_folder() / "library.sqlite3"


@dataclass(frozen=True, slots=True)
class Policy:
    """Where the server listens, which models its visitors may load, where they run, and where their runs are kept.

    `hosts` are the names the server answers to: an unknown name in the Host header means DNS rebinding, or a proxy that
    should be named. `ADDRESSES` among them stands for every address, and `*` alone for every name.
    `family` is the catalogue name of the default family, `frames` the origins whose pages may show the app in a frame.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    path: str = ""  # below which all addresses are, such as /specdec; decoded, as servers hand it on
    models: Allowed = "any"
    models_root: Path | None = None
    hosts: tuple[str, ...] = ("*",)
    frames: tuple[str, ...] = ()
    library: Path | None = None  # None: in memory, until the server stops
    database: str = ""  # the URL of a database that is used instead
    library_bytes: int = LIBRARY_BYTES  # what all visitors' runs may take
    cookie_secret: str = ""  # signs visitors' cookies; empty: one that the database keeps
    family: str = catalogue.BUNDLED
    most_download: int = MOST_DOWNLOAD
    decoder: Decoder = "local"
    endpoints: tuple[str, ...] = ()  # running servers that visitors may watch and race
    watch_key: str = field(default="", repr=False)  # for these


def read(environment: Mapping[str, str] = os.environ) -> Policy:
    """The policy set by the environment.

    Raises:
        ValueError: one sentence naming the invalid variable.
    """
    _known(environment)
    host = environment.get("HOST", "").strip().strip("[]").lower() or "127.0.0.1"
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ValueError(
            f"HOST has to be an address or a name of this machine, such as 127.0.0.1 or 0.0.0.0, got {host!r}."
        ) from None
    port = environment.get("PORT", "").strip() or "8501"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"PORT has to be a number from 1 to 65535, got {port!r}.")
    # A server that others can reach downloads models named by visitors only if its operator allows it.
    models = environment.get("SPECDEC_ALLOW_MODELS", "").strip() or (
        "any" if is_loopback(host) else "bundled"
    )
    if models not in get_args(Allowed):
        raise ValueError(
            f"SPECDEC_ALLOW_MODELS has to be one of {', '.join(get_args(Allowed))}, got {models!r}."
        )
    root = environment.get("SPECDEC_MODELS_ROOT", "").strip()
    if root and not os.path.isdir(root):  # which, unlike Path's, takes any text
        raise ValueError(f"SPECDEC_MODELS_ROOT has to be a folder, got {root[:80]!r}.")
    named = _hosts(environment.get("SPECDEC_ALLOWED_HOSTS", ""))
    secret = environment.get("SPECDEC_COOKIE_SECRET", "").strip()
    if secret and len(secret) < SECRET:
        raise ValueError(
            f"SPECDEC_COOKIE_SECRET has to have at least {SECRET} characters; docs/operate.md says how to make one."
        )
    database = environment.get("SPECDEC_DATABASE", "").strip()
    if database and not database.startswith(DATABASES):
        raise ValueError("SPECDEC_DATABASE has to be a URL that begins with postgresql:// or sqlite:///.")
    most = environment.get("SPECDEC_MAX_DOWNLOAD_GB", "").strip() or str(MOST_DOWNLOAD / 1e9)
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", most):
        raise ValueError(f"SPECDEC_MAX_DOWNLOAD_GB has to be a number such as 20 or 0.5, got {most[:80]!r}.")
    return Policy(
        host=host,
        port=int(port),
        path=_path(environment.get("SPECDEC_PATH", "")),
        models=cast(Allowed, models),
        models_root=Path(root).resolve() if root else None,
        hosts=named or (LOOPBACK if is_loopback(host) else (*LOOPBACK, *_own_names(host), ADDRESSES)),
        frames=_frames(environment.get("SPECDEC_FRAME_ANCESTORS", "")),
        library=None if database else _library(environment.get("SPECDEC_LIBRARY")),
        database=database,
        library_bytes=_library_bytes(environment.get("SPECDEC_LIBRARY_MB", "")),
        cookie_secret=secret,
        most_download=round(float(most) * 1e9),
        family=_family(environment.get("SPECDEC_DEFAULT_MODELS", "").strip()),
        decoder=_decoder(environment.get("SPECDEC_DECODER", "").strip() or "local"),
        endpoints=_endpoints(environment.get("SPECDEC_ENDPOINTS", "")),
        watch_key=environment.get("SPECDEC_WATCH_KEY", "").strip(),
    )


def _known(environment: Mapping[str, str]) -> None:
    """Reject a setting that nothing reads: misspelled, it would do nothing, and nobody would know."""
    for name in environment:
        setting = name.removeprefix("SPECDEC_")
        if setting != name and setting not in SETTINGS:
            near = difflib.get_close_matches(setting, SETTINGS, n=1)
            raise ValueError(
                f"{name} is not a setting{f'; did you mean SPECDEC_{near[0]}?' if near else '.'}"
            )
    if (loads := environment.get("SPECDEC_IGNORE_MEMORY", "").strip()) not in ("", "0", "1"):
        raise ValueError(f"SPECDEC_IGNORE_MEMORY has to be 1 or empty, got {loads[:80]!r}.")
    _cache(environment.get("SPECDEC_CACHE", "").strip())
    if (form := environment.get("SPECDEC_LOG", "").strip()) not in ("", "json"):
        raise ValueError(f"SPECDEC_LOG has to be json or empty, got {form[:80]!r}.")


def _cache(named: str) -> None:
    """Reject a folder for converted models that cannot be made: with it, only a visitor would meet the error."""
    if not named:
        return
    try:
        there = next(path for path in (Path(named), *Path(named).absolute().parents) if path.exists())
        usable = there.is_dir() and (there == Path(named) or os.access(there, os.W_OK))
    except (OSError, ValueError):  # too long, or otherwise no path
        usable = False
    if not usable:
        raise ValueError(f"SPECDEC_CACHE has to be a folder, or one that can be made, got {named[:80]!r}.")


def _library_bytes(named: str) -> int:
    """What all visitors' runs may take."""
    number = named.strip() or str(LIBRARY_BYTES // 1_000_000)
    if not re.fullmatch(r"\d{1,8}", number) or int(number) < 10:
        raise ValueError(
            f"SPECDEC_LIBRARY_MB has to be a whole number from 10 to 99999999, got {named.strip()[:80]!r}."
        )
    return int(number) * 1_000_000


def _hosts(named: str) -> tuple[str, ...]:
    """The host names that the operator allows."""
    names = tuple(part.strip().lower() for part in named.split(",") if part.strip())
    for name in names if names != ("*",) else ():
        if not HOST_NAME.fullmatch(name):
            raise ValueError(
                "SPECDEC_ALLOWED_HOSTS has to name hosts as lab.example or [::1], without a port, or be * for all, "
                f"got {name!r}."
            )
    return names


def _endpoints(named: str) -> tuple[str, ...]:
    """The servers that visitors may watch, each by its address; never one that a visitor names."""
    urls = tuple(dict.fromkeys(part.strip().rstrip("/") for part in named.split(",") if part.strip()))
    for url in urls:
        try:
            Server(url)
        except WatchError as error:
            raise ValueError(f"SPECDEC_ENDPOINTS has to name servers by their addresses: {error}") from None
    return urls


def _frames(named: str) -> tuple[str, ...]:
    """The origins whose pages may show the app in a frame."""
    origins = tuple(part.strip().lower() for part in named.split(",") if part.strip())
    for origin in origins if origins != ("*",) else ():
        if not ORIGIN.fullmatch(origin):
            raise ValueError(
                "SPECDEC_FRAME_ANCESTORS has to name sites as https://lms.example or https://*.school.example, without "
                f"a path, or be * for all, got {origin[:80]!r}."
            )
    return origins


def _path(named: str) -> str:
    """The path below which the app is, decoded and without a closing slash."""
    given = f"/{named.strip().strip('/')}".rstrip("/")
    path = unquote(given, errors="replace")
    parts = path.split("/")[1:]
    legal = PATH.fullmatch(given) and len(parts) == given.count("/") and path.isprintable()
    # what is part of no path once it is decoded; and a room's pages look for a part named r
    if not legal or re.search(r"[\\?#%\ufffd]", path) or any(part == "r" or part[0] == "." for part in parts):
        raise ValueError(
            "SPECDEC_PATH has to be a path such as /specdec or /user/ada@school.example, of letters, digits, "
            "-._~!$&'()*+,;=:@ and other characters written as %C3%A9, with no part that begins with a dot and none "
            f"named r, got {given[:80]!r}."
        )
    return path


def _decoder(named: str) -> Decoder:
    """Where models are loaded: `app.decoding.in_child.local` or `app.decoding.on_ray.serve`."""
    if named not in get_args(Decoder):
        raise ValueError(f"SPECDEC_DECODER has to be one of {', '.join(get_args(Decoder))}, got {named!r}.")
    return cast(Decoder, named)


def _family(named: str) -> str:
    """The default family's name in the catalogue."""
    entry = catalogue.named(named or catalogue.CHAT)
    if entry is None:
        known = ", ".join(entry.aliases[0] if entry.aliases else entry.name for entry in catalogue.entries())
        raise ValueError(f"SPECDEC_DEFAULT_MODELS has to be one of {known}, got {named[:80]!r}.")
    return entry.name


def _library(named: str | None) -> Path | None:
    """The library's file: as named, None if the name is empty; by default our own if it can be written."""
    if named is None:
        folder = next(parent for parent in LIBRARY.parents if parent.exists())
        if os.access(folder, os.W_OK):
            return LIBRARY
        log.warning(
            "The library is kept in memory, since %s cannot be written; SPECDEC_LIBRARY names another file.",
            LIBRARY,
        )
        return None
    path = Path(named.strip())
    try:
        is_folder = bool(named.strip()) and path.is_dir()
    except OSError as error:
        raise ValueError(f"SPECDEC_LIBRARY has to be a file's path: {error.strerror}.") from None
    if is_folder:
        raise ValueError(f"SPECDEC_LIBRARY has to be a file, and {named.strip()!r} is a folder.")
    return path.resolve() if named.strip() else None


def _own_names(host: str) -> list[str]:
    """What others on the network call this machine."""
    name = socket.gethostname().lower()
    return list(dict.fromkeys([host, name, f"{name.split('.')[0]}.local"]))


def answers_to(name: str, hosts: Collection[str]) -> bool:
    """Whether a server with these `hosts` answers to the name in a Host header."""
    name = name.lower()
    if name in hosts or "*" in hosts:
        return True
    try:
        return ADDRESSES in hosts and bool(ip_address(name.strip("[]")))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a host name or address means the machine that says it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
