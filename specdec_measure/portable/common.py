"""What the settings for all other programs have in common: sentences about what they lack, names of models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec_core.models import catalogue
from specdec_core.models.tokens.chat import Chat
from specdec_core.proposers import proposer_class
from specdec_core.rules import rule_class
from specdec_core.settings import Settings

YOURS = "Your prompt"  # stands in the code where no prompt is given
# Programs that have the proposer for other targets than those that it has here.
FOR_OTHERS = {
    (
        "mtp",
        "transformers",
    ): "transformers drafts with MTP modules (use_mtp) only where they are part of the files of a "
    "target that it knows, such as DeepSeek-V3 and GLM-4-MoE",
}


@dataclass(slots=True)
class Elsewhere:
    """The settings in one program's terms.

    Attributes:
        generate: keyword arguments of the call that generates.
        draft: entries for the drafting model's generation config (transformers).
        tokenizers: whether the call needs both tokenizers (transformers).
        config: the speculative configuration (vLLM); None where it has no such method.
        missing: a sentence for each setting without a counterpart.
        changed: why the text's distribution is not the lane's there, above temperature 0: a clause for each reason.
    """

    generate: dict[str, Any] = field(default_factory=dict)
    draft: dict[str, Any] = field(default_factory=dict)
    tokenizers: bool = False
    config: dict[str, Any] | None = None
    missing: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def messages(chat: Chat) -> str:
    """The conversation as Python source, its last message the variable `prompt`."""
    system = f'{{"role": "system", "content": {chat.system!r}}}, ' if chat.system.strip() else ""
    return f'[{system}{{"role": "user", "content": prompt}}]'


UNPENALISED = "The penalty on guesses: here the draft's tokens are penalised too, there only the target's."


def given(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    """The given settings that have an effect; unset ones follow the model's config there
    too."""
    given = {name: getattr(settings, name) for name in names}
    if settings.temperature == 0:
        given.pop("min_p", None)  # it only affects drawing, and nothing is drawn
    return {name: value for name, value in given.items() if value is not None}


def no_policy(settings: Settings) -> str:
    """What becomes of a length policy in a program without it, as a sentence."""
    chain = "length" in proposer_class(settings.proposer).uses
    same = f"γ is {settings.draft_length}" if chain else "the same amount is drafted"
    return f"length policy = {settings.length_policy}: {same} in every round there."


def no_rule(settings: Settings, program: str) -> str:
    if settings.temperature > 0 or rule_class(settings.rule).lossless:
        return f"rule = {settings.rule}: {program} has no such rule."
    return f"rule = {settings.rule}: at temperature 0 {program} writes the target's own greedy text instead."


def no_proposer(settings: Settings, program: str) -> str:
    title = proposer_class(settings.proposer).title
    lossy = "" if rule_class(settings.rule).lossless else f", without rule = {settings.rule}"
    known = FOR_OTHERS.get((settings.proposer, program), f"{program} has no such proposer")
    return f"{title}: {known}, so it decodes plainly with what follows{lossy}."


def seed(settings: Settings, rule_there: str | None, changed: Sequence[str] = ()) -> list[str]:
    """A note that random numbers differ there, and whether `rule_there` keeps the text's distribution.

    Args:
        changed: clauses, why it is another distribution.
    """
    if settings.temperature == 0:
        return []
    if changed:
        consequence = f"its distribution is another one: {'; '.join(changed)}"
    elif rule_there is not None and not rule_class(rule_there).lossless:
        consequence = f"its distribution is that of rule = {rule_there} there too"
    elif settings.proposer == "none" or rule_class(settings.rule).lossless:
        consequence = "its distribution is the same"
    else:
        consequence = (
            f"its distribution does too: there it is the target's, under rule = {settings.rule} it is not"
        )
    return [
        f"seed = {settings.seed}: the random numbers are different there, so the text differs; {consequence}."
    ]


def common(settings: Settings, found: Elsewhere, rule_there: str | None) -> None:
    """What no other program has."""
    found.missing += seed(settings, rule_there, found.changed)
    if settings.overlap:
        found.missing.append("Drafting while the target checks.")
    if settings.memory_budget_mb:
        found.missing.append("The memory budget for a round.")


def about(settings: Settings) -> str:
    from specdec_measure.sweep.lanes import label

    return f"Specdec Lab: {label(settings)}"


def head(settings: Settings, found: Elsewhere) -> list[str]:
    """The comment lines above the settings."""
    return [f"# {about(settings)}", *(f"# Differs: {sentence}" for sentence in found.missing)]


def path(name: str) -> str:
    """What another program takes for a model: a hub id, or a folder, of those that ship as seen from the repository."""
    entry = catalogue.named(name)
    name = name if entry is None else entry.target
    return f"assets/models/{name}" if catalogue.shipped(name) is not None else name
