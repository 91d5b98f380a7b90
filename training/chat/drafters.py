"""From a chat target to its own drafters: its answers, then the heads and the draft that are trained on them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from specdec_core.models import catalogue
from specdec_core.models.files.hub import load_tokenizer
from specdec_core.models.heads import Eagle3Head, EagleHead, MedusaHeads, eagle, eagle3, medusa
from specdec_core.models.heads.layouts.shapes import rope_theta
from specdec_core.models.tokens import draft_vocabulary
from training.chat import answers, waves
from training.chat import eagle as chat_eagle
from training.chat import eagle3 as chat_eagle3
from training.chat import heads as chat_heads
from training.chat.heads import Objective, Teacher
from training.chat.rows import Answers
from training.checkpoints import latest_checkpoint, load_state
from training.data.instructions import instructions
from training.export import write_json
from training.heads.eagle3 import DECAY
from training.heads.frozen import Frozen
from training.heads.rows import open_target, source_of
from training.heads.started import guided
from training.loop import Plan, steps

Part = Literal["eagle", "eagle3", "medusa", "draft"]
VOCABULARY = 8192  # tokens that may be guessed
MEDUSA_HEADS = 4
DRAFT_LAYERS = 2
DTYPE = torch.bfloat16  # of what ships: the target's own


def write_waves(
    model: str, corpus: Path, folder: Path, tokens: int, rows: int, own_waves: int, seed: int, device: str
) -> int:
    """Let the target answer instructions, and turns it made up, until so many tokens are in an empty folder."""
    target, tokenizer = open_target(model, "cpu"), load_tokenizer(source_of(model))
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
    found = instructions(corpus, seed)
    return waves.write(folder, target.model, tokenizer, found, seed, tokens, rows, device, own_waves)


def train_part(
    part: Part,
    model: str,
    folder: Path,
    run: Path,
    plan: Plan,
    parts: int | None = None,
    device: str = "cpu",
    passes: int = 2,
) -> tuple[dict[str, Any], nn.Module, Any]:
    """Train one drafter on the answers of a folder, or resume the run.

    Returns the counters, the trained module and what was measured on held-out answers.
    """
    target = open_target(model, "cpu")
    tokenizer = load_tokenizer(source_of(model))
    checkpoint = latest_checkpoint(run)
    before = load_state(checkpoint) if checkpoint else None
    rows = Answers(
        folder,
        prefix_of(target.model, tokenizer),
        plan.batch,
        plan.seed,
        before["data"]["parts"] if before and parts is None else parts,
    )
    # a draft's table has one row more, for all others
    size = VOCABULARY - 1 if part == "draft" else VOCABULARY
    stored = before["vocabulary"] if before else rows.vocabulary(size, [tokenizer.eos_token_id]).tolist()
    teacher = Teacher.of(target.model, torch.tensor(stored))
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
    module = _new(part, target, teacher, rows, fresh=before is None, device=device)
    teacher, rows.device = teacher.to(device), device
    objective, weights = _loss(part, module, target, teacher, rows, passes)

    def measured() -> Any:
        if isinstance(module, EagleHead):
            return chat_eagle.eagle_accuracy(module, teacher, rows)
        if isinstance(module, Eagle3Head):
            return chat_eagle3.eagle3_accuracy(module, target, teacher, rows)
        if isinstance(module, MedusaHeads):
            return chat_heads.medusa_accuracy(module, teacher, rows)
        return chat_heads.draft_accuracy(module, teacher, rows)

    facts = {"kind": part, "target": target.name, "vocabulary": stored}
    state = steps(
        run, module, objective, rows, lambda: {"accuracy": measured()}, plan, facts, None, weights,
        chat_heads.trained_by_adamw, "cpu", rows.size,
    )  # fmt: skip
    return state, module, measured()


def _new(
    part: Part, target: Frozen, teacher: Teacher, rows: Answers, *, fresh: bool, device: str = "cpu"
) -> Any:
    """An untrained drafter on `device`; `fresh` if no checkpoint is loaded after. An EAGLE-3 head takes the target
    there, too."""
    model: Any = target.model
    if part == "eagle":
        return chat_eagle.new_eagle_head(model, teacher.vocabulary, rows, fresh).to(device)
    if part == "eagle3":
        model.to(device)
        return chat_eagle3.new_eagle3_head(target, teacher.vocabulary, rows)
    if part == "medusa":
        heads = MedusaHeads(MEDUSA_HEADS, 1, int(model.config.hidden_size), guesses=teacher.vocabulary)
        return heads.to(device)
    draft: Any = chat_heads.new_draft(model, teacher.vocabulary, rows, DRAFT_LAYERS, fresh)
    return draft.to(device)


def _loss(
    part: Part, module: Any, target: Frozen, teacher: Teacher, rows: Answers, passes: int = 2
) -> tuple[Objective, Any]:
    """A drafter's loss, and the weights of its parts; an EAGLE head that makes more than two passes makes them in
    every step."""
    if part == "eagle":
        objective = chat_eagle.eagle_objective(module, teacher, rows, passes, every=2 if passes == 2 else 1)
        return objective, torch.tensor([1.0, chat_eagle.REGRESSION, 1.0], device=rows.device)
    if part == "eagle3":
        steps = chat_eagle3.STEPS
        return chat_eagle3.eagle3_objective(module, target, teacher, rows), guided(
            DECAY ** torch.arange(steps, device=rows.device)
        )
    if part == "medusa":
        decay = chat_heads.HEAD_DECAY ** torch.arange(MEDUSA_HEADS, device=rows.device)
        return chat_heads.medusa_objective(module, teacher, rows), decay
    return chat_heads.draft_objective(module, teacher, rows), None


@torch.inference_mode()
def prefix_of(model: Any, tokenizer: Any) -> tuple[list[int], Tensor]:
    """The tokens before a user's words in the chat template, and the target's states there (n, d)."""
    prefix = answers.template(tokenizer)[0]
    seen: list[Tensor] = []
    hook = model.get_output_embeddings().register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0])
    )
    model(torch.tensor([prefix]), use_cache=False)
    hook.remove()
    return prefix, seen[0][0].clone()


def export(folder: Path, part: Part, module: Any, model: str, state: dict[str, Any], accuracy: Any) -> None:
    """Write a trained drafter as `load_models` takes it, in 16 bits."""
    notes = {"specdec_training": {key: state[key] for key in ("step", "tokens", "seconds")}}
    entry = catalogue.find(model)
    name = entry.target if entry is not None else Path(model).name
    if isinstance(module, EagleHead):
        module.accuracy = accuracy["accuracy"]
        eagle.write(folder, module, name, notes, DTYPE)
    elif isinstance(module, Eagle3Head):
        module.accuracy = accuracy[0]
        eagle3.write(folder, module, name, notes | {"specdec_steps": accuracy}, DTYPE)
    elif isinstance(module, MedusaHeads):
        module.accuracy = accuracy
        medusa.write(folder, module, name, notes, DTYPE)
    else:
        _export_draft(folder, module, torch.tensor(state["vocabulary"]), model, notes)


def _export_draft(folder: Path, draft: Any, vocabulary: Tensor, model: str, notes: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = _halves(draft.state_dict().items())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes files only their owner can read
    config = {key: value for key, value in draft.config.to_dict().items() if _plain(value)}
    theta = rope_theta(draft.config)
    config |= {
        "architectures": ["LlamaForCausalLM"],
        "dtype": str(DTYPE).removeprefix("torch."),
        "rope_theta": theta,  # both spellings: transformers 5 reads the second
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "bos_token_id": None,  # its tokens are the target's by `draft_vocabulary`
        "eos_token_id": None,
        "pad_token_id": None,
        **notes,
    }
    config.pop("_name_or_path", None)
    write_json(folder / "config.json", config)
    draft_vocabulary.write(folder, vocabulary, load_tokenizer(source_of(model)))


def _plain(value: object) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _halves(weights: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    return {name: weight.detach().to(DTYPE).contiguous() for name, weight in weights}
