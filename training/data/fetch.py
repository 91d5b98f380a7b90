"""How does the corpus get onto a machine? Downloads the pinned sources and rebuilds the corpus files.

Not run against the network by its authors (the machine it was written on had none): the transforms and the
archive guard are tested on small archives made in the tests.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import lzma
import os
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from training.data.archive import MAX_FILE_BYTES, read_tarball
from training.data.documents import read_texts
from training.data.transforms import TRANSFORMS
from training.shapes import EOS_TOKEN

SOURCES_FILE = Path(__file__).with_name("sources.toml")
MAX_DOWNLOAD = 512 * 2**20
KINDS = ("github", "huggingface", "manual", "program")


def load_sources(path: Path = SOURCES_FILE) -> list[dict[str, Any]]:
    """The sources in file order; a clear error for one that is not complete."""
    sources: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["source"]
    for source in sources:
        name = source.get("output", "?")
        needed = ["output", "kind", "repo", "licence", "sha256"]
        if source.get("kind") in ("github", "huggingface"):
            needed += ["commit", "include", "transform"]
        missing = [key for key in needed if not source.get(key)]
        if missing:
            raise ValueError(f"Source {name} in {path.name} lacks {', '.join(missing)}: add it.")
        if source["kind"] not in KINDS:
            raise ValueError(
                f"Source {name}: kind {source['kind']!r} is unknown, expected one of {', '.join(KINDS)}."
            )
        if "transform" in source and source["transform"] not in TRANSFORMS:
            raise ValueError(f"Source {name}: there is no transform {source['transform']!r}.")
    return sources


def download(url: str, limit: int = MAX_DOWNLOAD) -> bytes:
    """The body at an https address, at most `limit` bytes; a clear error where it cannot be had."""
    if not url.startswith("https://"):
        raise ValueError(f"{url} is not an https address.")
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            body: bytes = response.read(limit + 1)
    except (urllib.error.URLError, TimeoutError) as error:
        raise ValueError(f"{url} could not be fetched ({error}): check the network and try again.") from error
    if len(body) > limit:
        raise ValueError(f"{url} is larger than {limit} bytes: refused.")
    return body


def github_files(source: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The wanted files of a GitHub commit."""
    data = download(f"https://codeload.github.com/{source['repo']}/tar.gz/{source['commit']}")
    return list(read_tarball(data, source["commit"], source["include"], source.get("exclude")))


def huggingface_files(source: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The wanted files of a dataset revision; the service reports the full revision, which is checked."""
    repo, commit = source["repo"], source["commit"]
    listing = json.loads(download(f"https://huggingface.co/api/datasets/{repo}/revision/{commit}"))
    if not str(listing.get("sha", "")).startswith(commit):
        raise ValueError(
            f"{repo} answered with revision {listing.get('sha')!r}, expected {commit!r}: refused."
        )
    names = [str(entry["rfilename"]) for entry in listing.get("siblings", [])]
    wanted = [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in source["include"])]
    base = f"https://huggingface.co/datasets/{repo}/resolve/{listing['sha']}"
    return [(name, download(f"{base}/{quote(name)}")) for name in wanted]


def written_code(corpus: Path) -> list[tuple[str, bytes]]:
    """The code files already fetched, as (name, content) pairs, one per document."""
    return [
        (f"{path.name}/{number:05d}", text.encode("utf-8"))
        for path in sorted(corpus.glob("code_*.txt.xz"))
        for number, text in enumerate(read_texts(path))
    ]


def serialise(items: Iterator[Any], output: str) -> bytes:
    """Documents or records as the bytes of the uncompressed corpus file."""
    if output.endswith(".jsonl.xz"):
        return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode("utf-8")
    return "".join(f"{str(item).replace(EOS_TOKEN, '')}\n{EOS_TOKEN}\n" for item in items).encode("utf-8")


def write_source(source: dict[str, Any], files: list[tuple[str, bytes]], corpus: Path) -> dict[str, Any]:
    """Transform the files, write the corpus file atomically; returns its manifest row."""
    body = serialise(iter(TRANSFORMS[source["transform"]](files)), source["output"])
    if not body:
        raise ValueError(
            f"{source['output']}: no document came out of {len(files)} files; check its include globs."
        )
    path = corpus / source["output"]
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(lzma.compress(body))
    os.replace(partial, path)
    digest = hashlib.sha256(body).hexdigest()
    row = {key: source.get(key) for key in ("output", "kind", "repo", "commit", "licence")}
    return row | {"bytes": len(body), "sha256": digest, "as_trained": digest.startswith(source["sha256"])}


def fetch(corpus: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """Fetch every source that can be rebuilt into `corpus`; returns and writes the manifest rows.

    Sources of kind `manual` are listed with their note. A file already there is kept.
    """
    corpus.mkdir(parents=True, exist_ok=True)
    rows = []
    for source in load_sources():
        path = corpus / source["output"]
        if (only and source["output"] not in only) or path.is_file():
            continue
        if source["kind"] == "manual":
            rows.append({"output": source["output"], "kind": "manual", "note": source.get("note", "")})
            continue
        if source["kind"] == "program":
            files = written_code(corpus)
        else:
            files = github_files(source) if source["kind"] == "github" else huggingface_files(source)
        rows.append(write_source(source, files, corpus))
    (corpus / "fetched.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


__all__ = ["MAX_FILE_BYTES", "fetch", "load_sources", "write_source"]
