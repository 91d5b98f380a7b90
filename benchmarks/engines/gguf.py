"""llama.cpp's own continuations of small GGUF files, which the tests compare ours with.

`python -m benchmarks.engines.gguf FOLDER` writes `tests/core/gguf_llama_cpp.json`; FOLDER is one in which `npm install
node-llama-cpp` has been run. The files are those of `tests/core/gguf_kinds_writing.py`: float32 weights that bfloat16
holds exactly, so that both compute with the same numbers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.core.gguf_kinds_writing import CASES, PROMPT, write

SCRIPT = Path(__file__).with_name("gguf_llama_cpp.mjs")
RESULT = Path(__file__).resolve().parents[2] / "tests" / "core" / "gguf_llama_cpp.json"
COUNT = 12


def continuations(folder: Path, file: Path, prompts: list[Any], count: int = COUNT) -> list[dict[str, Any]]:
    """What llama.cpp writes behind each prompt, with the likeliest tokens of each step."""
    script = shutil.copy(SCRIPT, folder / SCRIPT.name)
    done = subprocess.run(
        ["node", str(script), str(file), str(count)],
        input=json.dumps(prompts), capture_output=True, text=True, cwd=folder, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Write the continuations of all cases."""
    folder = Path(sys.argv[1])
    lines = []
    with TemporaryDirectory() as place:
        for name, (architecture, options) in CASES.items():
            file = write(Path(place) / "tiny.gguf", architecture, **options)
            (found,) = continuations(folder, file, [PROMPT])
            top = [
                [[token, round(value, 4)] for token, value in step]
                for step in (found["top"][0], found["top"][-1])
            ]
            lines.append(f"  {json.dumps(name)}: {json.dumps({'out': found['out'], 'top': top})}")
    RESULT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
