"""Traces that another program wrote: what they may leave out, what is worked out from the rest, what is wrong in them.

`docs/trace.md` describes the format and `schema` gives it as JSON Schema. What an engine does not report (coins, times,
probabilities) is left out and stays unknown: columns are None, and a trace whose clock never moves has no times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import from_json, to_json

from specdec_core.foundations.errors import MISSING, TraceError, dotted, not_json, sentences
from specdec_core.foundations.options import fields
from specdec_core.record.schema import FORMAT, MAX_JSON_BYTES, UNSEEN, UNTOLD, VERSION, Source, Verdict
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace, adapter, check_shape, field_names, other_version
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree
from specdec_measure.records.audit import last_source

MAX_PROBLEMS = 20  # sentences about one file
# What a trace has to say, by the part of the schema; all else is filled in. Parts not named here need what they list.
REQUIRED = {
    "Trace": ["format", "version", "header", "rounds", "end"],
    "Header": ["target", "settings", "prompt", "prompt_ids"],
    "ModelInfo": ["name"],
    "Round": ["committed"],
    "Nodes": ["token"],
    "Committed": ["token"],
}
SETTINGS = ("proposer", "rule", "temperature")  # the player explains a round by these
UNKNOWN = "unknown"
UNTOLD_TEXT = "⟨?⟩"  # drawn for a guess whose token is not told


# What cannot be worked out after a mistake elsewhere, and is not one of its own.
FOLLOWS = (
    {"depth", "source", "output", "stats", "index", "cache_before", "cache_after", "parent", "verdict"}
    | {f"{phase}_s" for phase in ("start", "draft", "verify", "judge", "commit")}
    | {"draft_passes", "nodes", "offsets", "text"}
)


class ForeignError(TraceError):
    """A trace that cannot be read; `problems` has a sentence for each thing that is wrong in it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(" ".join(self.problems))


def read(data: bytes) -> list[Trace]:
    """The complete, audited trace of JSON text; of a list, each as a lane.

    Raises:
        ForeignError: with a sentence for each problem, up to twenty.
    """
    if len(data) > MAX_JSON_BYTES:
        raise ForeignError([f"The file has {len(data):,} bytes; at most {MAX_JSON_BYTES:,} are read."])
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ForeignError([f"The file {not_json(error, data)}."]) from None
    lanes = content if isinstance(content, list) else [content]
    if not lanes:
        raise ForeignError(["The file is an empty list; expected a trace, or a list with one for each lane."])
    return [_lane(lane, f"Lane {at}: " if len(lanes) > 1 else "") for at, lane in enumerate(lanes)]


def unknown(trace: Trace) -> list[str]:
    """What the trace does not tell, in words."""
    nodes = [row.nodes for row in trace.rounds if row.nodes.token]
    missing = {
        "times": bool(trace.rounds) and trace.stats.decode_s == 0,
        "the tokens of some guesses": any(UNTOLD in each.token for each in nodes),
        "the target's probabilities": all(each.p is None and each.model_p is None for each in nodes),
        "the draft's probabilities": all(each.q is None and each.model_q is None for each in nodes),
        "coins": all(each.coin is None for each in nodes),
        "whole distributions": not any(row.positions for row in trace.rounds),
    }
    return [name for name, is_missing in missing.items() if is_missing and (nodes or name == "times")]


def others(trace: Trace) -> list[str]:
    """The names of settings that are none of ours: an engine's own, or misspelt."""
    return [name for name in trace.header.settings if name not in Settings.model_fields]


def schema() -> dict[str, Any]:
    """The format as JSON Schema (draft 2020-12): what has to be there, and what everything there has to be."""
    made = adapter().json_schema()
    parts = made["$defs"] | {"Trace": made}
    for name, names in REQUIRED.items():
        parts[name]["required"] = names
    header = parts["Header"]["properties"]
    ours = _ours().model_json_schema()["properties"]
    for name, one in ours.items():
        one.pop("default", None)  # what is left out is unknown
        header["settings"].setdefault("properties", {})[name] = (
            one if name in SETTINGS else {"anyOf": [one, {"type": "null"}]}
        )
    header["settings"]["required"] = list(SETTINGS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"{FORMAT}, version {VERSION}; written by `specdec import --schema`",
        **made,
    }


@cache
def _ours() -> type[BaseModel]:
    """The settings that are ours by name, with their types and ranges; others may stand beside them."""
    fields: dict[str, Any] = {name: (info.annotation, info) for name, info in Settings.model_fields.items()}
    return create_model("OurSettings", __config__=ConfigDict(strict=True, extra="ignore"), **fields)


def _settings(content: dict[str, Any]) -> list[str]:
    """What is wrong with the settings that are ours by name; an unknown one (null) is as good as left out."""
    settings = content["header"]["settings"]
    if not isinstance(settings, dict):
        return []  # which the schema will name
    known = fields(Settings)
    for name in [name for name, value in settings.items() if value is None]:
        if name in known and known[name].default is not None:
            del settings[name]
    try:
        _ours().model_validate_json(to_json(settings))
    except ValidationError as error:
        found = sentences(error, known, lambda place: _placed(("header", "settings", *place)))
        return [f"{said}." for _, said in found]
    return []


def _lane(content: Any, lane: str) -> Trace:
    problems = _kind(content) or _settings(content) or complete(content)
    if not problems:
        try:
            trace = adapter().validate_json(to_json(content), strict=True)
            check_shape(trace)
            if not (problems := trace.audit()):
                return trace
        except ValidationError as error:
            found = sentences(error, field_names(), _placed)
            own = [one for one in found if not one[1].endswith(MISSING) or one[0][-1] not in FOLLOWS]
            problems = [f"{said}." for _, said in own or found]
        except ValueError as error:
            problems = [str(error)]
    more = len(problems) - MAX_PROBLEMS
    shown = problems[:MAX_PROBLEMS] + ([f"And {more} more."] if more > 0 else [])
    raise ForeignError([lane + said for said in shown])


def _kind(content: Any) -> list[str]:
    """What is missing altogether, before anything is worked out."""
    if not isinstance(content, dict):
        return [f"A trace is a JSON object, got {type(content).__name__}."]
    if (given := content.get("format")) != FORMAT:
        if given is None:
            return [f"'format' is missing; it has to be '{FORMAT}'."]
        return [f"'format' has to be '{FORMAT}', got {str(given)[:60]!r}."]
    if (said := other_version(content)) is not None:
        return [said]
    problems = [f"'{name}' is missing." for name in REQUIRED["Trace"] if name not in content]
    header = content.get("header")
    if not isinstance(header, dict):
        return problems or ["'header' has to be an object."]
    problems += [f"'header.{name}' is missing." for name in REQUIRED["Header"] if name not in header]
    settings = header.get("settings")
    if isinstance(settings, dict):
        problems += [
            f"'header.settings.{name}' is missing; the player explains a round by it."
            for name in SETTINGS
            if settings.get(name) is None
        ]
    if isinstance(ids := header.get("prompt_ids"), list) and not ids:
        problems.append(
            "'header.prompt_ids' is empty; expected at least the token that decoding starts from."
        )
    if not isinstance(rounds := content.get("rounds", []), list):
        problems.append("'rounds' has to be a list.")
    else:
        problems += [
            f"Round {at} has to be an object." for at, row in enumerate(rounds) if not isinstance(row, dict)
        ]
    return problems


def _placed(place: tuple[str | int, ...]) -> str:
    """A place as a person would name it: In round 3, 'nodes.verdict[2]'."""
    in_round = len(place) > 1 and place[0] == "rounds"
    name = ""
    for part in place[2:] if in_round else place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    if not in_round:
        return f"'{name}'" if name else dotted(place)
    return f"In round {place[1]}, '{name}'" if name else f"Round {place[1]}"


def complete(content: dict[str, Any]) -> list[str]:
    """Fill in what follows from the rest, in place; returns what prevents that, as sentences.

    What has another type than it should is left for the schema.
    """
    header = content["header"]
    header.setdefault("id", sha256(to_json(content)).hexdigest()[:16])
    texts = content.setdefault("texts", {})
    names = texts if isinstance(texts, dict) else {}
    unsaid: dict[str, Any] = {"created": "", "packages": {}, "draft": None, "vocabulary": 0}
    unsaid |= {"device": UNKNOWN, "dtype": UNKNOWN, "machine": "an unknown machine"}
    for name, value in unsaid.items():
        header.setdefault(name, value)
    for model in (header["target"], header["draft"]):
        if isinstance(model, dict):
            model.setdefault("parameters", 0)
    prompt = header["prompt_ids"]
    if not isinstance(prompt, list):
        return []
    header.setdefault("prompt_texts", [_name(names, token) for token in prompt])
    length, clock = len(header.get("decoder_start") or prompt), 0.0
    output: list[Any] = []
    tally = RoundTally()
    try:
        for at, row in enumerate(content["rounds"]):
            clock = _round(row, at, length + len(output), clock)
            output += row["committed"]["token"]
            tally.add(
                TokenTree(*_read(row)), row["nodes"]["verdict"], len(row["committed"]["token"]),
                row["draft_passes"] + row["ahead_passes"],
                [row[f"{phase}_s"] for phase in ("draft", "verify", "judge", "commit")],
            )  # fmt: skip
        content.setdefault("stats", to_plain(tally))
    except ForeignError as error:
        return error.problems
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return []  # a mistake in a round, which the schema will name
    if isinstance(texts, dict) and any(UNTOLD in row["nodes"]["token"] for row in content["rounds"]):
        texts[str(UNTOLD)] = UNTOLD_TEXT
    pieces = [_name(names, token) for token in output]
    made = content.setdefault("output", {})
    if isinstance(made, dict):
        made.setdefault("ids", output)
        made.setdefault("texts", pieces)
        if all(isinstance(piece, str) for piece in made["texts"]):
            made.setdefault("offsets", [0, *accumulate(map(len, made["texts"]))][: len(made["texts"])])
            made.setdefault("text", "".join(made["texts"]))
    return []


def to_plain(tally: RoundTally) -> dict[str, Any]:
    """The statistics as JSON has them."""
    plain: dict[str, Any] = from_json(to_json(tally.stats(0.0, 0.0)))
    return plain


def _round(row: dict[str, Any], at: int, length: int, clock: float) -> float:
    """Fill in one round that begins with `length` tokens at `clock`; returns the clock at its end."""
    row.setdefault("index", at)
    row.setdefault("start_s", clock)
    for phase in ("draft", "verify", "judge", "commit", "ahead"):
        row.setdefault(f"{phase}_s", 0.0)
    for count in ("draft_passes", "ahead_passes"):
        row.setdefault(count, 0)
    committed, nodes = row["committed"], row.setdefault("nodes", {"token": []})
    row.setdefault("cache_before", length - 1)
    row.setdefault("cache_after", length - 1 + len(committed["token"]))
    size = len(nodes["token"])
    for name, column in nodes.items():
        if isinstance(column, list) and len(column) != size:
            raise ForeignError([f"In round {at}, 'nodes.{name}' has {len(column)} entries for {size} nodes."])
    parents = nodes.setdefault("parent", list(range(-1, size - 1)))
    for node, parent in enumerate(parents):
        if isinstance(parent, int) and not -1 <= parent < node:
            where = f"In round {at}, 'nodes.parent[{node}]'"
            raise ForeignError([f"{where} has to be −1 or the number of an earlier node, got {parent}."])
    if "depth" not in nodes:
        nodes["depth"] = TokenTree([0] * size, parents).depths
    if "verdict" not in nodes:
        if parents != list(range(-1, size - 1)):
            raise ForeignError(
                [f"In round {at}, 'nodes.verdict' is missing; it can be worked out for a chain only."]
            )
        nodes["verdict"] = judged(nodes["token"], committed["token"])[0]
    if "source" not in committed:
        committed["source"] = _sources(nodes["verdict"], parents, len(committed["token"]))
    end: float = row["start_s"] + sum(row[f"{phase}_s"] for phase in ("draft", "verify", "judge", "commit"))
    return end


def judged(candidates: Sequence[int], committed: Sequence[int]) -> tuple[list[Verdict], list[Source]]:
    """The verdicts of a chain and the sources of the committed tokens, from what was proposed and what was kept."""
    accepted = 0
    while accepted < min(len(candidates), len(committed)) and candidates[accepted] == committed[accepted]:
        accepted += 1
    verdicts: list[Verdict] = ["accepted"] * accepted
    rest: list[Verdict] = ["rejected", *(["unreached"] * len(candidates))]  # type: ignore[list-item]
    if accepted == len(
        committed
    ):  # the text ends with a candidate, and nobody knows what became of the others
        rest = ["cut"] * len(candidates)
    verdicts += rest[: len(candidates) - accepted]
    return verdicts, _sources(verdicts, range(-1, len(verdicts) - 1), len(committed))


def _sources(verdicts: Sequence[Verdict], parents: Sequence[int], committed: int) -> list[Source]:
    """Accepted ones, and the last token's."""
    sources: list[Source] = ["accepted"] * min(verdicts.count("accepted"), committed)
    return [*sources, *([last_source(verdicts, parents)] * (committed - len(sources)))]


def _read(row: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The nodes of a round that the target read; the others come after these."""
    nodes = row["nodes"]
    count = sum(verdict not in UNSEEN for verdict in nodes["verdict"])
    return nodes["token"][:count], nodes["parent"][:count]


def _name(names: dict[str, Any], token: Any) -> Any:
    text = names.get(str(token))
    return text if isinstance(text, str) else f"⟨{token}⟩"  # the schema will name another kind of text
