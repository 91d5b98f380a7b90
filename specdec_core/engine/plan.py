"""Before the first round: whatever can be refused is refused here, and the parts of the loop are assembled."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from specdec_core.foundations.errors import ModelError, SettingsError, kind_of
from specdec_core.models.bundle import HubModel, Models
from specdec_core.models.sizes import head_info
from specdec_core.models.tokens.chat import Branched, Chat, Prompt
from specdec_core.proposers import Proposer, Resources, TreeShape
from specdec_core.record.schema import Branch, Header, Round
from specdec_core.round import Context
from specdec_core.rules import Rule
from specdec_core.runtime.machine import packages
from specdec_core.runtime.reader import Reader
from specdec_core.sampling import Warp
from specdec_core.sampling.penalties import Penalties
from specdec_core.settings import Settings, as_settings
from specdec_core.tree import Drafts

from .choice import check, usual
from .prompt import check_window, read_prompt
from .text import names_of

Ask = Callable[[str], str]


def no_tree(kind: type[Proposer], drafts: Drafts, models: Models) -> str | None:
    """Why a proposer cannot serve a model with recurrent layers, as a sentence; None if it can, or none has any."""
    pair = (models.target, models.draft if kind.uses_draft() else None)
    name = next((one.info.name for one in pair if isinstance(one, HubModel) and one.recurrent), None)
    if name is None:
        return None
    chains = "Choose one that proposes chains, such as 'draft-model' or 'prompt-lookup'."
    if drafts not in ("none", "chain"):
        return (
            f"The proposer '{kind.name}' proposes trees, and '{name}' has recurrent layers, whose one state cannot "
            f"follow several branches. {chains}"
        )
    if "layers" in kind.needs:
        return (
            f"The proposer '{kind.name}' runs the first layers of the target on the target's own cache, and the states "
            f"of the recurrent layers of '{name}' cannot be shared. {chains}"
        )
    return None


def of_types(models: object, settings: object) -> Settings:
    """The settings, `Settings()` for None; whoever calls from Python may have mistaken what goes where.

    Raises:
        SpecdecError: one sentence.
    """
    if not isinstance(models, Models):
        raise ModelError(f"Models are what load_models() returns, got {kind_of(models)}.")
    return Settings() if settings is None else as_settings(settings)


def listed(what: str, given: object) -> None:
    """Refuse what is no list of such things.

    Raises:
        SettingsError: one sentence.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise SettingsError(f"The {what} are a list, got {kind_of(given)}.")


@dataclass(slots=True)
class Plan:
    """A decode ready to begin: after this, only a proposer that breaks its contract is refused."""

    models: Models
    settings: Settings
    prompt: str
    prompt_ids: list[int]
    chat: Chat | None
    branch: Branch | None
    target: Reader
    proposer: Proposer
    rule: Rule
    shape: TreeShape
    start_context: Context

    @classmethod
    def make(
        cls, models: Models, prompt: Prompt, settings: Settings | None = None, ask: Ask | None = None
    ) -> Self:
        """Check prompt, settings and models against each other and build the lane's parts.

        Raises:
            SpecdecError: one sentence.
        """
        settings = of_types(models, settings)
        settings = usual(models, models.generation.resolved(settings))
        choice = check(settings)
        kind, shape = choice.proposer, choice.shape
        models = models.drafting(kind.which_draft(choice.options))
        why_not = kind.why_not(models, ask is not None)
        if why_not is not None:
            raise SettingsError(why_not)
        if (why_not := no_tree(kind, shape.drafts, models)) is not None:
            raise SettingsError(why_not)
        text, ids = read_prompt(models, prompt)
        start = models.decoder_start
        check_window(models, ids, settings.max_new_tokens)
        answers = isinstance(prompt, Chat) or (isinstance(prompt, Branched) and prompt.chat)
        if answers and models.turn_end is not None:
            models = replace(models, eos=models.eos | {models.turn_end})
        source, tokens = ([], ids) if start is None else (ids, [start])
        models = models.reading(source)
        widest, capacity = shape.max_nodes + 1, shape.rows(settings, len(tokens))
        draft = None
        if kind.uses_draft() and models.draft:
            draft = models.draft.reader(kind.draft_capacity(capacity), widest)
        resources = Resources(models.target.reader(capacity, widest), models, capacity, draft, ask)
        start_context = Context(
            settings=settings,
            warp=Warp.of(settings),
            vocabulary=models.target.vocabulary,
            prompt_length=len(tokens),
            tokens=list(tokens),
            source=list(source),
            past=Penalties.of(settings).after(tokens),
            policy=choice.policy(choice.policy_options, resources),
        )
        return cls(
            models=models,
            settings=settings,
            prompt=text,
            prompt_ids=ids,
            chat=prompt if isinstance(prompt, Chat) else None,
            branch=prompt.branch if isinstance(prompt, Branched) else None,
            target=resources.target,
            proposer=kind(resources, choice.options),
            rule=choice.rule(choice.rule_options),
            shape=shape,
            start_context=start_context,
        )

    def draft_levels(self, tokens: int) -> int:
        """How deep the draft can guess after so many tokens, for all that it reads to fit its window."""
        draft = self.models.draft
        if draft is None or "draft" not in self.proposer.needs:  # a foreign one has tokens of its own
            return sys.maxsize
        if len(self.start_context.source) > draft.positions:
            return 0
        return max(0, draft.positions - tokens + 1)

    @property
    def start(self) -> list[int]:
        """What an encoder–decoder's decoder starts from; empty for causal models."""
        return (
            self.start_context.tokens[: self.start_context.prompt_length] if self.start_context.source else []
        )

    def header(self) -> Header:
        """The trace's header."""
        models = self.models
        uses_draft = self.proposer.uses_draft()
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
            own_probabilities=self.start_context.warp.greedy and type(self.rule).own_probabilities,
            heads=[
                head_info(need, models.heads[need], models.causal_target.get_output_embeddings())
                for need in type(self.proposer).needs
                if need in models.heads
            ],
            decoder_start=self.start,
            chat=self.chat is not None,
            system=self.chat.system if self.chat else "",
            branch=self.branch,
        )

    def names(self, rounds: Iterable[Round], output: Iterable[int]) -> dict[str, str]:
        """Display texts of all token ids in the record."""
        return names_of(self.models.codec, rounds, [*output, *self.start])
