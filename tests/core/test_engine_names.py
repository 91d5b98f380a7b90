"""The table of other engines' names has what the lab writes."""

from __future__ import annotations

import re
from pathlib import Path

import specdec_core as sd
from specdec_measure.portable import libraries, servers
from specdec_measure.portable import transformers_vllm as portable

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")


def column(engine: str) -> set[str]:
    """The names in code marks of one engine's column."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| ")
    ]
    head = next(row for row in rows if row[0] == "what")
    at = next(place for place, cell in enumerate(head) if cell.startswith(engine))
    return {name for row in rows if len(row) == len(head) for name in re.findall(r"`([^`]+)`", row[at])}


def test_names_of_draft_models_and_n_grams_are_in_the_table() -> None:
    """Catches: a flag that was renamed in one place only, and a table of another version."""
    for settings in (sd.Settings(), sd.Settings(proposer="prompt-lookup")):
        vllm = portable.for_vllm(settings, "d").config or {}
        assert vllm.keys() | {vllm["method"]} <= column("vLLM")
        llama = servers.for_llama_cpp(settings).config or {}
        assert llama.keys() - {"--spec-type", "--spec-draft-p-min"} <= column("llama.cpp")
        assert f"--spec-type {llama['--spec-type']}" in column("llama.cpp")
        sglang = servers.for_sglang(settings, "d").config or {}
        named = " ".join(column("SGLang"))
        assert all(name in named for name in sglang if "eagle" not in name and "breadth" not in name)
        openvino = libraries.for_openvino(settings)
        assert (openvino.config or {}).keys() | (
            openvino.generate.keys() - {"max_new_tokens", "do_sample"}
        ) <= column("OpenVINO")
        onnx = libraries.for_onnx(settings)
        assert (onnx.config or {}).keys() <= column("ONNX Runtime GenAI")
        node = libraries.for_node(settings)
        assert (node.config or {}).keys() - {"minConfidence"} <= column("node-llama-cpp")
        there = portable.for_transformers(settings)
        lengths = set(there.draft) & {"num_assistant_tokens"}
        assert lengths | (
            there.generate.keys() & {"prompt_lookup_num_tokens", "max_matching_ngram_size"}
        ) <= column("transformers")
    assert "num_draft_tokens" in libraries.for_mlx(sd.Settings()).generate and "num_draft_tokens" in column(
        "mlx-lm"
    )
    assert f"transformers {portable.TRANSFORMERS}" in PAGE
