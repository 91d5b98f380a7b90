"""The files of deploy/ name what exists."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import config as policy
from app.decoding.on_ray import cluster as decoders

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))


def test_settings_in_deploy_are_settings_of_the_app() -> None:
    """Catches: a setting that was renamed in the program and is set in vain in a container."""
    program = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    text = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"^\s+(SPECDEC_[A-Z_]+):", text, re.MULTILINE))
    assert named and all(setting in program for setting in named)


def test_the_replicas_of_deploy_fit_on_its_machine() -> None:
    """Catches: decoders that wait for ever for processors that no container of the same file has."""
    ray = read("compose.yaml")["services"]["ray"]
    (replicas,) = re.findall(r":-(\d+)", ray["environment"]["SPECDEC_SERVE_REPLICAS"])
    (processors,) = re.findall(r"--num-cpus=(\d+)", " ".join(ray["command"]))
    size = decoders.read({"SPECDEC_SERVE_REPLICAS": replicas})
    assert decoders.shortage(size, [{"CPU": float(processors)}]) is None


def test_services_of_the_compose_file_depend_on_each_other_in_order() -> None:
    services = read("compose.yaml")["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    assert "app.decoding.on_ray.cluster" in " ".join(services["ray"]["command"])


def test_the_proxy_of_the_compose_file_finds_the_web_servers() -> None:
    """Catches: a proxy that looks for them, or for certificates, in its own container, and publishes another port."""
    services = read("compose.yaml")["services"]
    (mount,) = services["proxy"]["volumes"]
    text = (ROOT / "deploy" / mount.split(":")[0]).read_text(encoding="utf-8")
    found = re.findall(r"^\s+server ([a-z]+):(\d+)", text, re.MULTILINE)
    assert [(name in services, int(port)) for name, port in found] == [(True, policy.Policy().port)]
    assert [line.rpartition(":")[2] for line in services["proxy"]["ports"]] == re.findall(
        r"listen (\d+)", text
    )
    assert "ssl_certificate " not in text and "return 30" not in text


class Answering(BaseHTTPRequestHandler):
    """Answers with the headers that it was asked with."""

    def do_GET(self) -> None:
        body = str(self.headers).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Says nothing."""


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_the_proxy_of_the_compose_file_passes_requests_on(tmp_path: Path) -> None:
    """Catches: a configuration that nginx refuses, and a host name that gets lost on the way."""
    with HTTPServer(("127.0.0.1", 0), Answering) as web, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        threading.Thread(target=web.serve_forever, daemon=True).start()
        text = (ROOT / "deploy" / "compose.nginx.conf").read_text(encoding="utf-8")
        text = text.replace("server web:8501", f"server 127.0.0.1:{web.server_port}")
        text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
        temporary = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = text.replace("http {", f"http {{ access_log off; {temporary}", 1)
        place = tmp_path / "nginx.conf"
        place.write_text(
            f"pid {tmp_path}/pid; daemon off; error_log {tmp_path}/log;\n{text}", encoding="utf-8"
        )
        command = ["nginx", "-e", f"{tmp_path}/log", "-c", str(place)]
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            seen = ""
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": "lab.example:8501"})
            for _ in range(100):
                try:
                    with urllib.request.urlopen(asked, timeout=20) as answer:
                        seen = answer.read().decode()
                    break
                except urllib.error.URLError as error:
                    if not isinstance(error.reason, ConnectionRefusedError):
                        raise
                    time.sleep(0.05)
            assert "Host: lab.example:8501" in seen and "X-Forwarded-Proto: http" in seen
        finally:
            proxy.terminate()
            proxy.wait()
            web.shutdown()


def test_the_service_s_settings_are_taken() -> None:
    """Catches: an environment file that the server refuses, and a unit that names other files."""
    lines = (ROOT / "deploy" / "specdec-lab.env").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert policy.read(settings).library == Path("/var/lib/specdec-lab/library.sqlite3")
    unit = (ROOT / "deploy" / "specdec-lab.service").read_text(encoding="utf-8")
    assert "EnvironmentFile=/etc/specdec-lab.env" in unit and "StateDirectory=specdec-lab" in unit
