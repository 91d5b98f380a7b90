"""How benchmarks.engines.servers runs the code that the lab writes for libraries: on a CPU and in float32."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

from specdec_core.settings import Settings
from specdec_measure.portable import libraries

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "assets" / "models"
TARGET, DRAFT = "specdec-target", "specdec-draft"
NODE_OPTIONS = 'gpu: false, build: "never", maxThreads: 1, logLevel: "error"'
FLOATS = 'contextSize: 1024, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"'


def install_node(place: Path, package: str) -> Path:
    """A folder with a package of npm."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}', encoding="utf-8")
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", package], cwd=place, check=True)
    return place


def write_onnx(folder: Path, programs: Path) -> None:
    """The models as ONNX Runtime GenAI takes them; its builder reads them with this environment's transformers."""
    for name, place in ((TARGET, folder / "target-onnx"), (DRAFT, folder / "target-onnx" / "draft")):
        if not (place / "genai_config.json").exists():
            own = next(programs.parent.glob("lib/python*/site-packages"))
            paths = f"{own}{os.pathsep}{sysconfig.get_path('purelib')}"
            build: list[str | Path] = [
                programs / "python",
                "-m",
                "onnxruntime_genai.models.builder",
                "-p",
                "fp32",
                "-e",
                "cpu",
            ]
            build += ["-i", MODELS / name, "-o", place, "-c", folder / "cache"]
            subprocess.run(build, check=True, env=os.environ | {"PYTHONPATH": paths})


def outcome(
    engine: str, settings: Settings, prompt: str, folder: Path, programs: Path
) -> tuple[str, subprocess.CompletedProcess[str]]:
    """The code as the lab writes it, and what became of it with the least changed."""
    place, arguments = ROOT, [str(programs / "python"), "-c"]
    if engine == libraries.OPENVINO:
        code = ran = libraries.openvino_code(settings, TARGET, DRAFT, prompt=prompt)
        hints = '"CPU", INFERENCE_PRECISION_HINT="f32", KV_CACHE_PRECISION="f32"'
        ran = ran.replace('"CPU"', hints).replace("assets/models/", f"{folder}/")
    elif engine == libraries.ONNX:
        code = ran = libraries.onnx_code(settings, TARGET, DRAFT, prompt=prompt)
        place = folder
    elif engine == libraries.NODE:
        code = ran = libraries.node_code(settings, TARGET, DRAFT, prompt=prompt)
        ran = ran.replace("getLlama()", f"getLlama({{ {NODE_OPTIONS} }})")
        ran = ran.replace("createContext()", f"createContext({{ {FLOATS} }})")
        for name in ("target.gguf", "draft.gguf"):
            ran = ran.replace(f'"{name}"', f'"{folder / name}"')
        (programs / "lab.mjs").write_text(ran, encoding="utf-8")
        place, arguments, ran = programs, ["node"], "lab.mjs"
    else:
        code = ran = libraries.mlx_code(settings, TARGET, DRAFT, prompt=prompt)
        exact = "".join(
            f"{name}.set_dtype(mlx.core.float32)\n" for name in ("model", "draft") if f"\n{name}" in code
        )
        ran = ran.replace("\nprompt =", f"\nimport mlx.core\n{exact}prompt =", 1)
    return code, subprocess.run([*arguments, ran], cwd=place, capture_output=True, text=True, check=False)
