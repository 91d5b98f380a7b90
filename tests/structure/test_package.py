"""The package as somebody installs it: a wheel in an environment that has its requirements and not the repository."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

from .test_image import copied, health_check

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = (
    "LICENSE",
    "README.md",
    "app",
    "assets",
    "pyproject.toml",
    "setup.py",
    "specdec_cli",
    "specdec_core",
    "specdec_lessons",
    "specdec_measure",
    "training",
)
# Weights hardly shrink: to compress them takes longer than all else.
BUILD = """
import sys
from setuptools import build_meta
build_meta.build_wheel(sys.argv[1], {"--build-option": ["--compression=stored"]})
"""
USE = """
import specdec_core as sd
trace = sd.decode(sd.load_models(device="cpu", dtype="float32"), "Once upon a time", sd.Settings(max_new_tokens=16))
assert len(trace.token_ids) == 16 and trace.audit() == []
trace.show(path="run.html")
import importlib.util, sys
print(sd.__file__, sd.assets(), *sys.path, sep="\\n")
print(importlib.util.find_spec("training"))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which the wheel was installed."""
    place = tmp_path_factory.mktemp("package")
    source = place / "source"  # what is built writes into the folder that it is built from
    source.mkdir()
    for name in (*BUILT_FROM, ".streamlit"):
        (source / name).symlink_to(ROOT / name)
    done(sys.executable, "-c", BUILD, str(place), at=source)
    (wheel,) = place.glob("specdec_lab-*.whl")
    done(sys.executable, "-m", "venv", "--without-pip", str(place / "venv"), at=place)
    programs = place / "venv" / "bin"
    packages = done(
        str(programs / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", at=place
    )
    own = sysconfig.get_path("purelib")
    Path(packages.strip(), "requirements.pth").write_text(own + "\n", encoding="utf-8")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", *options)
    done(*pip, str(wheel), at=place)
    return programs


def test_the_image_has_what_the_wheel_has(installed: Path) -> None:
    """Catches: a file that the app reads, as it is started from the wheel below, and that the image has not."""
    (wheel,) = installed.parents[1].glob("specdec_lab-*.whl")
    names = {name.removeprefix("specdec_lab/") for name in zipfile.ZipFile(wheel).namelist()}
    own = {name for name in names if not name.startswith(("training/", "specdec_lab-")) and name.count("/")}
    assert len(own) > 500
    assert own - {name for _, name in copied()} == set()


def done(*command: str, at: Path) -> str:
    """What the command wrote; its errors where it failed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, cwd=at, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_the_wheel_decodes_and_shows_without_the_repository(installed: Path, tmp_path: Path) -> None:
    """Catches: a file that is not in the wheel, or is looked for in the repository."""
    said = done(str(installed / "python"), "-c", USE, at=tmp_path)
    assert str(ROOT) + "\n" not in said and str(ROOT / "specdec_core") not in said
    assert said.rstrip().endswith("None"), "a name that is not ours is importable"
    assert "Once upon a time" in (tmp_path / "run.html").read_text(encoding="utf-8")
    lab = sorted(
        path.name for path in Path(said.splitlines()[1]).parent.iterdir() if path.name != "__pycache__"
    )
    assert lab == [".streamlit", "app", "assets", "training"]
    help_ = done(str(installed / "specdec"), "--help", at=tmp_path)
    assert {"decode", "app", "train"} <= set(re.findall(r"[a-z]+", help_))
    assert "medusa" in done(str(installed / "specdec"), "train", "--help", at=tmp_path)


@pytest.mark.slow
def test_the_installed_app_answers_and_keeps_its_library_elsewhere(installed: Path, tmp_path: Path) -> None:
    """Catches: `specdec app` that starts only beside the repository, takes a folder `app` of the user's, or writes into
    the package; and a health check of the image that fails a server that is well, or passes one that is not there."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("raise SystemExit('the wrong app')")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    changed = {
        "XDG_DATA_HOME": str(tmp_path / "data"), "SPECDEC_DEFAULT_MODELS": "tiny", "HOST": "", "PORT": str(port),
        "PYTHONDONTWRITEBYTECODE": "1", "SPECDEC_CACHE": str(tmp_path / "converted"),
    }  # fmt: skip
    laid = {path for path in installed.parent.rglob("*") if path.is_file()}
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPECDEC_LIBRARY")
    }
    check, environment = health_check(), kept | changed
    assert subprocess.run(check, env=environment, capture_output=True).returncode != 0
    log = (tmp_path / "log").open("w+")
    server = subprocess.Popen(
        [installed / "specdec", "app", "--port", str(port)],
        cwd=tmp_path, env=environment, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        health = f"http://127.0.0.1:{port}/healthz"
        while (found := json.loads(answer(health, server, log.name)))["models"] == "warming":
            time.sleep(0.2)
        assert found["status"] == "ok" and found["models"] == "ready", Path(log.name).read_text()
        subprocess.run(check, env=environment, check=True, timeout=60)
        assert "Specdec Lab" in answer(f"http://127.0.0.1:{port}/r", server, log.name)
    finally:
        server.kill()  # its decoder ends with the pipe between them
        server.wait()
        log.close()
    assert (tmp_path / "data" / "specdec-lab" / "library.sqlite3").is_file()
    assert {path for path in installed.parent.rglob("*") if path.is_file()} == laid


def answer(address: str, server: subprocess.Popen[bytes], log: str) -> str:
    """What the server answers once it is there."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, Path(log).read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=10) as response:
                return str(response.read().decode())
        except OSError:
            time.sleep(0.5)
    raise AssertionError(Path(log).read_text()[-3000:])


def test_the_package_requires_what_the_tests_ran_with() -> None:
    """Catches: a requirement that was added or raised in one of the two places only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    ranges = {_name(line): line for line in (*project["dependencies"], *extras["app"])}
    pinned = dict(
        found.groups()
        for found in re.finditer(
            r"^([\w-]+(?:\[\w+\])?)==(\S+)",
            (ROOT / "requirements.txt").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    assert ranges.keys() == pinned.keys()
    from packaging.requirements import Requirement

    outside = [name for name, line in ranges.items() if pinned[name] not in Requirement(line).specifier]
    assert outside == []


def _name(line: str) -> str:
    return re.split(r"[~=<>]", line)[0]
