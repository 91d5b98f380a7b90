"""The files of deploy/ name what exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))


def test_settings_in_deploy_are_settings_of_the_app() -> None:
    """Catches: a setting that was renamed in the program and is set in vain in a container."""
    program = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    for name in ("compose.yaml", "rayservice.yaml"):
        text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        named = set(re.findall(r"^\s+(?:- \{ name: )?(SPECDEC_[A-Z_]+)[:,]", text, re.MULTILINE))
        assert named and all(setting in program for setting in named)


def test_applications_of_the_manifest_can_be_imported_and_ray_is_the_pinned_one() -> None:
    """Catches: a moved builder, and a cluster of another Ray than the image has."""
    spec = read("rayservice.yaml")["spec"]
    serve = yaml.safe_load(spec["serveConfigV2"])
    for application in serve["applications"]:
        module, _, name = application["import_path"].partition(":")
        assert callable(getattr(import_module(module), name)) and name == application["name"]
    pinned = (ROOT / "requirements-serve.txt").read_text(encoding="utf-8")
    assert f"ray[serve]=={spec['rayClusterConfig']['rayVersion']}" in pinned


def test_services_of_the_compose_file_depend_on_each_other_in_order() -> None:
    services = read("compose.yaml")["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    assert "app.decoding.cluster" in " ".join(services["ray"]["command"])
