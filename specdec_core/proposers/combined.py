"""Two ways of guessing in one lane: the text is looked up first, and a model drafts where that has no answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from specdec_core.foundations.options import read
from specdec_core.round import Context, DraftedAhead, Outcome, Proposal
from specdec_core.settings import Settings

from .contract import Proposer, Resources, TreeShape
from .draft.draft_model import DraftModel
from .draft.early_exit import EarlyExit
from .draft.parallel_draft import ParallelDraft
from .heads.block import WholeBlock
from .heads.eagle import Eagle
from .heads.eagle3 import Eagle3
from .heads.medusa import Medusa
from .heads.mtp import Mtp
from .lookup.prompt_lookup import PromptLookup
from .lookup.suffix import Suffix

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

Model = Literal["draft-model", "parallel-draft", "medusa", "eagle", "eagle3", "mtp", "block", "early-exit"]
MODELS: dict[str, type[Proposer]] = {
    kind.name: kind for kind in (DraftModel, ParallelDraft, Medusa, Eagle, Eagle3, Mtp, WholeBlock, EarlyExit)
}
LONGEST_MATCH = 16


class Combined(Proposer):
    """The first that answers: where at least `least` tokens agree with an earlier place of the text, its continuation
    is proposed, else the model's guess. With `least` 1 the model drafts only where nothing matches (llama.cpp's lists
    of speculative types); a larger one overrides the model where the match is long (TensorRT-LLM's suffix automaton).

    Who answers follows from the text alone, so given the text each proposal is the look-up's point mass or the model's
    own q, and exact for the rules that judge these. A round that was looked up costs no pass of the model, which reads
    its tokens when it drafts next. The note says `by` whom the round was proposed, and what that one notes.
    """

    name = "combined"
    title = "Look-up, else a model"
    summary = (
        "Copies what followed an earlier place that reads like the text's end, and lets a model guess where there is "
        "none. It is faster than either where edits, code or agents' answers mix copied and new text; elsewhere false "
        "matches displace better guesses."
    )
    needs: ClassVar[tuple[str, ...]] = ("draft",)  # of the default model; see `resolved`
    uses: ClassVar[tuple[str, ...]] = ("length", "more", "slots", "deeper", "nodes")

    class Options(Proposer.Options):
        model: Model = Field(
            "draft-model", description="Which proposer guesses where the look-up does not answer."
        )
        lookup: Literal["longest", "leading", "walk", "suffix"] = Field(
            "longest",
            description="How the text is looked up: 'longest', 'leading' and 'walk' as prompt lookup's option 'match', "
            "'suffix' as suffix decoding, one chain.",
        )
        least: int = Field(
            3,
            ge=1,
            le=LONGEST_MATCH,
            title="Tokens that have to agree",
            description="The look-up answers only where so many of the last tokens agree; 1 lets it answer always.",
        )
        copies: int = Field(
            10, ge=1, le=64, title="Tokens copied", description="The most tokens that are copied in a round."
        )
        tree: list[int] = Field(
            [],
            max_length=3,
            description="Of a head's tree: levels, followed per level, tokens sent, such as [5, 4, 16]. If empty, the "
            "head's own defaults.",
        )

    options: Options

    @classmethod
    def resolved(cls, options: Any) -> type[Proposer]:
        return _with(options.model)

    @classmethod
    def check(cls, settings: Settings, options: Any) -> None:
        model = MODELS[options.model]
        model.check(settings, _model_options(options))
        _lookup_options(options)

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        model = MODELS[options.model].shape(settings, _model_options(options))
        return TreeShape(model.drafts, max(model.max_nodes, options.copies))

    def __init__(self, resources: Resources, options: Any) -> None:
        super().__init__(resources, options)
        lookup, given = (Suffix if options.lookup == "suffix" else PromptLookup), _lookup_options(options)
        self.lookup: Proposer = lookup(resources, given)
        self.model = MODELS[options.model](resources, _model_options(options))

    def start(self, context: Context) -> None:
        self.lookup.start(context)
        self.model.start(context)

    def propose(self, context: Context) -> Proposal:
        found = self.lookup.propose(replace(context, length=min(self.options.copies, context.limit)))
        agreeing = found.note.get("match_length")
        if len(found.tree) and isinstance(agreeing, int) and agreeing >= self.options.least:
            found.note["by"] = self.lookup.name
            return found
        guessed = self.model.propose(context)
        guessed.note["by"] = self.model.name if len(guessed.tree) else None
        return guessed

    def observe(self, context: Context, outcome: Outcome) -> DraftedAhead | None:
        self.lookup.observe(context, outcome)
        return self.model.observe(context, outcome)

    def close(self) -> None:
        self.lookup.close()
        self.model.close()


@cache
def _with(model: str) -> type[Proposer]:
    """The pair with that model: needs what the model needs."""
    kind = MODELS[model]

    class Pair(Combined):
        __doc__ = Combined.__doc__
        needs, uses = kind.needs, kind.uses

        @classmethod
        def why_not(cls, models: Models, person: bool = True) -> str | None:
            return kind.why_not(models, person)

        @classmethod
        def which_draft(cls, options: Any) -> str:
            return kind.which_draft(_model_options(options))

    return Pair


def _lookup_options(options: Any) -> Any:
    if options.lookup == "suffix":
        return Suffix.Options(shape="chain", nodes=options.copies)
    sizes = {"longest": LONGEST_MATCH, "leading": options.least, "walk": options.least}
    return PromptLookup.Options(match=options.lookup, max_ngram=sizes[options.lookup])


def _model_options(options: Any) -> Any:
    kind = MODELS[options.model]
    names = (name for name in ("depth", "top_k", "nodes") if name in kind.Options.model_fields)
    given = dict(zip(("depth", "top_k", "nodes"), options.tree, strict=False))
    tree: dict[str, Any] = {name: given[name] for name in names if name in given}
    return read(f"the proposer '{kind.name}'", kind.Options, tree)
