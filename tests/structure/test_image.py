"""The container image as its files are laid out: no engine is needed, so that a copied folder too few is found here."""

from __future__ import annotations

import json
import os
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

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


def test_the_image_starts_the_app_from_where_its_files_are() -> None:
    """Catches: a start that needs the repository around it; `test_package.py` compares and starts what is read."""
    (command,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    assert json.loads(command) == ["python", "-m", "app"]
    assert (
        re.search(r"PYTHONPATH=/opt/specdec-lab\b", DOCKERFILE) and "WORKDIR /opt/specdec-lab\n" in DOCKERFILE
    )
