"""Settings for libraries: the Python code is run against stand-ins, and all says what is different there."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import specdec_core as sd
from specdec_measure.portable import libraries

FIELDS = {  # of GenerationConfig, as openvino-genai 2026.4.1.0 lists them
    "max_new_tokens", "do_sample", "temperature", "top_p", "top_k", "rng_seed", "repetition_penalty", "min_p",
    "no_repeat_ngram_size", "stop_strings", "include_stop_str_in_output", "num_assistant_tokens", "max_ngram_size",
    "apply_chat_template",
}  # fmt: skip


def settings(**choices: Any) -> sd.Settings:
    return sd.Settings(**{"max_new_tokens": 9, **choices})


def openvino(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> tuple[tuple[Any, ...], dict[str, Any], Any, dict[str, Any]]:
    """What the code makes the pipeline of, what it asks, and how."""
    seen: dict[str, Any] = {}

    def pipeline(*made: Any, **more: Any) -> Any:
        seen["made"] = (made, more)
        tokenizer = SimpleNamespace(apply_chat_template=lambda messages, **rest: ("template", messages))
        return SimpleNamespace(
            get_tokenizer=lambda: tokenizer,
            generate=lambda prompt, config: seen.update(asked=(prompt, config)),
        )

    def config(**given: Any) -> dict[str, Any]:
        assert given.keys() <= FIELDS
        return given

    fake = SimpleNamespace(
        LLMPipeline=pipeline, draft_model=lambda *about: ("draft", *about), GenerationConfig=config
    )
    monkeypatch.setitem(sys.modules, "openvino_genai", fake)
    with redirect_stdout(io.StringIO()):
        exec(compile(text, "copied", "exec"), {})
    return (*seen["made"], *seen["asked"])


def test_openvino_gets_what_the_lane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: code that does not run, a setting that is lost, a chat message without its template."""
    made, more, prompt, config = openvino(
        monkeypatch, libraries.openvino_code(settings(), "org/t", "org/d", prompt="p")
    )
    assert made == ("org/t", "CPU") and more == {"draft_model": ("draft", "org/d", "CPU")} and prompt == "p"
    assert config == {
        "max_new_tokens": 9,
        "do_sample": False,
        "num_assistant_tokens": 4,
        "apply_chat_template": False,
    }
    lookup = settings(proposer="prompt-lookup", draft_length=5, stop=("\n",), repetition_penalty=1.2)
    text = libraries.openvino_code(lookup, "org/t", chat=sd.Chat("x", "Be brief."), prompt="p")
    _, more, prompt, config = openvino(monkeypatch, text)
    assert (
        more == {"prompt_lookup": True}
        and config["max_ngram_size"] == 3
        and config["num_assistant_tokens"] == 5
    )
    assert config["stop_strings"] == {"\n"} and config["repetition_penalty"] == 1.2
    assert prompt == (
        "template",
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "p"}],
    )
    plain = openvino(monkeypatch, libraries.openvino_code(settings(proposer="none"), "org/t", prompt="p"))
    assert plain[1] == {} and "num_assistant_tokens" not in plain[3]


def test_mlx_gets_what_the_lane_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: code that does not run, a draft that is loaded and not used, a sampler that is left out."""
    seen: dict[str, Any] = {}

    def stream(*about: Any, **more: Any) -> list[Any]:
        seen.update(about=about, more=more)
        return [SimpleNamespace(text="x")]

    top, sampling = ModuleType("mlx_lm"), ModuleType("mlx_lm.sample_utils")
    tokenizer = SimpleNamespace(apply_chat_template=lambda messages, **rest: ["ids", messages])
    top.load, top.stream_generate = (lambda name: (name, tokenizer)), stream  # type: ignore[attr-defined]
    sampling.make_sampler = lambda **given: given  # type: ignore[attr-defined]
    sampling.make_logits_processors = lambda **given: given  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlx_lm", top)
    monkeypatch.setitem(sys.modules, "mlx_lm.sample_utils", sampling)
    drawn = settings(temperature=0.7, top_k=5, repetition_penalty=1.1, draft_length=2)
    for wanted, expected in (
        (settings(proposer="none"), {"max_tokens": 9}),
        (settings(), {"max_tokens": 9, "num_draft_tokens": 4, "draft_model": "org/d"}),
        (drawn, {
            "max_tokens": 9, "num_draft_tokens": 2, "draft_model": "org/d",
            "sampler": {"temp": 0.7, "top_p": 1.0, "top_k": 5, "min_p": 0.0},
            "logits_processors": {"repetition_penalty": 1.1, "repetition_context_size": libraries.BACK},
        }),
    ):  # fmt: skip
        with redirect_stdout(io.StringIO()):
            exec(compile(libraries.mlx_code(wanted, "org/t", "org/d", prompt="p"), "copied", "exec"), {})
        assert seen["more"] == expected and seen["about"] == ("org/t", tokenizer, "p")


@pytest.mark.parametrize(
    ("code", "choices", "said"),
    [
        (libraries.openvino_code, {"temperature": 0.8}, "its distribution is another one: with a draft, OpenVINO"),
        (libraries.openvino_code, {"proposer": "none", "temperature": 0.8}, "its distribution is the same"),
        (libraries.openvino_code, {"proposer": "eagle"}, "OpenVINO GenAI has no such proposer"),
        (libraries.openvino_code, {"proposer": "prompt-lookup", "options": {"match": "first"}}, "takes the longest"),
        (libraries.openvino_code, {"length_policy": "heuristic"}, "length policy = heuristic"),
        (libraries.mlx_code, {"proposer": "prompt-lookup"}, "mlx-lm has no such proposer"),
        (libraries.mlx_code, {"temperature": 1.0}, "rule = speculative-sampling: mlx-lm has no such rule"),
        (libraries.mlx_code, {"temperature": 1.0, "rule": "token-matching"}, "its distribution is the same"),
        (libraries.mlx_code, {"temperature": 0.5, "top_p": 0.9}, "its distribution is another one: its cuts"),
        (libraries.mlx_code, {"repetition_penalty": 1.1}, "leaves the prompt out of it"),
        (libraries.mlx_code, {"stop": ("x",)}, "has no stop strings"),
        (libraries.onnx_code, {"no_repeat_ngram_size": 2}, "has no such ban with a draft"),
        (libraries.onnx_code, {"temperature": 1.0}, "its distribution is the same"),
        (libraries.onnx_code, {"temperature": 1.0, "top_p": 0.9}, "top_k=tokens, top_p=0.9"),
        (libraries.onnx_code, {"temperature": 1.0, "top_k": 50}, "top_k=min(50, tokens), top_p=1.0"),
        (libraries.onnx_code, {"temperature": 1.0, "rule": "token-matching"}, "rule = token-matching: ONNX"),
        (libraries.onnx_code, {"temperature": 1.0, "min_p": 0.1}, "its distribution is another one: nothing is cut"),
        (libraries.onnx_code, {"proposer": "prompt-lookup"}, "place of exactly 3 tokens, and for no shorter match"),
        (libraries.onnx_code, {"draft_length": 20}, "guesses at most 16 tokens"),
        (libraries.node_code, {"proposer": "prompt-lookup"}, "looks in the prompt alone"),
        (libraries.node_code, {}, "keeps at most one guess of a pass"),
        (libraries.node_code, {"proposer": "medusa"}, "node-llama-cpp has no such proposer"),
        (libraries.node_code, {"temperature": 0.5, "top_p": 0.9}, "its distribution is another one: its cuts"),
        (libraries.node_code, {"repetition_penalty": 1.1}, "and with guesses the tokens of the round"),
    ],
)  # fmt: skip
def test_what_is_different_there_has_its_line(code: Any, choices: dict[str, Any], said: str) -> None:
    """Catches: a promise that the library does not keep, or a difference without a word."""
    assert said in code(settings(**choices), "org/t", "org/d")


def test_onnx_gets_what_the_lane_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches: code that does not run, a draft that is not loaded, a length that forgets the prompt's."""
    (tmp_path / "target-onnx" / "draft").mkdir(parents=True)
    about = {"model": {"decoder": {"filename": "model.onnx", "head_size": 8}}}
    (tmp_path / "target-onnx" / "draft" / "genai_config.json").write_text(json.dumps(about))
    monkeypatch.chdir(tmp_path)
    seen: dict[str, Any] = {}
    params = SimpleNamespace(
        set_search_options=lambda **given: seen.update(search=given),
        set_speculative_options=lambda **given: seen.update(spec=given),
    )
    written = iter([False, True])
    generator = SimpleNamespace(
        append_tokens=lambda ids: seen.update(ids=ids), is_done=lambda: next(written),
        generate_next_token=lambda: None, get_sequence=lambda row: [5, 6, 7],
    )  # fmt: skip
    fake = SimpleNamespace(
        Config=lambda folder: SimpleNamespace(overlay=lambda text: seen.update(overlay=json.loads(text))),
        Model=lambda config: "model", GeneratorParams=lambda model: params, Generator=lambda model, given: generator,
        Tokenizer=lambda model: SimpleNamespace(encode=lambda text: [5, 6], decode=lambda ids: f"text {ids}"),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", fake)
    with redirect_stdout(io.StringIO()) as said:
        exec(compile(libraries.onnx_code(settings(), "org/t", "org/d", prompt="p"), "copied", "exec"), {})
    assert said.getvalue() == "text [7]\n" and seen["ids"] == [5, 6]
    assert seen["search"] == {"max_length": 11, "do_sample": False} and seen["spec"] == {
        "max_draft_tokens": 4
    }
    assert seen["overlay"] == {"model": {"draft": {"filename": "draft/model.onnx", "head_size": 8}}}
    lookup = libraries.for_onnx(settings(proposer="prompt-lookup", draft_length=5, options={"max_ngram": 2}))
    assert lookup.config == {"ngram_size": 3, "max_draft_tokens": 5}


def test_node_gets_what_the_lane_is() -> None:
    """Catches: a predictor without its model, or one where nothing is guessed; a penalty that is on unasked."""
    code = libraries.node_code(settings(draft_length=3), "org/t", "org/d", prompt='say "hi"')
    assert "import { getLlama, LlamaCompletion, DraftSequenceTokenPredictor }" in code
    assert (
        '(await opened("draft.gguf")).getSequence(), {"minTokens": 3, "maxTokens": 3, "minConfidence": 0}'
        in code
    )
    assert (
        'prompt = "say \\"hi\\""' in code
        and '{"maxTokens": 9, "temperature": 0.0, "repeatPenalty": false}' in code
    )
    lookup = libraries.node_code(settings(proposer="prompt-lookup"), "org/t")
    assert (
        'InputLookupTokenPredictor({"patternLength": {"max": 3}, "predictionLength": {"max": 4}})' in lookup
    )
    chat = libraries.node_code(settings(proposer="none"), "org/t", chat=sd.Chat("x", "Be brief."))
    assert 'new LlamaChatSession({ contextSequence, systemPrompt: "Be brief." })' in chat
    assert "Predictor" not in chat and "draft.gguf" not in chat and "writer.prompt(prompt" in chat
