"""Setting up: uv looks where pip's settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import install


def test_uv_looks_where_pip_s_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a mirror that uv does not know, and a package fetched where pip's settings forbid it."""
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://file.example/simple\nextra-index-url = https://a.example\n"
    )
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://b.example https://c.example")
    found = install.places()
    assert found is not None
    assert found[:2] == ["--index-url", "https://file.example/simple"]
    assert found[2:6] == ["--extra-index-url", "https://b.example", "--extra-index-url", "https://c.example"]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert install.places() is None
