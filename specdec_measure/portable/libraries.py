"""A lane's settings as code for libraries: OpenVINO GenAI, mlx-lm and ONNX Runtime GenAI (Python), node-llama-cpp.

The names are those of openvino-genai 2026.4.1.0, mlx-lm 0.32.2, onnxruntime-genai 0.18.0 and node-llama-cpp 3.21.1,
which were run with them on a CPU. All draft with a draft model, and all but mlx-lm look up n-grams.
"""

from __future__ import annotations

import json
from typing import Any

from specdec_core.foundations.errors import many
from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import proposer_class
from specdec_core.settings import Settings, as_settings

from .common import (
    YOURS,
    Elsewhere,
    common,
    given,
    head,
    messages,
    no_policy,
    no_proposer,
    no_rule,
    path,
    seed,
)
from .servers import gguf_files

OPENVINO, MLX, ONNX, NODE = "OpenVINO GenAI", "mlx-lm", "ONNX Runtime GenAI", "node-llama-cpp"
BACK = 4_096  # tokens that mlx-lm's repetition penalty looks back at, where nothing is guessed


def for_openvino(settings: Settings) -> Elsewhere:
    """The settings as entries of `GenerationConfig`; `config` holds what the pipeline is made with."""
    settings = as_settings(settings)
    found = Elsewhere(
        generate={"max_new_tokens": settings.max_new_tokens, "do_sample": settings.temperature > 0}
    )
    if settings.temperature > 0:
        drawn = {"temperature": settings.temperature, "top_p": settings.top_p, "rng_seed": settings.seed}
        found.generate |= drawn | ({"top_k": settings.top_k} if settings.top_k else {})
    found.generate |= given(settings, ("repetition_penalty", "no_repeat_ngram_size", "min_p"))
    if settings.stop:
        found.generate |= {"stop_strings": set(settings.stop), "include_stop_str_in_output": True}
    if settings.proposer == "draft-model":
        found.config = {"draft_model": True}
        found.generate["num_assistant_tokens"] = settings.draft_length
        if settings.temperature > 0:
            found.changed.append(
                "with a draft, OpenVINO GenAI 2026.4 keeps guesses that the target would not draw"
            )
    elif settings.proposer == "prompt-lookup":
        options: Any = proposer_class(settings.proposer).read_options(settings)
        found.config = {"prompt_lookup": True}
        found.generate |= {"num_assistant_tokens": settings.draft_length, "max_ngram_size": options.max_ngram}
        if options.match != "longest":
            found.missing.append(f"match = {options.match}: OpenVINO takes the longest match.")
    return _finish(settings, found, OPENVINO, "speculative-sampling")


def for_mlx(settings: Settings) -> Elsewhere:
    """The settings as arguments of `stream_generate`; `config` holds those of its sampler and its penalty."""
    settings = as_settings(settings)
    found = Elsewhere(generate={"max_tokens": settings.max_new_tokens}, config={})
    assert found.config is not None
    if settings.temperature > 0:
        found.config["sampler"] = {
            "temp": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k,
            "min_p": settings.min_p or 0.0,
        }  # fmt: skip
        if settings.temperature != 1 and (settings.top_k or settings.top_p < 1 or settings.min_p):
            found.missing.append(
                "The order of sampling: mlx-lm cuts by top-k, top-p and min-p before the temperature."
            )
            found.changed.append("its cuts come before the temperature")
    if (penalty := settings.repetition_penalty or 1.0) != 1.0:
        found.config["penalty"] = {"repetition_penalty": penalty, "repetition_context_size": BACK}
        if settings.proposer != "none":
            found.missing.append(
                "repetition_penalty: with a draft, mlx-lm 0.32 leaves the prompt out of it but for one token, "
                "so that the text is another one."
            )
            found.changed.append("the penalty leaves the prompt out")
    if settings.stop:
        found.missing.append(f"stop = {list(settings.stop)}: mlx-lm's stream_generate has no stop strings.")
    if settings.no_repeat_ngram_size:
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: mlx-lm has no such ban."
        )
        found.changed.append("no n-gram is banned")
    if settings.proposer == "draft-model":
        found.generate["num_draft_tokens"] = settings.draft_length
        found.missing.append(
            "A model whose layers see a window of the text: mlx-lm 0.32 keeps refused guesses in its cache, so that "
            "the text is another one."
        )
    return _finish(settings, found, MLX, "token-matching")


def for_onnx(settings: Settings) -> Elsewhere:
    """The settings as search options; `config` holds the speculative ones. The length counts what is written."""
    settings = as_settings(settings)
    drawn, drafted = settings.temperature > 0, settings.proposer == "draft-model"
    found = Elsewhere(generate={"max_length": settings.max_new_tokens, "do_sample": drawn}, config={})
    if drawn:
        found.generate |= {"temperature": settings.temperature, "top_k": settings.top_k}
        found.generate |= {"top_p": settings.top_p, "random_seed": settings.seed}
    found.generate |= given(settings, ("repetition_penalty", "no_repeat_ngram_size"))
    if drafted and found.generate.pop("no_repeat_ngram_size", 0):
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: ONNX Runtime GenAI has no such ban with a draft."
        )
        found.changed.append("no n-gram is banned")
    if drawn and settings.min_p:
        found.missing.append(f"min_p = {settings.min_p:g}: ONNX Runtime GenAI has no such cut.")
        found.changed.append("nothing is cut by min_p")
    if settings.stop:
        found.missing.append(f"stop = {list(settings.stop)}: ONNX Runtime GenAI has no stop strings.")
    length = min(settings.draft_length, 16)
    if drafted or settings.proposer == "prompt-lookup":
        found.config = {"max_draft_tokens": length}
        if length < settings.draft_length:
            found.missing.append(
                f"γ = {settings.draft_length}: ONNX Runtime GenAI guesses at most 16 tokens."
            )
    if settings.proposer == "prompt-lookup":
        options: Any = proposer_class(settings.proposer).read_options(settings)
        size = min(options.max_ngram, 15)
        found.config = {"ngram_size": size + 1, "max_draft_tokens": length}
        found.missing.append(
            f"match = {options.match}: ONNX Runtime GenAI looks for the last earlier place of exactly "
            f"{many(size, 'token')}, and for no shorter match."
        )
    return _finish(settings, found, ONNX, "speculative-sampling" if drafted else "token-matching")


def for_node(settings: Settings) -> Elsewhere:
    """The settings as options of `generateCompletion`; `config` holds those of the predictor of tokens."""
    settings = as_settings(settings)
    found = Elsewhere(
        generate={"maxTokens": settings.max_new_tokens, "temperature": settings.temperature}, config={}
    )
    guesses = settings.proposer in ("draft-model", "prompt-lookup")
    if settings.temperature > 0:
        found.generate |= {"topK": settings.top_k, "topP": settings.top_p, "minP": settings.min_p or 0.0}
        found.generate["seed"] = settings.seed
        if settings.temperature != 1 and (settings.top_k or settings.top_p < 1 or settings.min_p):
            found.missing.append(
                "The order of sampling: node-llama-cpp cuts by top-k, top-p and min-p before the temperature."
            )
            found.changed.append("its cuts come before the temperature")
    found.generate["repeatPenalty"] = False
    if (penalty := settings.repetition_penalty or 1.0) != 1.0:
        found.generate["repeatPenalty"] = {"penalty": penalty, "lastTokens": BACK}
        round_too = ", and with guesses the tokens of the round" if guesses else ""
        found.missing.append(
            f"repetition_penalty: node-llama-cpp leaves the prompt out of it{round_too}: another text."
        )
        found.changed.append("the penalty leaves the prompt out")
    if settings.stop:
        found.generate["customStopTriggers"] = list(settings.stop)
        found.missing.append("The stop string itself: there the text ends before it, here with it.")
    if settings.no_repeat_ngram_size:
        found.missing.append(
            f"no_repeat_ngram_size = {settings.no_repeat_ngram_size}: node-llama-cpp has no such ban."
        )
        found.changed.append("no n-gram is banned")
    if settings.proposer == "draft-model":
        length = settings.draft_length
        found.config = {"minTokens": length, "maxTokens": length, "minConfidence": 0}
    elif settings.proposer == "prompt-lookup":
        options: Any = proposer_class(settings.proposer).read_options(settings)
        found.config = {
            "patternLength": {"max": options.max_ngram}, "predictionLength": {"max": settings.draft_length},
        }  # fmt: skip
        found.missing.append(
            f"match = {options.match}: node-llama-cpp looks in the prompt alone, for the first of the longest matches."
        )
    if guesses and settings.draft_length > 1:
        found.missing.append(
            f"γ = {settings.draft_length}: node-llama-cpp 3.21 keeps at most one guess of a pass."
        )
    return _finish(settings, found, NODE, "token-matching")


def _finish(settings: Settings, found: Elsewhere, program: str, rule_there: str) -> Elsewhere:
    there = settings.proposer in ("none", "draft-model")
    if not there and (settings.proposer != "prompt-lookup" or program == MLX):
        found.missing += [no_proposer(settings, program), *seed(settings, None, found.changed)]
        return found
    guesses = settings.proposer != "none"
    if guesses and settings.temperature > 0 and settings.rule != rule_there:
        found.missing.append(no_rule(settings, program))
    if guesses and settings.length_policy != "fixed":
        found.missing.append(no_policy(settings))
    common(settings, found, rule_there if guesses else None)
    return found


def openvino_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python for openvino-genai; the folders are OpenVINO's, as `optimum-cli export openvino` writes them, or the
    target a GGUF file."""
    found = for_openvino(settings)
    more = ""
    if (config := found.config or {}).get("draft_model"):
        more = f', draft_model=ov.draft_model({path(draft or "the draft model")!r}, "CPU")'
    elif config:
        more = ", prompt_lookup=True"
    arguments = ", ".join(f"{name}={value!r}" for name, value in found.generate.items())
    lines = [
        *head(settings, found), "# The folders are in OpenVINO's own format (optimum-cli export openvino).",
        "import openvino_genai as ov", "", f"pipeline = ov.LLMPipeline({path(target)!r}, \"CPU\"{more})",
        f"prompt = {prompt!r}",
    ]  # fmt: skip
    if chat is not None:
        lines.append(
            f"prompt = pipeline.get_tokenizer().apply_chat_template({messages(chat)}, add_generation_prompt=True)"
        )
    lines.append(f"config = ov.GenerationConfig({arguments}, apply_chat_template=False)")
    return "\n".join([*lines, "print(pipeline.generate(prompt, config))"]) + "\n"


def mlx_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python for mlx-lm."""
    found = for_mlx(settings)
    config, assisted = found.config or {}, "num_draft_tokens" in found.generate
    lines = [
        *head(settings, found), "from mlx_lm import load, stream_generate",
        "from mlx_lm.sample_utils import make_logits_processors, make_sampler", "",
        f"model, tokenizer = load({path(target)!r})",
    ]  # fmt: skip
    arguments = ", ".join(f"{name}={value!r}" for name, value in found.generate.items())
    if assisted:
        lines.append(f"draft, _ = load({path(draft or 'the draft model')!r})")
        arguments += ", draft_model=draft"
    for name, maker, argument in (
        ("sampler", "make_sampler", "sampler"), ("penalty", "make_logits_processors", "logits_processors"),
    ):  # fmt: skip
        given_there = ", ".join(f"{key}={value!r}" for key, value in config.get(name, {}).items())
        if name in config:
            arguments += f", {argument}={maker}({given_there})"
    lines.append(f"prompt = {prompt!r}")
    if chat is not None:
        lines.append(f"prompt = tokenizer.apply_chat_template({messages(chat)}, add_generation_prompt=True)")
    lines += [
        f"for part in stream_generate(model, tokenizer, prompt, {arguments}):",
        '    print(part.text, end="", flush=True)',
    ]
    return "\n".join(lines) + "\n"


def _arguments(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def onnx_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """Python for onnxruntime-genai; the folder is as its model builder writes it, a draft's is a part of it."""
    found = for_onnx(settings)
    options = {name: repr(value) for name, value in found.generate.items()}
    options["max_length"] = f"len(ids) + {options['max_length']}"
    drafts, cut = settings.proposer == "draft-model", found.generate.get("top_k", 0)
    build = "python -m onnxruntime_genai.models.builder -p fp32 -e cpu -i"
    lines = [*head(settings, found), f"# Written before by {build} {path(target)} -o target-onnx"]
    if drafts:
        lines.append(f"# and {build} {path(draft or 'the draft model')} -o target-onnx/draft")
    lines += ["import json", "from pathlib import Path", "", "import onnxruntime_genai as og", ""]
    lines += ['config = og.Config("target-onnx")']
    if drafts:
        lines += [
            'draft = json.loads(Path("target-onnx/draft/genai_config.json").read_text())["model"]["decoder"]',
            'draft["filename"] = "draft/model.onnx"',
            'config.overlay(json.dumps({"model": {"draft": draft}}))',
        ]
    if cut or found.generate.get("top_p", 1) < 1:  # without a top_k, version 0.18 cuts too little
        lines.append(
            'tokens = json.loads(Path("target-onnx/genai_config.json").read_text())["model"]["vocab_size"]'
        )
        options["top_k"] = f"min({cut}, tokens)" if cut else "tokens"
    lines += ["model = og.Model(config)", "tokenizer = og.Tokenizer(model)", f"prompt = {prompt!r}"]
    if chat is not None:
        lines.append(
            f"prompt = tokenizer.apply_chat_template(json.dumps({messages(chat)}), add_generation_prompt=True)"
        )
    lines += ["ids = tokenizer.encode(prompt)", "params = og.GeneratorParams(model)"]
    lines.append(f"params.set_search_options({_arguments(options)})")
    if found.config:
        spec = _arguments({name: repr(value) for name, value in found.config.items()})
        lines.append(f"params.set_speculative_options({spec})")
    lines += [
        "generator = og.Generator(model, params)", "generator.append_tokens(ids)", "while not generator.is_done():",
        "    generator.generate_next_token()", "print(tokenizer.decode(generator.get_sequence(0)[len(ids):]))",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def node_code(
    settings: Settings, target: str, draft: str | None = None, chat: Chat | None = None, prompt: str = YOURS
) -> str:
    """JavaScript for node-llama-cpp, which reads GGUF files."""
    found = for_node(settings)
    drafts, options = settings.proposer == "draft-model", json.dumps(found.config)
    comments = [*head(settings, found), *gguf_files(target, (draft or "the draft model") if drafts else None)]
    way = "LlamaCompletion" if chat is None else "LlamaChatSession"
    kind = "DraftSequenceTokenPredictor" if drafts else "InputLookupTokenPredictor" if found.config else ""
    lines = [f"//{line[1:]}" for line in comments] + [
        f'import {{ getLlama, {way}{kind and ", " + kind} }} from "node-llama-cpp";', "",
        "const llama = await getLlama();",
        "const opened = async (modelPath) => (await llama.loadModel({ modelPath })).createContext();",
    ]  # fmt: skip
    if kind:
        sequence = '(await opened("draft.gguf")).getSequence(), ' if drafts else ""
        lines.append(f"const tokenPredictor = new {kind}({sequence}{options});")
    predictor = "{ tokenPredictor }" if kind else ""
    lines.append(f'const contextSequence = (await opened("target.gguf")).getSequence({predictor});')
    system = f", systemPrompt: {json.dumps(chat.system)}" if chat is not None and chat.system.strip() else ""
    call = "generateCompletion" if chat is None else "prompt"
    lines += [
        f"const writer = new {way}({{ contextSequence{system} }});", f"const prompt = {json.dumps(prompt)};",
        f"console.log(await writer.{call}(prompt, {json.dumps(found.generate)}));", "await llama.dispose();",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
