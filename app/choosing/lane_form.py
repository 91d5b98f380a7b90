"""The controls of one lane: the lab's, and the form in which the comparison edits one.

A form's name is the beginning of its widgets' keys; the lab's is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.lanes import page_settings
from app.lanes.fields import NumberField
from app.text import plain
from app.ui.glossary import define
from app.ui.state import state
from app.ui.widgets import number, pick, switch
from specdec_core.foundations.errors import SpecdecError
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.proposers import PROPOSERS
from specdec_core.rules import RULES
from specdec_core.settings import Settings

from . import current, form, options

USUAL = Settings()
TERMS = ("Proposer", "Draft model", "Target model")  # defined in the help on proposers
MEMORY_WORDS = (
    "Wide trees need memory for keys, values and probabilities. What exceeds this is left out; 0: no limit."
)
OVERLAP_WORDS = (
    "Starts guessing the next round while the target still checks this one; a wrong start is thrown away."
)


def proposers() -> dict[str, Any]:
    """The proposers in the core's order, but with the usual one first and plain decoding last."""
    first = next(iter(current.proposers()), USUAL.proposer)
    order = sorted(PROPOSERS, key=lambda name: (name != first, name == "none"))
    return {name: PROPOSERS[name] for name in order}


def rule_title(name: str) -> str:
    """A rule's title, with "lossy" first where it applies."""
    rule = RULES[name]
    return rule.title if rule.lossless else f"lossy: {rule.title}"


def proposer(missing: Mapping[str, str | None], of: str = "") -> Any:
    """Draw the choice of the proposer, and return it; `missing` has a reason for each that these models cannot run."""
    titles = {
        name: f"{kind.title} (not with these models)" if missing.get(name) else kind.title
        for name, kind in proposers().items()
        if not (of and name == "none")
    }
    name = pick(
        "Proposer",
        titles,
        form.key("proposer", of),
        lambda name: (
            f"**{PROPOSERS[name].title}.** {PROPOSERS[name].summary}\n\n"
            + define(*(term for term in TERMS if term != PROPOSERS[name].title))
        ),
    )
    form.follow_proposer(name, of)
    if missing.get(name):
        st.caption(f":material/block: {plain(missing[name] or '')}")
    return PROPOSERS[name]


def draft_length(kind: Any, of: str = "") -> None:
    """γ. A slider that does nothing says why, without its help too."""
    tree = "tree" in (drafts(kind, of) or "")
    uses_length = "length" in kind.uses and kind.name != "none" and not tree
    if tree:
        most = _tree_size(kind, of)
        title = f"Guesses per round: a tree{f' of up to {most}' if most else ''}"
        words = "This proposer guesses a tree; its size is one of its own settings."
    elif not uses_length:
        title = "Guesses per round: not set here"
        words = "This proposer has no number of guesses to set."
    else:
        title = "Guesses per round, γ"
        words = "More guesses save more target passes when they are right, and waste drafting when they are wrong."
    # Where γ sets nothing it is hidden: it would be taken for the tree's size.
    with st.container(key="guesses" if uses_length else "guesses-unset"):
        help_words = f"{define('Draft length γ', 'Round')}\n\n{words}"
        _number("slider", title, page_settings.GAMMA, help_words, of, disabled=not uses_length)


def guessing(kind: Any, of: str = "") -> None:
    """The proposer's options."""
    options.draw("o", kind, of)
    if not kind.Options.model_fields:
        st.caption("This proposer has no settings of its own.")


def judging(kind: Any, of: str = "") -> None:
    """The acceptance rule and its options."""
    found: Any = drafts(kind, of)
    titles = {
        name: rule_title(name) + (" (not with this proposer)" if found and rule.unsuited(found) else "")
        for name, rule in RULES.items()
    }
    words = define("Acceptance rule", "Lossless", "Lossy", "Rejected")
    rule = RULES[pick("Acceptance rule", titles, form.key("rule", of), words)]
    if not rule.lossless:
        st.markdown(
            ":orange-badge[:material/warning: lossy] The text no longer follows the target model's own distribution."
        )
    st.caption(plain(rule.summary))
    options.draw("r", rule, of)


def lengths(kind: Any, of: str = "") -> Any:
    """How far to guess; returns the placeholder for a remark that depends on all settings."""
    tree = "tree" in (drafts(kind, of) or "")
    titles = {name: policy.title for name, policy in LENGTH_POLICIES.items()}
    if tree:
        titles[USUAL.length_policy] = "The tree as proposed"
    words = define("Length policy", "Draft length γ")
    policy = LENGTH_POLICIES[pick("How far to guess", titles, form.key("length", of), words)]
    if tree and policy.name == USUAL.length_policy:
        st.caption(
            "This proposer guesses a tree, whose size is one of its own settings. The other choices make it shallower "
            "or leave out guesses that are unlikely to pay, where the proposer allows it."
        )
    else:
        st.caption(plain(policy.summary))
    options.draw("l", policy, of)
    remark = st.container()
    switch(
        "Guess while the target checks",
        OVERLAP_WORDS if kind.can_overlap else f"{OVERLAP_WORDS}\n\n{plain(kind.title)} cannot do this.",
        key=form.key("overlap", of),
        persist_state="page",
        disabled=not kind.can_overlap,
    )
    _number("number", "Memory for a round, MB (0: no limit)", page_settings.MEMORY, MEMORY_WORDS, of)
    return remark


def _number(
    kind: str, label: str, setting: NumberField, words: str, of: str, *, disabled: bool = False
) -> None:
    number(kind, label, setting, 1, words, disabled=disabled, key=form.key(setting.key, of), persist="page")


def drafts(kind: Any, of: str = "") -> str | None:
    """What kind of proposals a proposer makes with the chosen options; None where the core refuses them."""
    chosen = dict(form.read(of)[0].options)
    try:
        return str(kind.drafts(Settings(proposer=kind.name, temperature=state.temperature, options=chosen)))
    except SpecdecError:
        return None


def _tree_size(kind: Any, of: str) -> int | None:
    """The most guesses of a proposer's tree with the chosen options; None where it has no such option."""
    try:
        chosen = kind.read_options(Settings(options=dict(form.read(of)[0].options)))
    except SpecdecError:
        return None
    # a tree may be given node by node
    return len(getattr(chosen, "choices", ())) or getattr(chosen, "nodes", None)
