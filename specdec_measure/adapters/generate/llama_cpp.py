"""llama.cpp's speculation through llama-cpp-python, recorded while its `generate` runs: same format, player, audit.

Nothing of it is copied. Its `draft_model` and `eval` are watched as attributes of the one object that was given, and
the logits read after each pass. As in the records of transformers the first pass also reads the prompt, and coins are
unknown. llama.cpp draws the target's own token at every position and keeps the guesses that equal it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from specdec_core.engine.prompt import token_ids
from specdec_core.foundations.errors import SettingsError
from specdec_core.record.schema import Header, ModelInfo
from specdec_core.record.trace import Trace
from specdec_core.runtime.machine import describe, packages
from specdec_core.sampling import Warp
from specdec_core.settings import Settings

from .keeping import Keeping, Observed

PURE = {
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repeat_penalty": 1.0,
}  # nothing but a temperature


def record(
    llama: Any,
    prompt: str | Sequence[int],
    *,
    max_new_tokens: int = 64,
    temperature: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run `llama.generate` and return the record of it; its tokens are those that `generate` yielded.

    Args:
        llama: a `llama_cpp.Llama` that was made with a `draft_model`, such as `LlamaPromptLookupDecoding`.
        prompt: text, or token ids.
        temperature: 0 is greedy. Cuts and penalties are off.

    Raises:
        SettingsError: with one sentence, where it has no draft model, or no room.
        PromptError: likewise, where the prompt is neither text nor token ids.
    """
    if getattr(llama, "draft_model", None) is None:
        raise SettingsError("This Llama does not speculate: give it a draft_model when it is made.")
    codec = LlamaCodec(llama)
    ids = codec.encode(prompt) if isinstance(prompt, str) else token_ids(prompt)
    asked = Settings(max_new_tokens=max_new_tokens, seed=seed, temperature=temperature)
    if not ids or len(ids) + max_new_tokens > llama.n_ctx():
        raise SettingsError(
            f"The prompt has {len(ids):,} tokens and {max_new_tokens:,} are to be written; "
            f"this Llama's context has room for {llama.n_ctx():,}, and a prompt has at least one."
        )
    keeping = Keeping(codec, ids, asked)
    observer = LlamaObserver(llama, temperature, lambda seen: keeping.take(seen, Warp(temperature)))
    llama.reset()
    llama.set_seed(seed)
    count, ends = 0, [int(llama.token_eos())]
    with observer.watching():
        running = llama.generate(ids, temp=temperature, **PURE)
        try:
            for token in running:
                observer.sampled(int(token))
                count += 1
                if int(token) in ends or count == max_new_tokens:
                    break
        finally:
            running.close()
    return keeping.trace(_header(llama, codec, ids, prompt, asked), max_new_tokens, ends)


class LlamaObserver:
    """Watches one call of `generate`; `then` receives each round once the next one begins."""

    def __init__(self, llama: Any, temperature: float, then: Callable[[Observed], None]) -> None:
        self.llama, self.temperature, self.then = llama, temperature, then
        self._round: Observed | None = None
        self._drafted: tuple[float, float] | None = None  # when drafting began and ended
        self._verified = 0.0
        self._last = 0.0
        self._began = time.perf_counter()
        self._away = 0.0  # seconds spent here

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While `generate` runs."""
        draft, evaluate = self.llama.draft_model, self.llama.eval

        def drafting(input_ids: Any, **more: Any) -> Any:
            self._end_round()
            begun = self._now()
            found = draft(input_ids, **more)
            self._drafted = (begun, self._now())
            return found

        def evaluating(tokens: Sequence[int]) -> None:
            before, begun = self.llama.n_tokens, self._now()
            evaluate(tokens)
            self._evaluated([int(token) for token in tokens], before, begun)

        self.llama.draft_model, self.llama.eval = drafting, evaluating
        try:
            yield
            self._end_round()
        finally:
            self.llama.draft_model = draft
            del self.llama.eval  # an attribute of this one object; the class keeps its method

    def sampled(self, token: int) -> None:
        """A token that `generate` yielded."""
        assert self._round is not None
        self._round.committed.append(token)
        self._last = self._now()

    def _evaluated(self, tokens: list[int], before: int, begun: float) -> None:
        ended = self._now()
        with self._off_the_clock():
            candidates = tokens[1:] if self._drafted else []  # the first pass reads the prompt
            start, drafted = self._drafted or (begun, begun)
            end = before + len(tokens)
            rows = self.llama.scores[end - len(candidates) - 1 : end]
            logits = torch.tensor(rows, dtype=torch.float32)
            scores = logits / self.temperature if self.temperature > 0 else logits
            seconds = [drafted - start, ended - drafted]
            self._round = Observed(start, candidates, [], logits, scores, None, None, 0, seconds)
            self._verified = self._last = ended

    def _end_round(self) -> None:
        """Its guesses have been judged once the last token was sampled."""
        if self._round is None:
            return
        with self._off_the_clock():
            done, self._round = self._round, None
            done.seconds += [self._last - self._verified, 0.0]
            if done.committed:
                self.then(done)

    def _now(self) -> float:
        return time.perf_counter() - self._began - self._away

    @contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._away += time.perf_counter() - began


class LlamaCodec:
    """llama.cpp's own tokenizer, as the record needs it."""

    def __init__(self, llama: Any) -> None:
        self.llama = llama

    def encode(self, text: str) -> list[int]:
        return [int(token) for token in self.llama.tokenize(text.encode(), special=True)]

    def frame(self) -> tuple[list[int], list[int]]:
        raise NotImplementedError("only drafts with another tokenizer need this")

    def added(self) -> dict[str, tuple[int, bool]]:
        raise NotImplementedError("only stop strings and drafts with another tokenizer need this")

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(self.llama.detokenize(list(ids))).decode("utf-8", "replace")

    def names(self, ids: Iterable[int]) -> list[str]:
        return [self._name(token) for token in ids]

    def split(self, text: str) -> list[int]:
        return [int(token) for token in self.llama.tokenize(text.encode(), add_bos=False)]

    def spelled(self) -> dict[int, bytes]:
        raise NotImplementedError("only drafts with another tokenizer need this")

    def _name(self, token: int) -> str:
        data = bytes(self.llama.detokenize([token], special=True))
        try:
            return data.decode() or f"⟨{token}⟩"
        except UnicodeDecodeError:
            return "".join(f"⟨0x{byte:02X}⟩" for byte in data)


def _header(
    llama: Any, codec: LlamaCodec, ids: list[int], prompt: str | Sequence[int], asked: Settings
) -> Header:
    cpu = torch.device("cpu")
    metadata = getattr(llama, "metadata", None) or {}
    return Header(
        id=secrets.token_urlsafe(12), created=datetime.now(UTC).isoformat(timespec="seconds"),
        packages=packages() | {"llama-cpp-python": _version()}, device="unknown", dtype="unknown",
        machine=describe(cpu), draft=None,
        target=ModelInfo(
            str(metadata.get("general.name", "unknown"))[:500], 0, str(metadata.get("general.architecture", ""))[:500]
        ),
        settings=_settings(llama.draft_model, asked),
        prompt=prompt if isinstance(prompt, str) else codec.decode(ids), prompt_ids=ids, prompt_texts=codec.names(ids),
        vocabulary=int(llama.n_vocab()),
    )  # fmt: skip


def _settings(draft: Any, asked: Settings) -> dict[str, Any]:
    """In our words; a draft model of one's own is named by its class."""
    settings = asked.model_dump(mode="json") | {
        "rule": "token-matching" if asked.temperature else "exact-match"
    }
    if type(draft).__name__ == "LlamaPromptLookupDecoding":
        lookup = {"proposer": "prompt-lookup", "draft_length": int(draft.num_pred_tokens)}
        return settings | lookup | {"options": {"max_ngram": int(draft.max_ngram_size), "match": "first"}}
    return settings | {"proposer": type(draft).__name__[:64], "options": {}}


def _version() -> str:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return "unknown"
