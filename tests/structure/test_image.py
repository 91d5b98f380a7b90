"""The container image as its files are laid out: no engine is needed, so that a copied folder too few is found here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.structure.test_package import answer

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
NEVER = (
    ".git/config",
    ".streamlit/secrets.toml",
    "app/web/__pycache__/routes.cpython-311.pyc",
    "assets/screenshots/lab.webp",
    "node_modules/typescript/package.json",
    "tests/conftest.py",
    "training/runs/log.txt",
    "var/library.sqlite3",
)


def sent(path: str) -> bool:
    """Whether the builder gets to see a file: the last pattern that it, or a folder around it, matches decides."""
    kept = True
    parts = path.split("/")
    above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").strip()
        if not pattern or pattern.startswith("#"):
            continue
        tried = (pattern, pattern.removeprefix("**/"))
        if any(fnmatchcase(one, each) for one in above for each in tried):
            kept = line.startswith("!")
    return kept


def copied() -> list[tuple[Path, str]]:
    """Each file that the Dockerfile copies, and its place in the image's folder."""
    found = []
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE):
        *sources, place = line.split()
        for source in sources:
            files = [
                (file, os.path.normpath(f"{place}/{file.relative_to(one) if one.is_dir() else file.name}"))
                for one in ROOT.glob(source)
                for file in ((one, *one.rglob("*")) if one.is_dir() else (one,))
                if file.is_file() and sent(file.relative_to(ROOT).as_posix())
            ]
            assert files, f"COPY {source}: .dockerignore leaves nothing of it"
            found += files
    return found


def health_check() -> list[str]:
    """The image's own command."""
    (line,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    python, *arguments = json.loads(line)
    assert python == "python"
    return [sys.executable, *arguments]


def test_the_image_has_the_licence_and_nothing_of_the_workplace() -> None:
    """Catches: an image that is passed on without its licence, or with a secret, tests or caches of its builder."""
    assert [path for path in NEVER if sent(path)] == []
    names = {name for _, name in copied()}
    assert {"LICENSE", ".streamlit/config.toml", "app/main.py", "requirements-serve.txt"} <= names
    assert [name for name in names if "__pycache__" in name or name.endswith("secrets.toml")] == []


def test_the_space_s_page_names_what_the_dockerfile_copies() -> None:
    """Catches: a space that cannot be built because its instructions leave a folder out."""
    text = (ROOT / "deploy" / "space" / "README.md").read_text(encoding="utf-8")
    tops = {
        source.split("/")[0]
        for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert [top for top in tops if f"`{top}`" not in text] == []


@pytest.mark.slow
def test_the_server_starts_from_what_the_image_holds(tmp_path: Path) -> None:
    """Catches: a file that the app reads and the image has not, a write outside of `var`, where the image's user may
    not, and a health check that fails a server that is well or passes one that is not there."""
    home = tmp_path / "image"
    for file, name in copied():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, home / name)
    laid = {path for path in home.rglob("*") if path.is_file()}
    (home / "var").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SPECDEC_")}
    changed = {
        "HOST": "127.0.0.1", "PORT": port, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        "SPECDEC_CACHE": str(tmp_path / "converted"), "SPECDEC_DEFAULT_MODELS": "tiny",
    }  # fmt: skip
    (command,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    start = [sys.executable, *json.loads(command)[1:]]
    check = health_check()
    assert subprocess.run(check, env=mine | changed, capture_output=True).returncode != 0, shlex.join(check)
    log = (tmp_path / "log").open("w+")
    server = subprocess.Popen(start, cwd=home, env=mine | changed, stdout=log, stderr=log)
    try:
        health = f"http://127.0.0.1:{port}/healthz"
        while json.loads(answer(health, server, log.name))["models"] == "warming":
            time.sleep(0.5)
        assert json.loads(answer(health, server, log.name))["models"] == "ready", Path(log.name).read_text()
        assert "Specdec Lab" in answer(f"http://127.0.0.1:{port}/r", server, log.name)
        subprocess.run(check, env=mine | changed, check=True, timeout=60)
    finally:
        server.terminate()
        server.wait(60)
        log.close()
    written = {path for path in home.rglob("*") if path.is_file()} - laid
    assert {path.relative_to(home).parts[0] for path in written} == {"var"}
