"""Traces written by hand, valid and clean by the audit, with texts that are hard to draw."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from specdec_core.record.schema import (
    Candidates,
    Committed,
    Header,
    ModelInfo,
    Nodes,
    Output,
    Position,
    Round,
    Source,
    Verdict,
)
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace
from specdec_core.tree import TokenTree
from specdec_measure.records import odds

PROMPT = "Write a story.\n"
WORDS = [
    " The", " quick", " fox", "\n", "def", " add", "(a", ", b", "):", "\n    ", "return", "\ta",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>", " &amp;", "", "é", "\u202e", "  ", " cat", ".", "\n\n", " mat", " \\n", "x" * 60,
]  # fmt: skip
NUMBERS = {word: id for id, word in enumerate(WORDS)}


@dataclass(slots=True)
class Plan:
    """One round: the proposals (word, p, q, coin), the target's own word; wrong ones are rejected."""

    proposals: list[tuple[str, float, float, float]]
    own: str


def spec_plans() -> list[Plan]:
    """Rounds with every outcome: rejected first, in the middle, all accepted, nothing proposed."""
    return [
        Plan([(" The", 0.6, 0.5, 0.3), (" quick", 0.4, 0.4, 0.9), (" fox", 0.5, 0.9, 0.8)], "\n"),
        Plan([(" cat", 0.1, 0.8, 0.7), (" mat", 0.2, 0.3, 0.1)], "def"),
        Plan([(" add", 0.7, 0.7, 0.5), (" cat", 0.05, 0.5, 0.55), (" mat", 0.3, 0.4, 0.4)], "(a"),
        Plan([(", b", 0.9, 0.6, 0.6), ("):", 0.8, 0.9, 0.1)], "\n    "),
        Plan([], "return"),
        Plan([(" mat", 0.01, 0.9, 0.5)], "\ta"),
        Plan([("<script>alert(1)</script>", 0.5, 0.5, 0.5)], "<img src=x onerror=alert(2)>"),
        Plan([("<img src=x onerror=alert(2)>", 0.02, 0.7, 0.4), (" &amp;", 0.1, 0.1, 0.2)], " &amp;"),
        Plan([("", 0.5, 0.5, 0.2), ("é", 0.5, 0.4, 0.9), ("\u202e", 0.2, 0.2, 0.1)], "  "),
        Plan([(" cat", 0.3, 0.6, 0.8), ("\n\n", 0.4, 0.5, 0.3)], "\n\n"),
        Plan([(" \\n", 0.8, 0.8, 0.1)], "x" * 60),
        Plan([(".", 0.9, 0.9, 0.4)], " mat"),
    ]


def spec_trace(
    plans: list[Plan] | None = None, *, temperature: float = 1.0, full: bool = True, ms: float = 12.0
) -> Trace:
    """A speculative lane."""
    return _trace(spec_plans() if plans is None else plans, "draft-model", temperature, full, ms)


def plain_trace(*, temperature: float = 1.0, ms: float = 9.0) -> Trace:
    """A plain lane that writes the same text as `spec_trace()`."""
    words = [word for plan in spec_plans() for word in _judged(plan)[0]]
    return _trace([Plan([], word) for word in words], "none", temperature, True, ms)


def _judged(plan: Plan) -> tuple[list[str], list[Source], list[Verdict]]:
    """What a plan commits, with sources, and its nodes' verdicts."""
    words: list[str] = []
    sources: list[Source] = []
    verdicts: list[Verdict] = []
    for word, p, q, coin in plan.proposals:
        if verdicts and verdicts[-1] != "accepted":
            verdicts.append("unreached")
        elif coin < min(1.0, p / q):
            verdicts.append("accepted")
            words.append(word)
            sources.append("accepted")
        else:
            verdicts.append("rejected")
    own: Source = "plain" if not plan.proposals else "corrected" if "rejected" in verdicts else "bonus"
    return [*words, plan.own], [*sources, own], verdicts


def _trace(plans: list[Plan], proposer: str, temperature: float, full: bool, ms: float) -> Trace:
    rounds: list[Round] = []
    ids: list[int] = []
    clock, cache, tally = 0.0, 2, RoundTally()
    for index, plan in enumerate(plans):
        words, sources, verdicts = _judged(plan)
        tokens = [NUMBERS[word] for word in words]
        times = [
            0.0 if proposer == "none" else 0.3 * ms / 1e3,
            0.6 * ms / 1e3,
            0.05 * ms / 1e3,
            0.05 * ms / 1e3,
        ]
        size = len(plan.proposals)
        nodes = Nodes(
            parent=list(range(-1, size - 1)),
            depth=list(range(1, size + 1)),
            token=[NUMBERS[word] for word, *_ in plan.proposals],
            verdict=verdicts,
        )
        row = Round(
            index=index,
            start_s=clock,
            draft_s=times[0],
            verify_s=times[1],
            judge_s=times[2],
            commit_s=times[3],
            cache_before=cache,
            cache_after=cache + len(tokens),
            draft_passes=size,
            nodes=nodes,
            committed=Committed(tokens, sources),
        )
        if full:
            _describe(row, plan)
        tally.add(TokenTree.chain(nodes.token), verdicts, len(tokens), size, times)
        rounds.append(row)
        ids += tokens
        cache += len(tokens)
        clock += sum(times)
    texts = [WORDS[id] for id in ids]
    offsets = [len("".join(texts[:at])) for at in range(len(texts))]
    settings: dict[str, Any] = {
        "proposer": proposer, "rule": "speculative-sampling", "temperature": temperature,
        "record": "full" if full else "tokens",
    }  # fmt: skip
    header = Header(
        id=f"sample-{proposer}",
        created="2026-01-01T00:00:00Z",
        packages={},
        device="cpu",
        dtype="float32",
        machine="a test",
        target=ModelInfo("target", 1),
        draft=None,
        settings=settings,
        prompt=PROMPT,
        prompt_ids=[0, 1, 2],
        prompt_texts=["Write", " a story.", "\n"],
        vocabulary=len(WORDS),
    )
    names = {str(id): word or "⟨part⟩" for id, word in enumerate(WORDS)}
    trace = Trace(
        header, rounds, Output(ids, texts, offsets, "".join(texts)), "length", tally.stats(0.01, 0.0), names
    )
    assert trace.audit() == []
    return trace


def _describe(row: Round, plan: Plan) -> None:
    nodes = row.nodes
    nodes.p = [p for _, p, _, _ in plan.proposals]
    nodes.q = [q for _, _, q, _ in plan.proposals]
    nodes.model_p, nodes.model_q = [*nodes.p], [*nodes.q]
    nodes.coin = [coin for *_, coin in plan.proposals]
    nodes.threshold = [
        None if verdict == "unreached" else min(1.0, p / q)
        for verdict, (_, p, q, _) in zip(nodes.verdict, plan.proposals, strict=True)
    ]
    nodes.entropy = [1.25] * len(nodes.p)
    for at, (token, source) in enumerate(zip(row.committed.token, row.committed.source, strict=True)):
        drafted = at < len(plan.proposals)
        id = nodes.token[at] if drafted else token
        p = _around(id, plan.proposals[at][1] if drafted else 0.7, token)
        q = _around(id, plan.proposals[at][2], 22) if drafted else None
        row.positions.append(
            Position(
                at=at - 1,
                token=token,
                source=source,
                p=p,
                model_p=p,
                q=q,
                model_q=q,
                residual=_around(token, 0.75, 20) if source == "corrected" else None,
                entropy_p=_least_entropy(p),
                entropy_q=_least_entropy(q) if q else None,
                overlap=odds.overlap_range(p, q)[0] if q else None,
                draw=None if source == "accepted" else 0.375,
            )
        )


def _around(id: int, probability: float, other: int) -> Candidates:
    """A distribution with `probability` on one token, most of the rest on another and a fifth of it in the tail."""
    if other == id:
        other = (id + 1) % len(WORDS)
    tail = (1 - probability) / 5
    pairs = sorted([(id, probability), (other, 1 - probability - tail)], key=lambda pair: -pair[1])
    return Candidates([token for token, _ in pairs], [value for _, value in pairs], tail)


def _least_entropy(head: Candidates) -> float:
    return odds.entropy_range(head, most=0.0)[0]


def branching_record(wide: int, deep: int) -> dict[str, Any]:
    """A record whose first round is a tree: `wide` siblings at the root, each with a chain of `deep` nodes, one of its
    leaves pruned and one discarded, so that the node columns have gaps."""
    record: dict[str, Any] = json.loads(spec_trace().to_json())
    nodes = record["rounds"][0]["nodes"]
    parents: list[int] = []
    for _ in range(wide):
        parents.append(-1)
        parents += range(len(parents) - 1, len(parents) - 1 + deep)
    size = len(parents)
    verdicts = ["unreached"] * size
    verdicts[0], verdicts[1] = "accepted", "rejected"
    parents += [0, size - 1]
    verdicts += ["pruned", "discarded"]
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    nodes.update(parent=parents, depth=depths, verdict=verdicts, token=[at % 24 for at in range(size + 2)])
    for name in ("p", "q", "model_p", "coin", "threshold", "entropy", "rank"):
        nodes[name] = [1 if name == "rank" else 0.5] * size + [None, None]
    nodes["model_q"] = [0.5] * (size + 2)
    record["rounds"][0].update(riders=7, ahead_s=0.0042)
    record["rounds"][0]["committed"] = {"token": [nodes["token"][0], 3], "source": ["accepted", "corrected"]}
    return record
