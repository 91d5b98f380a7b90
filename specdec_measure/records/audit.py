"""The conservation laws of a trace. A trace that breaks one is a bug, and the app says so.

They hold within a record and need no model: its parts agree with each other. A record whose numbers were changed
alike everywhere, or that never were a model's, breaks none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from specdec_core.foundations.errors import many
from specdec_core.record.schema import UNSEEN, Judging, Nodes, Round, Source, Stats, Verdict
from specdec_core.record.stats import RoundTally
from specdec_core.tree import TokenTree

from . import odds

if TYPE_CHECKING:
    from specdec_core.record.trace import Trace

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def audit(trace: Trace) -> list[str]:
    """One sentence for each law that `trace` breaks; see `Trace.audit` for what an empty list says."""
    header = trace.header
    rounds = (
        problem
        for row in trace.rounds
        for problem in (*_round(row, header.judging), *odds.problems(row, header))
    )
    return [*_totals(trace), *rounds, *_sequence(trace), *_end(trace)]


def _round(row: Round, judging: Judging) -> Iterator[str]:
    where = f"Round {row.index}"
    nodes, tokens, sources = row.nodes, row.committed.token, row.committed.source
    accepted = [node for node, verdict in enumerate(nodes.verdict) if verdict == "accepted"]
    if not tokens:
        yield f"{where} committed no token."
    for node, parent in enumerate(nodes.parent):
        depth = 1 if parent < 0 else nodes.depth[parent] + 1
        if nodes.depth[node] != depth:
            yield f"{where}: node {node} has depth {nodes.depth[node]}, its parent implies {depth}."
        if (
            nodes.verdict[node] in ("accepted", "rejected")
            and parent >= 0
            and nodes.verdict[parent] != "accepted"
        ):
            yield f"{where}: node {node} was judged although its parent was not accepted."
    seen = [verdict not in UNSEEN for verdict in nodes.verdict]
    if seen != sorted(seen, reverse=True):
        yield f"{where}: a node that was never sent to the target comes before one that was."
    path = [nodes.token[node] for node in accepted]
    if [nodes.depth[node] for node in accepted] != list(range(1, len(accepted) + 1)):
        yield f"{where}: the accepted nodes are not one path."
    if tokens[: len(path)] != path or sources[: len(path)] != ["accepted"] * len(path):
        yield f"{where}: the committed tokens do not begin with the accepted ones."
    if len(tokens) - len(path) not in (0, 1) or "accepted" in sources[len(path) :]:
        yield f"{where}: {many(len(tokens), 'token')} committed for {many(len(path), 'accepted node')}."
    elif len(tokens) > len(path) and sources[-1] not in (
        "unknown",
        made := last_source(nodes.verdict, nodes.parent),
    ):
        yield f"{where}: the last token is '{sources[-1]}', and the verdicts make it '{made}'."
    if nodes.coin is not None and nodes.threshold is not None:
        for node, (coin, threshold) in enumerate(zip(nodes.coin, nodes.threshold, strict=True)):
            verdict = nodes.verdict[node]
            if verdict not in ("accepted", "rejected"):
                continue
            if coin is None or threshold is None:
                yield f"{where}: node {node} is {verdict} without a coin and a threshold."
            elif (coin < threshold) != (verdict == "accepted") and not (
                judging == "longest" and verdict == "accepted" and _carried(nodes, node)
            ):
                yield f"{where}: node {node} is {verdict} with coin {coin} against threshold {threshold}."
    for position in row.positions:
        for name, head in position.heads.items():
            if not math.isclose(sum(head.prob) + head.tail, 1.0, abs_tol=1e-3):
                yield f"{where}: {name} at node {position.at} sums to {sum(head.prob) + head.tail:.5f}."
        if (after := position.penalised_p) is not None:
            chance = dict(zip(after.id, after.prob, strict=True))
            # At temperature 0 p is one token, that with the largest logit; above it two near ties may change places.
            least = after.prob[0] if len(position.p.id) == 1 else after.prob[0] - 1e-6
            if chance.get(position.p.id[0], 0.0) < least:
                yield f"{where}: the likeliest token of p at node {position.at} is not the likeliest after penalties."
    if row.positions and [position.token for position in row.positions] != tokens:
        yield f"{where}: the recorded positions are not those of the committed tokens."


def last_source(verdicts: Sequence[Verdict], parents: Sequence[int]) -> Source:
    """The source of a token that follows the accepted ones: corrected where a guess that the target read was not kept,
    bonus after the last such guess, plain without any."""
    end = max((node for node, verdict in enumerate(verdicts) if verdict == "accepted"), default=-1)
    read = [parent for parent, verdict in zip(parents, verdicts, strict=True) if verdict not in UNSEEN]
    return "corrected" if end in read else "bonus" if read else "plain"


def _carried(nodes: Nodes, node: int) -> bool:
    """Whether a later node of the chain, committed or cut off, passed its coin and thereby accepted `node`."""
    assert nodes.coin is not None and nodes.threshold is not None
    return any(
        verdict in ("accepted", "cut") and coin is not None and threshold is not None and coin < threshold
        for verdict, coin, threshold in zip(
            nodes.verdict[node + 1 :], nodes.coin[node + 1 :], nodes.threshold[node + 1 :], strict=True
        )
    )


def _sequence(trace: Trace) -> Iterator[str]:
    """Laws between rounds: the output, the cache, the clock."""
    length = len(trace.header.decoder_start or trace.header.prompt_ids)
    clock = 0.0
    committed: list[int] = []
    for expected, row in enumerate(trace.rounds):
        where = f"Round {row.index}"
        if row.index != expected:
            yield f"{where} is where round {expected} should be."
        if row.cache_before != length - 1:
            yield f"{where} began with {row.cache_before} cached rows for {length} tokens."
        length += len(row.committed.token)
        committed += row.committed.token
        if row.cache_after != length - 1:
            yield f"{where} ended with {row.cache_after} cached rows for {length} tokens."
        if row.start_s < clock - 1e-9:
            yield f"{where} began at {row.start_s:.6f} s, before the round before it ended."
        clock = row.end_s
    if trace.rounds and committed != trace.output.ids:
        yield "The committed tokens do not make the output."
    if "".join(trace.output.texts) != trace.output.text:
        yield "The pieces of the output do not join to its text."
    if trace.output.offsets != [0, *accumulate(map(len, trace.output.texts))][: len(trace.output.texts)]:
        yield "The offsets of the output are not where its pieces begin."


def _totals(trace: Trace) -> Iterator[str]:
    stats = trace.stats
    counts = {name: getattr(stats, name) for name in VERDICTS}
    if stats.proposed != sum(counts.values()):
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        yield f"{stats.proposed} tokens were proposed, but their verdicts are: {listed}."
    if stats.tokens != len(trace.output.ids):
        yield f"The statistics count {stats.tokens} tokens, the output has {len(trace.output.ids)}."
    if trace.rounds:
        verdicts = [verdict for row in trace.rounds for verdict in row.nodes.verdict]
        for name in VERDICTS:
            if verdicts.count(name) != counts[name]:
                yield f"The statistics count {counts[name]} {name} nodes, the rounds {verdicts.count(name)}."
        yield from _sums(trace)
        yield from _by_depth(trace)
        if len(trace.rounds) != stats.target_passes:
            yield f"The statistics count {stats.target_passes} target passes, the trace has {len(trace.rounds)} rounds."
    elif (stats.tokens or stats.target_passes) and trace.header.settings.get("record") != "off":
        yield (
            f"The trace has no rounds, and its statistics count {many(stats.tokens, 'token')} in "
            f"{many(stats.target_passes, 'target pass', 'target passes')}; only a record of the text alone ('record' "
            "is 'off') leaves its rounds out."
        )
    yield from _ratios(trace)


def _sums(trace: Trace) -> Iterator[str]:
    """The statistics that are sums over the rounds."""
    rounds = trace.rounds
    expected: dict[str, float | None] = {
        "draft_s": sum(row.draft_s for row in rounds),
        "verify_s": sum(row.verify_s for row in rounds),
        "other_s": sum(row.judge_s + row.commit_s for row in rounds),
        "draft_passes": sum(row.draft_passes + row.ahead_passes for row in rounds),
    }
    yield from _differing(trace.stats, expected, "the rounds make it")
    for row in rounds:
        if row.ahead_s > row.verify_s + 1e-6:
            yield f"Round {row.index} drafted ahead for {row.ahead_s:.6f} s beside a pass of {row.verify_s:.6f} s."


def _by_depth(trace: Trace) -> Iterator[str]:
    """The rates by depth as `stats` defines them; an empty list says nothing."""
    tally = RoundTally()
    for row in trace.rounds:
        seen = slice(row.nodes_read)
        tree = TokenTree(row.nodes.token[seen], row.nodes.parent[seen])
        tally.add(tree, row.nodes.verdict, 0, 0, (0.0, 0.0, 0.0, 0.0))
    stated, made = trace.stats.acceptance_by_depth, tally.stats(0.0, 0.0).acceptance_by_depth
    if stated and not (
        len(stated) == len(made)
        and all(math.isclose(one, other, abs_tol=1e-6) for one, other in zip(stated, made, strict=True))
    ):
        yield f"The statistics say acceptance_by_depth is {_some(stated)}, the rounds make it {_some(made)}."


def _some(rates: list[float]) -> str:
    shown = ", ".join(f"{rate:.3f}" for rate in rates[:8])
    return f"[{shown}{', …' if len(rates) > 8 else ''}]"


def _end(trace: Trace) -> Iterator[str]:
    """Why the text ended, as far as its settings and its tokens tell."""
    ids, end, settings = trace.output.ids, trace.end, trace.header.settings
    most, stops = settings.get("max_new_tokens"), settings.get("stop")
    stops = stops if isinstance(stops, list) else []
    if type(most) is int and (len(ids) > most or (end == "length" and len(ids) < most)):
        yield f"The text ended by '{end}' after {len(ids)} tokens; max_new_tokens is {most}."
    if end == "eos" and ids and ids[-1] in ids[:-1]:
        yield (
            f"The text ended by 'eos' with token {ids[-1]}, which also occurs earlier and did not end it there."
        )
    # special tokens write nothing, and count with their names; a stop string may begin in the prompt
    named = "".join(
        text or trace.texts.get(str(token), "") for token, text in zip(ids, trace.output.texts, strict=False)
    )
    begun = trace.header.prompt, "".join(trace.header.prompt_texts)
    texts = [before + text for before in begun for text in (trace.output.text, named)]
    found = [isinstance(stop, str) and any(stop in text for text in texts) for stop in stops]
    if end == "stop" and found and not any(found):
        yield "The text ended by 'stop', and none of its stop strings is in it."


def _ratios(trace: Trace) -> Iterator[str]:
    """The statistics that are ratios of others; checked without rounds too."""
    stats = trace.stats
    expected: dict[str, float | None] = {
        "tokens_per_pass": stats.tokens / stats.target_passes if stats.target_passes else None,
        "tokens_per_second": stats.tokens / stats.decode_s if stats.decode_s > 0 else None,
        "acceptance_rate": stats.accepted / stats.judged if stats.judged else None,
    }
    # A tree has no rate. Without rounds it is unknown whether a rate is missing for that reason.
    if any(_branched(row.nodes) or "unknown" in row.committed.source for row in trace.rounds) or (
        not trace.rounds and stats.acceptance_rate is None
    ):
        expected["acceptance_rate"] = None
    yield from _differing(stats, expected, "its counts make it")


def _differing(stats: Stats, expected: dict[str, float | None], made: str) -> Iterator[str]:
    for name, value in expected.items():
        stated = getattr(stats, name)
        if (stated is None) != (value is None) or (
            stated is not None
            and value is not None
            and not math.isclose(stated, value, rel_tol=1e-6, abs_tol=1e-9)
        ):
            yield f"The statistics say {name} is {stated}, {made} {value}."


def _branched(nodes: Nodes) -> bool:
    """Whether what the target saw had siblings."""
    seen = [
        parent for parent, verdict in zip(nodes.parent, nodes.verdict, strict=True) if verdict not in UNSEEN
    ]
    return len(set(seen)) < len(seen)
