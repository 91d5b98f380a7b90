#!/usr/bin/env bash
# The package `sequential-speculative-decoding` calls its capped hierarchical verification (HSD, arXiv 2601.05724) lossless.
# Its step keeps the first drafted token always, so the first token of a round follows the draft: on p = (.4, .2, .4) and
# q = (.1, .1, .8) it writes (.1, .1, .8), a total variation of .4. Its standard and naive steps are exact.
# By reading: the branch divergences at a prefix of t tokens are computed with t - 1 of them, so that at the first token both
# are the same number and its acceptance is 1; and the last token's ratio never enters the acceptance of the whole block.
# With the paper's definitions 4 to 6 the rule is exact, and the same as block verification (tests/core/test_rules_block.py).
#
# Two tables are the models; every draft, coin and correction of one step is enumerated.
# Seen with sequential-speculative-decoding 0.1.1, torch 2.13.0, transformers 5.23.0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q sequential-speculative-decoding==0.1.1 torch==2.13.0 transformers==5.23.0 numpy==2.3.5

cat > enumerate.py <<'PY'
import types

import torch
from seqspecdecod import capped_hsd, naive_hsd, standard_sd

P, Q, GAMMA = (0.4, 0.2, 0.4), (0.1, 0.1, 0.8), 3


class Table:
    """A model that gives every token the same next-token probabilities."""

    def __init__(self, row):
        self.row = row

    def __call__(self, ids):
        return types.SimpleNamespace(logits=torch.tensor([[self.row] * ids.shape[1]], dtype=torch.float64).log())


class Fork(Exception):
    """A question that the script does not answer yet."""


class Script:
    """Answers the random questions of a step in order, and keeps the probability of the answers."""

    def __init__(self, answers):
        self.answers, self.at, self.chance, self.open = answers, 0, 1.0, []

    def pick(self, probs):
        if self.at == len(self.answers):
            self.open = [place for place, chance in enumerate(probs) if chance > 1e-15]
            raise Fork
        answer = self.answers[self.at]
        self.at += 1
        self.chance *= probs[answer]
        return answer


class Coin:
    """`rate > coin` holds with probability `rate`."""

    def __init__(self, script):
        self.script = script

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        rate = min(1.0, max(0.0, float(args[0])))
        return args[1].script.pick([rate, 1.0 - rate]) == 0


def first_token(module, step):
    """The distribution of the first token that a step writes, over all its outcomes."""
    waiting, first = [[]], [0.0] * len(P)
    while waiting:
        script = Script(answers := waiting.pop())
        module.sample_from_probs = lambda probs: torch.tensor(script.pick(probs.flatten().tolist()))
        module.torch = types.SimpleNamespace(**{**vars(torch), "rand": lambda *_, **__: Coin(script)})
        try:
            ids, _, _ = step(Table(Q), Table(P), torch.tensor([[0]]), GAMMA, 1.0, 1.0)
        except Fork:
            waiting += [[*answers, answer] for answer in script.open]
            continue
        first[int(ids[0, 1])] += script.chance
    return [round(chance, 6) for chance in first]


written = {
    "standard": first_token(standard_sd, standard_sd.standard_speculative_step),
    "naive HSD": first_token(naive_hsd, naive_hsd.naive_hsd_step),
    "capped HSD": first_token(capped_hsd, capped_hsd.capped_hsd_step),
}
for name, row in written.items():
    print(f"{name}: {row}")
print(f"target: {list(P)}, draft: {list(Q)}")
exact = written["standard"] == written["naive HSD"] == list(P)
print("PASS" if exact and written["capped HSD"] == list(Q) else "FAIL")
PY
venv/bin/python enumerate.py | tee said.txt
grep -q '^PASS$' said.txt
