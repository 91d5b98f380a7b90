"""The lab beside llama.cpp and OpenVINO GenAI on this machine: `make bench ARGS=peers`.

Installs the pinned peers into a folder of their own (npm and pip, no compiler), writes the catalogue's SmolLM2 in F16
and Q8_0 from the GGUF file that the lab reads, and lets all write the greedy answers to the same prompts, one way after
the other for each prompt. Every program keeps its own defaults. What is measured is kept in the folder, so that
`--budget` may end a call between two answers and the next one goes on. Only on an idle machine are the figures worth
anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, quants
from safetensors.torch import load_file
from torch import Tensor

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.files.hub import load_model
from specdec_core.models.files.sources import locate, packaged_file, resolve
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.proposers import available
from specdec_core.runtime.machine import describe

from . import peers_table
from .engines.llama_cpp import gguf_name, interleaved
from .peers_table import LLAMA, NEAR, OPENVINO, PLAIN, Runs, way

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "var" / "peers"
CHILDREN = HERE / "engines"
PROMPTS = HERE / "peers_prompts.jsonl"
NODE, PYTHON = "node-llama-cpp@3.21.1", "openvino-genai==2026.4.1.0"
LAB = (PLAIN, "draft-model", "prompt-lookup", "suffix", "eagle", "eagle3", "medusa", "block")
TOKENS = 128
BUSY = 0.1  # of a core
KINDS = {"F16": GGMLQuantizationType.F16, "Q8_0": GGMLQuantizationType.Q8_0}
FILE_TYPES = {"F16": LlamaFileType.MOSTLY_F16, "Q8_0": LlamaFileType.MOSTLY_Q8_0}


class Prompt(NamedTuple):
    """One question, and what kind it is of."""

    name: str
    kind: str
    text: str


def prompts(path: Path = PROMPTS) -> list[Prompt]:
    """The prompts of a JSON lines file with `kind` and `prompt`, named by their kind and number, the kinds in turn."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found, counts = [], dict.fromkeys((row["kind"] for row in rows), 0)
    for row in rows:
        counts[row["kind"]] += 1
        found.append(Prompt(f"{row['kind']} {counts[row['kind']]}", row["kind"], row["prompt"]))
    return sorted(found, key=lambda one: int(one.name.rsplit(" ", 1)[1]))


def install(folder: Path) -> None:
    """The pinned peers in a folder, where they are not there yet.

    Raises:
        CalledProcessError: if npm or pip cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "node-llama-cpp").is_dir():
        npm = shutil.which("npm") or str(Path(sys.executable).with_name("npm"))
        path = f"{Path(npm).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--prefix", ".", NODE],
            cwd=folder, check=True, env={**os.environ, "PATH": path},
        )  # fmt: skip
    if not (folder / "python").is_dir():
        venv.create(folder / "python", with_pip=True)
        subprocess.run([folder / "python/bin/pip", "install", "-q", PYTHON], check=True)


def write_files(folder: Path) -> None:
    """target-KIND.gguf and draft-KIND.gguf, where they are not there yet, and OpenVINO's conversions of them.

    The target's numbers are those of the catalogue's file rounded to bfloat16, which is what the lab computes with. The
    draft knows part of the vocabulary: the other tokens get the row of its unknown token, and logits of 0.

    Raises:
        ModelError: if the package with the catalogue's file is not installed.
    """
    names = [f"{part}-{kind}" for part in ("target", "draft") for kind in KINDS] + ["target-Q4_1"]
    if all((folder / name / "openvino_model.xml").exists() for name in names):
        return
    entry = catalogue.named(catalogue.CHAT)
    assert entry is not None and entry.package is not None
    packaged = packaged_file(entry.package)
    if packaged is None:
        raise sd.ModelError(f"The package '{entry.package.name}' is not installed; run 'make run'.")
    source = GGUFReader(packaged)
    read = {
        one.name: torch.from_numpy(quants.dequantize(one.data, one.tensor_type).copy())
        for one in source.tensors
    }
    target = {name: weight.bfloat16().float() for name, weight in read.items()}
    draft = _draft(Path(resolve(str(entry.draft))), len(target["token_embd.weight"]))
    layers = 1 + max(int(name.split(".")[1]) for name in draft if name.startswith("blk."))
    made = []
    for kind in KINDS:
        for part, weights, more in (("target", target, {}), ("draft", draft, {"llama.block_count": layers})):
            path = folder / f"{part}-{kind}.gguf"
            if not path.exists():
                write_gguf(path, source, weights, kind, more)
            if not (folder / path.stem / "openvino_model.xml").exists():
                made.append(str(path))
    copy = folder / "target-Q4_1.gguf"
    if not copy.exists():
        shutil.copy(packaged, copy)
        made.append(str(copy))
    if made:
        subprocess.run(
            [folder / "python/bin/python", CHILDREN / "peers_openvino.py", "--convert", *made], check=True
        )


def _draft(folder: Path, vocabulary: int) -> dict[str, Tensor]:
    """A draft's weights under GGUF's names, over the target's vocabulary."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    ids = draft_vocabulary.read(str(folder), load_file(folder / draft_vocabulary.FILE), vocabulary)
    assert ids is not None
    found = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        kept = weight.float()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            shared = "q_proj" not in name
            kept = interleaved(kept, config["num_key_value_heads" if shared else "num_attention_heads"])
        found[gguf_name(name)] = kept
    for name, rest in (("token_embd.weight", found["token_embd.weight"][len(ids)]), ("output.weight", 0.0)):
        whole = torch.zeros(vocabulary, found[name].shape[1]) + rest
        whole[ids] = found[name][: len(ids)]
        found[name] = whole
    return found


def write_gguf(
    path: Path, source: GGUFReader, weights: Mapping[str, Tensor], kind: str, more: Mapping[str, int]
) -> None:
    """Write float32 weights in the numbers of `kind`, vectors in float32, with the entries of another file.

    `more` replaces whole numbers among the entries.
    """
    writer = GGUFWriter(path, "llama")
    replaced = {"general.file_type": int(FILE_TYPES[kind]), **more}
    for name, field in source.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            sub = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, replaced.get(name, field.contents()), field.types[0], sub)
    for name, weight in weights.items():
        values = weight.numpy()
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, quants.quantize(values, KINDS[kind]), raw_dtype=KINDS[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Child:
    """Another program that answers a JSON line with a JSON line."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            list(command), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"{self.process.args!r} ended with code {self.process.wait()}.")

    def __call__(self, **asked: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return self._answer()


def llama_cpp(folder: Path, ways: Mapping[str, Any]) -> Child:
    """llama.cpp with these ways; see the script."""
    script = shutil.copy(CHILDREN / "peers_llama_cpp.mjs", folder)
    node = shutil.which("node") or str(Path(sys.executable).with_name("node"))
    return Child([node, str(script), json.dumps(ways)], folder)


def ways_of_peers(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """By peer, by name, what its program opens."""

    def of(kind: str, end: str) -> tuple[str, str]:
        return tuple(str(folder / f"{part}-{kind}{end}") for part in ("target", "draft"))  # type: ignore[return-value]

    found: dict[str, dict[str, dict[str, Any]]] = {}
    for peer, end in ((LLAMA, ".gguf"), (OPENVINO, "")):
        ways = found[peer] = {}
        for kind in ("F16", "Q8_0", "Q4_1"):
            model, draft = of(kind, end)
            ways[f"{peer} {kind}, plain"] = {"model": model}
            if kind == "Q8_0":
                ways[f"{peer} {kind}, prompt lookup"] = {"model": model, "lookup": True}
                ways[f"{peer} {kind}, draft model"] = {"model": model, "draft": draft}
    return found


class Everyone:
    """The lab and its peers, loaded; `ways` has the name of each way of writing an answer."""

    def __init__(self, folder: Path) -> None:
        peers = ways_of_peers(folder)
        script = str(CHILDREN / "peers_openvino.py")
        python = [str(folder / "python/bin/python"), script, json.dumps(peers[OPENVINO])]
        self._lab = {
            bits: sd.load_models(catalogue.CHAT, device="cpu", weights=bits) for bits in ("16-bit", "8-bit")
        }
        self._child = {LLAMA: llama_cpp(folder, peers[LLAMA]), OPENVINO: Child(python, folder)}
        missing = available(self._lab["16-bit"])  # heads of a kind that does not ship for this target
        ours = [(bits, proposer) for proposer in LAB if missing[proposer] is None for bits in self._lab]
        self._ours = {way(bits, proposer): (bits, proposer) for bits, proposer in ours}
        self._warm: set[str] = set()
        self.ways = [*self._ours, *peers[LLAMA], *peers[OPENVINO]]

    def ids(self, prompt: str) -> list[int]:
        """A question in the chat template."""
        return self._lab["16-bit"].chat(prompt)

    def warm(self, name: str) -> None:
        """Write something by a way that has not written yet."""
        if name not in self._warm:
            self.write(name, self.ids("Name three colours."), 16)
            self._warm.add(name)

    def write(self, name: str, ids: list[int], count: int) -> dict[str, Any]:
        """The greedy answer by one way: `tokens`, and the `seconds` with the prompt."""
        if name not in self._ours:
            child = self._child[LLAMA if name.startswith(LLAMA) else OPENVINO]
            return child(way=name, ids=ids, count=count)
        bits, proposer = self._ours[name]
        began = time.perf_counter()
        trace = sd.decode(self._lab[bits], ids, sd.Settings(proposer=proposer, max_new_tokens=count))
        return {"tokens": list(trace.token_ids), "seconds": time.perf_counter() - began}


class Others:
    """The seconds of CPU that programs other than this one and its children take."""

    def __init__(self) -> None:
        self._began, self._taken = time.monotonic(), self._seconds()

    @staticmethod
    def _seconds() -> float:
        whole, own = psutil.cpu_times(), psutil.Process()
        mine = [one.cpu_times() for one in (own, *own.children(recursive=True))]
        return float(whole.user + whole.nice + whole.system - sum(one.user + one.system for one in mine))

    @property
    def share(self) -> float:
        """Of one core, since this object was made."""
        return (self._seconds() - self._taken) / (time.monotonic() - self._began)


def measure(everyone: Everyone, asked: Iterable[Prompt], runs: Runs, until: float, save: Any) -> None:
    """Let all ways write the answers that are not in `runs` yet, in turn, until that time is near. An answer during
    which other programs took a tenth of a core is asked for once more, and left for another call if they do again."""
    longest: dict[str, float] = {}
    for turn, prompt in enumerate(asked):
        ids = everyone.ids(prompt.text)
        for name in everyone.ways if turn % 2 else everyone.ways[::-1]:
            if prompt.name in runs.setdefault(name, {}):
                continue
            began = time.monotonic()
            if began + longest.get(name, 4.0) > until:
                return
            everyone.warm(name)
            for _ in range(2):
                others = Others()
                found = everyone.write(name, ids, TOKENS)
                if others.share < BUSY:
                    runs[name][prompt.name] = {"ids": ids, **found}
                    save()
                    break
            longest[name] = time.monotonic() - began


class Float32:
    """The lab's target in float32 by transformers, as the judge of texts that part."""

    def __init__(self) -> None:
        self.model = load_model(locate(catalogue.CHAT), torch.device("cpu"), torch.float32)

    @torch.inference_mode()
    def margin(self, ids: Sequence[int], one: int, other: int) -> float:
        """By how much the likelier of two tokens is likelier after some ids, in nats."""
        logits = self.model(torch.tensor([list(ids)]), logits_to_keep=1).logits[0, -1]
        return float((logits[one] - logits[other]).abs())


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="of the peers, their files and the figures"
    )
    parser.add_argument("--budget", type=float, default=3600, help="seconds; 0 prints what is there")
    parser.add_argument("--again", action="store_true", help="forget what was measured")
    given = parser.parse_args(argv)
    until = time.monotonic() + given.budget
    file = given.folder / "runs.json"
    if given.again:
        file.unlink(missing_ok=True)
    runs: Runs = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if given.budget:
        install(given.folder)
        write_files(given.folder)
        everyone = Everyone(given.folder)
        print(
            f"loaded {until - time.monotonic():.0f} s before the end; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        measure(everyone, prompts(), runs, until, lambda: file.write_text(json.dumps(runs), encoding="utf-8"))
        done = sum(map(len, runs.values()))
        print(f"{done} answers of {len(everyone.ways) * len(prompts())} are measured")
    judge = Float32()
    text = peers_table.markdown(peers_table.SPEEDS, peers_table.speeds(runs, judge.margin))
    text += "\n\n" + peers_table.markdown(("", *peers_table.KINDS), peers_table.ratios(runs))
    print(f"{describe(torch.device('cpu'))}; {NODE}, {PYTHON}; margins under {NEAR} are near ties\n\n{text}")
    (given.folder / "table.md").write_text(text + "\n", encoding="utf-8")
