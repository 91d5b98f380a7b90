"""Whether a proposer returns what its contract promises, asked every round."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specdec_core.foundations.errors import ModelError, SpecdecError, kind_of
from specdec_core.proposers import TreeShape
from specdec_core.round import Context, DraftedAhead, Proposal
from specdec_core.tree import Drafts, TokenTree

ROUNDED = 1e-3  # how far rounding may take the sum of a distribution from 1
WANTED: dict[Drafts, str] = {"none": "an empty tree", "chain": "a chain"}


def check_proposal(name: str, context: Context, proposal: Proposal, shape: TreeShape) -> None:
    """Check what the proposer `name` returned against the contract; a violation is a bug in the proposer.

    Raises:
        SpecdecError: one sentence, naming the proposer and what it has to return; a ModelError for numbers that are
            not finite, which may be its model's.
    """
    if (wrong := _violation(proposal, shape.drafts, context.vocabulary)) is not None:
        raise SpecdecError(f"The proposer '{name}' {wrong}.")
    q = proposal.q
    mean = 1.0 if q is None or not len(q) else float(q.sum()) / len(q)  # one number, whatever its size
    if not math.isfinite(mean):
        raise ModelError(
            f"The proposer '{name}' drew from a q with numbers that are not finite (NaN or infinite). If a model "
            "drafts, load it with dtype float32 or take another one; else the proposer is at fault."
        )
    if abs(mean - 1.0) > ROUNDED:
        raise SpecdecError(
            f"The proposer '{name}' has to give in `q` the distributions its tokens were drawn from, and its rows "
            f"sum to {mean:.4g} on average, not to 1. `context.warp` makes distributions of logits."
        )
    if len(proposal.tree) > context.room:
        raise SpecdecError(
            f"The proposer '{name}' has to propose at most context.room nodes, {context.room} in this round, got "
            f"{len(proposal.tree)}: the memory budget allows no more."
        )
    tree, most = proposal.read, shape.max_nodes
    if len(tree) > most:
        raise SpecdecError(
            f"The proposer '{name}' has to propose at most {most} nodes, as its shape() says, got {len(tree)}."
        )
    vocabulary = context.vocabulary
    if tree.tokens and not 0 <= min(tree.tokens) <= max(tree.tokens) < vocabulary:
        raise SpecdecError(
            f"The proposer '{name}' has to propose token ids from 0 to {vocabulary - 1}, got {min(tree.tokens)} to "
            f"{max(tree.tokens)}."
        )


def check_observed(name: str, ahead: DraftedAhead | None) -> DraftedAhead:
    """What `observe` of the proposer `name` returned, with nothing drafted ahead for None.

    Raises:
        SpecdecError: one sentence, if it is something else.
    """
    if ahead is not None and not isinstance(ahead, DraftedAhead):
        raise SpecdecError(
            f"The proposer '{name}' has to return None or a DraftedAhead from observe(), got "
            f"{kind_of(ahead)}."
        )
    return ahead or DraftedAhead()


def _violation(proposal: Proposal, drafts: Drafts, vocabulary: int) -> str | None:
    """How a proposal breaks the contract, as the rest of a sentence after the proposer's name; None if it does not.

    Args:
        proposal: what `propose` returned, whatever that is.
        drafts: what the proposer's `shape()` says.
        vocabulary: V, the number of the target's logits.
    """
    if not isinstance(proposal, Proposal):
        return f"has to return a Proposal from propose(), got {kind_of(proposal)}"
    for part in ("tree", "extra"):
        tree = getattr(proposal, part)
        if not isinstance(tree, TokenTree):
            return f"has to return a Proposal whose `{part}` is a TokenTree, got {kind_of(tree)}"
        strange = next((token for token in tree.tokens if not isinstance(token, int)), None)
        if strange is not None:
            return f"has to propose token ids as whole numbers, got {kind_of(strange)} in `{part}`"
    if drafts in WANTED and not (proposal.tree.is_chain if drafts == "chain" else not len(proposal.tree)):
        return (
            f"has to propose {WANTED[drafts]}, because its shape() says '{drafts}', and its tree is another; rules "
            "refuse by it what they cannot judge, so have it name the kind of tree that propose() returns"
        )
    return _rows(proposal, vocabulary)


def _rows(proposal: Proposal, vocabulary: int) -> str | None:
    nodes = len(proposal.tree)
    if proposal.q is not None and (wrong := _not_rows(proposal.q, nodes, vocabulary)):
        return f"has to return a Proposal whose `q` is None or one row for each node, {wrong}"
    columns = vocabulary if proposal.ids is None else len(proposal.ids)
    for part in ("logits", "penalised"):
        rows = getattr(proposal, part)
        if rows is not None and (wrong := _not_rows(rows, None, columns)):
            return f"has to return a Proposal whose `{part}` are None or the draft's rows, {wrong}"
    if proposal.logit_rows is not None and len(proposal.logit_rows) != nodes + 1:
        return (
            "has to return a Proposal whose `logit_rows` are None or one for the root and each node, "
            f"{nodes + 1} here, got {len(proposal.logit_rows)}"
        )
    return None


def _not_rows(given: Tensor, rows: int | None, columns: int) -> str | None:
    """Why something is no float32 tensor of that shape; None if it is. `rows`: None where any number will do."""
    wanted = f"float32 ({'m' if rows is None else rows}, {columns})"
    if not isinstance(given, Tensor):
        return f"{wanted}, got {kind_of(given)}"
    shape = tuple(given.shape)
    if given.dtype == torch.float32 and shape == (shape[:1] if rows is None else (rows,)) + (columns,):
        return None
    return f"{wanted}, got {str(given.dtype).removeprefix('torch.')} {shape}"
