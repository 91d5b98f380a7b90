"""What a record's header says of the sizes of models and heads, by which they are priced on another machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import specdec_core as sd

from .tiny import module
from .tiny_heads import WIDTH, Head, eagle3_head, eagle_head, headed, medusa_heads, mtp_modules

IDS = torch.tensor([0, 2, 3, 5, 8])


def header(architecture: str, proposer: str, head: Head) -> sd.Trace:
    models = replace(headed(architecture), heads={proposer: head})
    return sd.decode(models, [1, 2, 3], sd.Settings(proposer=proposer, max_new_tokens=3))


@pytest.mark.parametrize(("architecture", "unread"), [("llama", 12 * WIDTH), ("gpt2", 0)])
def test_a_pass_reads_no_input_embedding_unless_it_is_the_output_matrix(
    architecture: str, unread: int
) -> None:
    """Catches: a target that seems to read its lookup table with every token, one whose shared matrix is left out."""
    target = header(architecture, "eagle", eagle_head(12)).header.target
    model = module(headed(architecture))
    assert target.parameters == sum(weight.numel() for weight in model.parameters())
    assert (target.read, target.output_rows) == (target.parameters - unread, None)


@pytest.mark.parametrize(
    ("proposer", "head", "unread", "rows"),
    [
        ("medusa", medusa_heads(12), 0, 0),
        ("medusa", medusa_heads(12, shared=True), 0, 12),
        ("eagle", eagle_head(12), 0, 12),
        ("eagle", eagle_head(12, embedding=True), 12 * WIDTH, 12),
        ("eagle3", eagle3_head(12, embedding=True, ids=IDS), 12 * WIDTH, 0),
        ("mtp", mtp_modules(12), 0, 12),
    ],
)
def test_heads_read_rows_of_the_target_s_output_matrix_or_their_own(
    proposer: str, head: Head, unread: int, rows: int
) -> None:
    """Catches: a second output matrix for heads that bring one, the whole for a draft vocabulary."""
    (found,) = header("llama", proposer, head).header.heads
    assert found.parameters == sum(weight.numel() for weight in head.parameters())
    assert (found.read, found.output_rows) == (found.parameters - unread, rows)


def test_a_draft_vocabulary_reads_its_rows() -> None:
    head = eagle_head(12)
    head.restrict(IDS)
    (found,) = header("llama", "eagle", head).header.heads
    assert found.output_rows == len(IDS)
