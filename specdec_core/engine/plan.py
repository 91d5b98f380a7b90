"""Before the first round: all that can be refused is refused here, and the parts of the loop are put together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import index
from typing import Self

from specdec_core import lengths as draft_length
from specdec_core.chat import MAX_SYSTEM, Chat, Prompt
from specdec_core.errors import PromptError, SettingsError
from specdec_core.lengths import FixedLength, policy_class
from specdec_core.models.bundle import Models
from specdec_core.penalties import Penalties
from specdec_core.proposers import PROPOSERS, Context, Proposer, Resources, proposer_class
from specdec_core.record.schema import Header, ModelInfo, Round
from specdec_core.rules import Rule, rule_class
from specdec_core.runtime.machine import packages
from specdec_core.runtime.reader import Reader
from specdec_core.sampling import Warp
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

MAX_PROMPT_CHARACTERS = 1_000_000
Ask = Callable[[str], str]


@dataclass(slots=True)
class Plan:
    """A decode that can begin: nothing a user said can fail after this."""

    models: Models
    settings: Settings
    prompt: str
    prompt_ids: list[int]
    chat: Chat | None
    target: Reader
    proposer: Proposer
    rule: Rule
    context: Context

    @classmethod
    def make(cls, models: Models, prompt: Prompt, settings: Settings, ask: Ask | None = None) -> Self:
        """Check prompt, settings and models against each other and build the lane's parts.

        Raises:
            SpecdecError: one sentence.
        """
        check(settings)
        settings = models.generation.resolved(settings)
        kind, rule_kind = proposer_class(settings.proposer), rule_class(settings.rule)
        models = models.drafting(getattr(kind.read_options(settings), "draft", "usual"))
        why_not = kind.why_not(models, ask is not None)
        if why_not is not None:
            raise SettingsError(why_not)
        text, ids = _read_prompt(models, prompt)
        needs_draft = "draft" in kind.needs
        start = models.decoder_start
        _check_window(ids, settings.max_new_tokens, models.window(needs_draft), encoded=start is not None)
        source, tokens = ([], ids) if start is None else (ids, [start])
        models = models.reading(source)
        widest = kind.max_nodes(settings) + 1
        capacity = len(tokens) + settings.max_new_tokens + widest
        draft = models.draft.reader(capacity, widest) if needs_draft and models.draft else None
        resources = Resources(models.target.reader(capacity, widest), models, capacity, draft, ask)
        context = Context(
            settings=settings,
            warp=Warp.of(settings),
            vocabulary=models.target.vocabulary,
            prompt_length=len(tokens),
            tokens=list(tokens),
            source=list(source),
            past=Penalties.of(settings).after(tokens),
            policy=policy_class(settings)(draft_length.read_options(settings), resources),
        )
        return cls(
            models=models,
            settings=settings,
            prompt=text,
            prompt_ids=ids,
            chat=prompt if isinstance(prompt, Chat) else None,
            target=resources.target,
            proposer=kind(resources, kind.read_options(settings)),
            rule=rule_kind(rule_kind.read_options(settings)),
            context=context,
        )

    @property
    def start(self) -> list[int]:
        """What an encoder–decoder's decoder starts from; empty for causal models."""
        return self.context.tokens[: self.context.prompt_length] if self.context.source else []

    def hold(self, tree: TokenTree) -> None:
        """Hold a proposer to its promises; a break is a bug in the proposer, not the user's doing."""
        if len(tree) > self.proposer.max_nodes(self.settings):
            raise ValueError(f"'{self.settings.proposer}' proposed {len(tree)} nodes, more than it announced")
        if tree.tokens and not 0 <= min(tree.tokens) <= max(tree.tokens) < self.context.vocabulary:
            raise ValueError(f"'{self.settings.proposer}' proposed a token id outside the vocabulary")

    def header(self) -> Header:
        """The trace's header."""
        models = self.models
        uses_draft = "draft" in type(self.proposer).needs
        return Header(
            id=secrets.token_urlsafe(12),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            packages=packages(),
            device=models.device,
            dtype=models.dtype,
            machine=models.machine,
            target=models.target.info,
            draft=models.draft.info if uses_draft and models.draft else None,
            settings=self.settings.model_dump(mode="json"),
            prompt=self.prompt,
            prompt_ids=self.prompt_ids,
            prompt_texts=models.codec.names(self.prompt_ids),
            vocabulary=models.target.vocabulary,
            judging=type(self.rule).judging,
            own_probabilities=self.context.warp.greedy and type(self.rule).own_probabilities,
            heads=[
                ModelInfo(f"{need} heads", sum(weight.numel() for weight in models.heads[need].parameters()))
                for need in type(self.proposer).needs
                if need in models.heads
            ],
            decoder_start=self.start,
            chat=self.chat is not None,
            system=self.chat.system if self.chat else "",
        )

    def names(self, rounds: Iterable[Round], output: Iterable[int]) -> dict[str, str]:
        """The display texts of every token id that the record mentions."""
        ids = {*output, *self.start}
        for row in rounds:
            ids.update(row.nodes.token)
            for fact in row.note.values():  # a note's lists of lists hold token ids
                if isinstance(fact, list):
                    ids.update(token for entry in fact if isinstance(entry, list) for token in entry)
            for position in row.positions:
                for head in (position.p, position.model_p, position.q, position.model_q, position.residual):
                    if head is not None:
                        ids.update(head.id)
        ordered = sorted(ids)
        return {
            str(token): name for token, name in zip(ordered, self.models.codec.names(ordered), strict=True)
        }


def check(settings: Settings) -> None:
    """Refuse what is wrong whatever the models are.

    Raises:
        SettingsError: one sentence.
    """
    kind, rule_kind = proposer_class(settings.proposer), rule_class(settings.rule)
    draft_length.read_options(settings)
    kind.check(settings)
    rule_kind.check(settings)
    why_not = rule_kind.unsuited(kind.drafts(settings))
    if why_not is not None:
        raise SettingsError(why_not)
    if settings.overlap and not kind.can_overlap:
        able = ", ".join(name for name, other in PROPOSERS.items() if other.can_overlap)
        raise SettingsError(
            f"The proposer '{kind.name}' cannot draft while the target verifies; overlap works with: {able or 'none'}."
        )


def remark(settings: Settings) -> str | None:
    """What is worth saying about settings that are allowed, as a sentence; None if there is nothing."""
    kind, policy = proposer_class(settings.proposer), policy_class(settings)
    if settings.proposer == "none" or policy is FixedLength or set(policy.steers) & set(kind.heeds):
        return None
    return (
        f"The length policy '{policy.name}' changes nothing here: the proposer '{kind.name}' does not draft token by "
        "token with a confidence to go by."
        if kind.heeds
        else f"The length policy '{policy.name}' changes nothing here: the proposer '{kind.name}' asks for no length."
    )


def _check_window(ids: Sequence[int], more: int, window: int, encoded: bool) -> None:
    """Refuse what the models cannot read; an encoder's prompt and a decoder's output each have the window."""
    if encoded and len(ids) > window:
        raise PromptError(
            f"The prompt has {len(ids):,} tokens, but the models' encoders read at most {window:,}. Shorten the prompt."
        )
    if encoded and more >= window:
        raise PromptError(
            f"{more:,} tokens are asked for, but the models' decoders write at most {window - 1:,}. Ask for fewer."
        )
    if not encoded and len(ids) + more > window:
        raise PromptError(
            f"The prompt has {len(ids):,} tokens and {more:,} more are asked for, but the "
            f"models read at most {window:,} in all. Shorten the prompt or ask for fewer tokens."
        )


def _check_text(what: str, text: str, most: int) -> None:
    """Refuse what is too long or no text."""
    if len(text) > most:
        raise PromptError(f"The {what} has {len(text):,} characters; at most {most:,} are read. Shorten it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PromptError(
            f"The {what} holds half of a character (a lone surrogate). Paste it again as text."
        ) from None


def _read_prompt(models: Models, prompt: Prompt) -> tuple[str, list[int]]:
    """Text and token ids of a prompt given as either; of a chat message its own text and the templated ids."""
    if isinstance(prompt, str | Chat):
        text = prompt.message if isinstance(prompt, Chat) else prompt
        _check_text("prompt", text, MAX_PROMPT_CHARACTERS)
        if isinstance(prompt, Chat):
            _check_text("system line", prompt.system, MAX_SYSTEM)
            ids = models.chat(text, prompt.system)
        else:
            ids = models.codec.encode(text)
        wide = next((token for token in ids if token >= models.target.vocabulary), None)
        if wide is not None:
            raise PromptError(
                f"The tokenizer turns this prompt into the token id {wide}, but the target model knows only ids 0 to "
                f"{models.target.vocabulary - 1}: tokenizer and model do not belong together."
            )
    else:
        try:
            ids = [index(token) for token in prompt]
        except TypeError:
            raise PromptError(
                "A prompt is text or a list of token ids; this one holds something else."
            ) from None
        width = models.target.vocabulary
        bad = next((token for token in ids if not 0 <= token < width), None)
        if bad is not None:
            raise PromptError(
                f"The prompt holds the token id {bad}; the target model knows ids 0 to {width - 1}."
            )
        text = models.codec.decode(ids)
    if not ids or (isinstance(prompt, Chat) and not text.strip()):
        if models.bos is None or isinstance(prompt, Chat):
            raise PromptError(
                "The message is empty. Type a few words."
                if isinstance(prompt, Chat)
                else "The prompt is empty and this model has no beginning-of-sequence token to start from. "
                "Type a few words."
            )
        ids = [models.bos]
    return text, ids
