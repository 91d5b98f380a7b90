"""transformers' own assisted generation, recorded while its `generate` runs: the same format, player and audit.

Two things differ from a record of our decoder. The first round's pass also reads the prompt, so its time includes what
we report as prefill. And the coins are drawn inside transformers where nobody sees them, so they are unknown.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdec_core.engine.describe import RawRound
from specdec_core.engine.recorder import Recorder, new_round
from specdec_core.engine.text import Text, names_of
from specdec_core.errors import SettingsError
from specdec_core.models.tokenizer import HubCodec
from specdec_core.proposers.contract import DraftedAhead, Proposal
from specdec_core.record.foreign import judged
from specdec_core.record.schema import EndReason, Header, ModelInfo, Verdict
from specdec_core.record.stats import Tally
from specdec_core.record.trace import Trace
from specdec_core.rules import Decision
from specdec_core.runtime.machine import describe, packages
from specdec_core.sampling import Warp, residual
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .observing import Observed, Observer, Setup

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def record(
    model: PreTrainedModel,
    prompt: str | Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    *,
    assistant_model: PreTrainedModel | None = None,
    max_new_tokens: int = 64,
    seed: int = 0,
    **options: Any,
) -> Trace:
    """Run `model.generate` with speculation and return the record of it; its tokens are those that `generate` returned.

    Args:
        prompt: text, or token ids.
        assistant_model: the draft; or give `prompt_lookup_num_tokens` or `assistant_early_exit` among the options.
        seed: torch's generator is set to it, for sampling.
        options: go to `generate` as they are.

    Raises:
        SettingsError: with one sentence, where `generate` does not speculate, or in a way that is not recorded.
    """
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
    if not ids:
        raise SettingsError("The prompt has no tokens; transformers needs at least one.")
    keeping = Keeping(HubCodec(tokenizer), ids, Settings(max_new_tokens=max_new_tokens, seed=seed))
    observer = Observer(model, assistant_model, keeping.take)
    keeping.observer = observer
    if assistant_model is not None:
        options["assistant_model"] = assistant_model
    torch.manual_seed(seed)
    with torch.inference_mode(), observer.watching():
        given = torch.tensor([ids], device=model.device)
        options.setdefault("attention_mask", torch.ones_like(given))
        run: Any = model  # whose `generate` torch types as a tensor
        output = run.generate(given, max_new_tokens=max_new_tokens, **options)
    if observer.setup is None:
        raise SettingsError(
            "This call of generate does not speculate: give an assistant_model, prompt_lookup_num_tokens or "
            "assistant_early_exit."
        )
    returned = getattr(output, "sequences", output)[0].tolist()
    trace = keeping.trace(
        model, assistant_model, prompt if isinstance(prompt, str) else "", seed, max_new_tokens
    )
    if [*ids, *trace.token_ids] != returned:
        raise AssertionError("the recorded tokens are not those that generate returned")
    return trace


class Keeping:
    """Turns observed rounds into rounds of the record."""

    observer: Observer

    def __init__(self, codec: HubCodec, prompt: list[int], asked: Settings) -> None:
        self.codec, self.prompt = codec, prompt
        self.tally = Tally()
        self.text = Text(codec, prompt, frozenset(), asked)
        self._recorder: Recorder | None = None

    def take(self, seen: Observed) -> None:
        """One round."""
        setup = self.observer.setup
        assert setup is not None
        sampled = bool(setup.config.do_sample)
        if self._recorder is None:  # transformers' scores are warped already
            self._recorder = Recorder("full", Warp(1.0) if sampled else Warp())
        tree, committed = TokenTree.chain(seen.candidates), seen.committed
        p = seen.scores.softmax(-1) if sampled else None
        q = seen.q.softmax(-1) if sampled and seen.q is not None else None
        verdicts, sources = judged(seen.candidates, committed)
        path = list(range(verdicts.count("accepted")))
        passing = _thresholds(seen, verdicts, p, q)
        length = len(self.prompt) + len(self.text.output.ids) - 1
        row = new_round(
            self.tally.passes, seen.start_s, seen.seconds, (length, length + len(committed)),
            Proposal(tree, passes=seen.draft_passes, note={} if self.tally.passes else {"reads_prompt": True}),
            verdicts, (committed, sources), DraftedAhead(),
        )  # fmt: skip
        self.tally.add(tree, verdicts, len(committed), seen.draft_passes, seen.seconds)
        self.text.add(committed)
        self._recorder.add(
            RawRound(
                row, tree, Decision(path, verdicts, passing), [0.0] * len(tree), seen.logits, p, q, seen.drafted,
                None, None, scores=seen.scores if setup.processed else None,
                final=_final(seen, len(path), p, q) if sources[-1] == "corrected" else None,
            )
        )  # fmt: skip

    def trace(
        self, model: PreTrainedModel, draft: PreTrainedModel | None, prompt: str, seed: int, most: int
    ) -> Trace:
        """The finished record."""
        setup, recorder = self.observer.setup, self._recorder
        assert setup is not None
        rounds = recorder.finish() if recorder is not None else []
        for row in rounds:
            row.nodes.coin = None  # drawn inside transformers
        output = self.text.finish()
        ends = setup.config.eos_token_id
        known = [] if ends is None else ends if isinstance(ends, list) else [ends]
        end: EndReason = "length" if len(output.ids) >= most else "stop"
        if output.ids and output.ids[-1] in known:
            end = "eos"
        header = Header(
            id=secrets.token_urlsafe(12), created=datetime.now(UTC).isoformat(timespec="seconds"),
            packages=packages(), device=model.device.type, dtype=str(model.dtype).removeprefix("torch."),
            machine=describe(model.device), target=_info(model), draft=_info(draft) if draft is not None else None,
            settings=settings_of(setup, seed, most).model_dump(mode="json"),
            prompt=prompt or self.codec.decode(self.prompt),
            prompt_ids=self.prompt, prompt_texts=self.codec.names(self.prompt),
            vocabulary=int(model.get_output_embeddings().weight.shape[0]),
        )  # fmt: skip
        stats = self.tally.stats(0.0, recorder.seconds if recorder is not None else 0.0)
        return Trace(header, rounds, output, end, stats, names_of(self.codec, rounds, output.ids))


def _thresholds(
    seen: Observed, verdicts: Sequence[Verdict], p: Tensor | None, q: Tensor | None
) -> list[float | None]:
    """The probability with which each judged candidate was to pass."""
    found: list[float | None] = []
    for node, (token, verdict) in enumerate(zip(seen.candidates, verdicts, strict=True)):
        if verdict not in ("accepted", "rejected"):
            found.append(None)
        elif p is None:
            found.append(1.0 if verdict == "accepted" else 0.0)
        elif q is None:  # the target's own draw has to be this token
            found.append(float(p[node, token]))
        else:
            found.append(min(1.0, float(p[node, token] / q[node, token])))
    return found


def _final(seen: Observed, at: int, p: Tensor | None, q: Tensor | None) -> Tensor | None:
    """What a corrected token was drawn from. A draw that is not the candidate is one from what that leaves of p."""
    if p is None:
        return None
    if q is None:
        q = torch.zeros_like(p)
        q[at, seen.candidates[at]] = 1.0
    return residual(p[at], q[at])


def settings_of(setup: Setup, seed: int, most: int) -> Settings:
    """`generate`'s configuration in our words."""
    config, proposer = setup.config, setup.proposer
    options: dict[str, Any] = {}
    if proposer == "prompt-lookup":
        options = {"max_ngram": config.max_matching_ngram_size or 2, "match": "first"}
    elif proposer == "early-exit":
        options = {"layer": config.assistant_early_exit}
    drawn = proposer != "prompt-lookup"
    own = getattr(setup.generator, "assistant_generation_config", None)
    schedule = getattr(own, "num_assistant_tokens_schedule", None) or ""
    doubt = getattr(own, "assistant_confidence_threshold", None) or 0.0
    policy = "heuristic" if schedule.startswith("heuristic") else "confidence" if doubt else "fixed"
    sampling: dict[str, Any] = {}
    if config.do_sample:
        sampling = {
            "temperature": config.temperature or 1.0,
            "top_k": config.top_k or 0,
            "top_p": config.top_p or 1.0,
        }
        sampling["min_p"] = config.min_p
    return Settings(
        proposer=proposer,
        rule="speculative-sampling" if drawn or not config.do_sample else "token-matching",
        draft_length=setup.first_length,
        length_policy=policy,
        length_options={"threshold": doubt} if policy == "confidence" else {},
        max_new_tokens=most,
        repetition_penalty=config.repetition_penalty,
        no_repeat_ngram_size=config.no_repeat_ngram_size,
        seed=seed,
        options=options,
        **sampling,
    )


def _info(model: PreTrainedModel) -> ModelInfo:
    """A model's name, never a path."""
    name = str(model.config._name_or_path or model.config.model_type)
    name = Path(name).name if Path(name).is_absolute() or Path(name).exists() else name
    return ModelInfo(name[:500], int(model.num_parameters()), str(model.config.model_type))
