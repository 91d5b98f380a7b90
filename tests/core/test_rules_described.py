"""The rules' descriptions: what a page or a command line shows of them before anything is decoded."""

from __future__ import annotations

import json
import subprocess
import sys

from specdec_core.rules import RULES

DESCRIBE = """
import json, sys
from specdec_core.rules import RULES
said = {
    name: [rule.title, rule.summary, rule.lossless, rule.judging, rule.looks_ahead, rule.own_probabilities,
           {option: field.description for option, field in rule.Options.model_fields.items()},
           [rule.unsuited(drafts) for drafts in ("chain", "distinct tree")]]
    for name, rule in RULES.items()
}
print(json.dumps([said, "torch" in sys.modules]))
"""


def test_all_rules_are_described_without_torch() -> None:
    """In a process of its own. Catches: a menu of rules that waits seconds for torch; a rule that says nothing."""
    said, torch = json.loads(
        subprocess.run([sys.executable, "-c", DESCRIBE], capture_output=True, text=True, check=True).stdout
    )
    assert not torch
    assert list(said) == list(RULES)
    for title, summary, *_, options, _ in said.values():
        assert title and summary.endswith(".") and all(options.values())
