"""What a server says and does: its counters, and prompts sent one after the other, each with what it cost."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdec_core.foundations.errors import TraceError
from specdec_measure.adapters import forms, logs
from specdec_measure.adapters.acceptance import Acceptance

from .client import Event, Server, WatchError

SAMPLE = re.compile(r"^(vllm|llamacpp|sglang):(\w+)(?:\{[^}]*\})?\s+([-+0-9.eE]+)\s*$", re.MULTILINE)
ENGINES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang"}
NAMES = {  # of what is read beside the counts of guesses, by engine
    "steps": ("iteration_tokens_total_count", "n_decode_total"),
    "seconds": ("inter_token_latency_seconds_sum", "tokens_predicted_seconds_total"),
    "running": ("num_requests_running", "requests_processing", "num_running_reqs"),
    "waiting": ("num_requests_waiting", "requests_deferred", "num_queue_reqs"),
}
PROMPTS = (
    "Once upon a time, there was a red boat. It lived",
    "12 + 5 = 17\n13 + 5 = 18\n14 + 5 =",
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n",
    "One day, a little bird fell from its nest. A girl saw the bird and",
    "Repeat: the sun is warm and the day is long. The sun is warm",
    "Names: Anna, Ben, Carla. Sorted by length:",
)
NEUTRAL = {
    "temperature": 0,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
MOST_PROMPTS = 200


@dataclass(frozen=True, slots=True)
class Page:
    """A page of metrics: the counts of guesses, None without any, and what else is read."""

    engine: str
    counts: Acceptance | None
    more: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answered:
    """One request.

    Attributes:
        seconds: from its first token to its last, as they arrived here; `engine_s`: as the engine counts them.
        passes: of the target after the one that read the prompt, with and without guesses.
    """

    tokens: int
    seconds: float
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    passes: int = 0
    at: tuple[int, ...] = ()
    engine_s: float | None = None


@dataclass(slots=True)
class Leg:
    """Some requests of one kind to one server."""

    url: str
    engine: str
    name: str
    rows: list[Answered] = field(default_factory=list)
    shared: int = 0  # requests beside which others ran, whose counts are not theirs
    loads: list[tuple[float, float]] = field(
        default_factory=list
    )  # requests running and waiting, now and then


def page(server: Server) -> Page:
    """The server's page of metrics.

    Raises:
        WatchError: one sentence, if it has none, or is of no engine that is known here.
    """
    text = server.get("/metrics")
    found: dict[str, float] = {}
    engines = set()
    for engine, name, value in SAMPLE.findall(text):
        engines.add(engine)
        for short, names in NAMES.items():
            if name in names:
                found[short] = found.get(short, 0.0) + _float(value)
    if len(engines) != 1:
        raise WatchError(
            f"{server.url}/metrics is no page of vLLM, SGLang or llama.cpp, or of several. SGLang writes one if "
            "started with --enable-metrics, llama.cpp with --metrics."
        )
    try:
        counts = logs.read(text)
    except TraceError as error:
        raise WatchError(f"{server.url}/metrics cannot be used: {error}") from None
    return Page(ENGINES[engines.pop()], counts, found)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def bodies(file: Path | None) -> list[dict[str, Any]]:
    """The requests of a prompt file: a prompt a line, or a JSON object a line with `prompt` and other fields.

    Raises:
        WatchError: one sentence, if there are none, or one is neither.
    """
    if file is None:
        return [{"prompt": prompt} for prompt in PROMPTS]
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise WatchError(
            f"'{file}' cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}."
        ) from None
    made = []
    for at, line in enumerate(lines[:MOST_PROMPTS], 1):
        if not line.lstrip().startswith("{"):
            made.append({"prompt": line.replace("\\n", "\n")})
            continue
        try:
            body = json.loads(line)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("prompt"), str | list):
            raise WatchError(f"Line {at} of '{file}' is neither a prompt nor a JSON object with 'prompt'.")
        made.append(body)
    if not made:
        raise WatchError(f"'{file}' has no prompt; expected one a line.")
    return made


def ask(
    server: Server, name: str, requests: Sequence[dict[str, Any]], length: int, until: float,
    more: Mapping[str, Any] | None = None, on_progress: Callable[[int], None] = lambda _: None,
) -> Leg:  # fmt: skip
    """Send the requests one after the other until all are done or the clock (`time.monotonic`) reads `until`.

    Raises:
        WatchError: one sentence, if the server does not answer as it should.
    """
    before = page(server)
    leg = Leg(server.url, before.engine, name)
    for at, request in enumerate(requests):
        if time.monotonic() > until:
            break
        body = {"max_tokens": length, **request, **(more or {})}
        lines = server.stream(*addressed(server, before.engine, body))
        after = page(server)
        leg.loads.append((after.more.get("running", 0.0), after.more.get("waiting", 0.0)))
        row = answered(lines, before, after)
        if row is None:
            leg.shared += 1
        else:
            leg.rows.append(row)
        before = after
        on_progress(at + 1)
    return leg


def addressed(server: Server, engine: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path and the body of a streamed request."""
    if engine == "SGLang":  # of its paths only this one reports counts unasked
        prompt = body.pop("prompt")
        said = {"input_ids" if isinstance(prompt, list) else "text": prompt, "stream": True}
        body["max_new_tokens"] = body.pop("max_tokens")
        return "/generate", said | {
            "sampling_params": {key: value for key, value in body.items() if key != "repeat_penalty"}
        }
    extra = (
        {"cache_prompt": False, "timings_per_token": True}
        if engine == "llama.cpp"
        else {"model": _model(server)}
    )
    if engine == "vLLM":
        body.pop("repeat_penalty", None)
    return "/v1/completions", {**extra, **body, "stream": True, "stream_options": {"include_usage": True}}


def _model(server: Server) -> str:
    try:
        return str(json.loads(server.get("/v1/models"))["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise WatchError(f"{server.url}/v1/models does not name a model.") from None


def objects(lines: Sequence[Event]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The events of a stream, and when each arrived."""
    for event in lines:
        text = event.line.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            try:
                value = json.loads(text)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield event.at, value


def _wrote(event: dict[str, Any]) -> bool:
    """Whether an event brings text, or would if its token had any."""
    choices = event.get("choices")
    return bool(choices) or "content" in event or (bool(event.get("meta_info")) and "text" in event)


def answered(lines: Sequence[Event], before: Page, after: Page) -> Answered | None:
    """One request's counts and times; None where others ran beside it.

    Raises:
        WatchError: one sentence, if there is no usable answer.
    """
    events = list(objects(lines))
    times = [at for at, event in events if _wrote(event)]
    answer = _counts(b"".join(event.line for event in lines))
    tokens = max([_written(event) for _, event in events] or [0])
    if len(times) < 1 or not tokens:
        error = next(
            (str(event["error"])[:200] for _, event in events if event.get("error")), "no token in it"
        )
        raise WatchError(f"The server's answer cannot be used: {error}.")
    seconds = times[-1] - times[0]
    counts = answer
    if before.counts is not None and after.counts is not None and after.counts.series:
        counts = logs.later(after.counts, before.counts)
    if counts is not None and counts is not answer and counts.tokens is not None and counts.tokens != tokens:
        return None
    rounds, drafted, accepted = (
        (counts.rounds or 0, counts.drafted or 0, counts.accepted or 0) if counts is not None else (0, 0, 0)
    )
    steps = after.more.get("steps", 0.0) - before.more.get("steps", 0.0)
    passes = int(steps) - 1 if steps > 1 else max(rounds, tokens - 1 - accepted)
    engine_s = after.more.get("seconds", 0.0) - before.more.get("seconds", 0.0)
    at = counts.at if counts is not None else ()
    return Answered(tokens, seconds, rounds, drafted, accepted, passes, at, engine_s or None)


def _written(event: dict[str, Any]) -> int:
    places = (event.get("usage"), event.get("meta_info"), event.get("timings"))
    names = ("completion_tokens", "predicted_n")
    found = [one.get(name) for one in places if isinstance(one, dict) for name in names]
    return max([value for value in found if isinstance(value, int) and 0 <= value < 10**7] or [0])


def _counts(data: bytes) -> Acceptance | None:
    try:
        return forms.read(data)
    except TraceError:
        return None


def listen(server: Server, seconds: float, rest: Callable[[float], None] = time.sleep) -> Leg:
    """What whatever runs there costs, from two pages of metrics and the load between them.

    Raises:
        WatchError: one sentence, if nothing ran.
    """
    first = page(server)
    leg = Leg(server.url, first.engine, "what ran there")
    end, last = time.monotonic() + seconds, first
    while time.monotonic() < end:
        rest(min(1.0, max(0.05, end - time.monotonic())))
        last = page(server)
        leg.loads.append((last.more.get("running", 0.0), last.more.get("waiting", 0.0)))
    if first.counts is None or last.counts is None or not first.counts.series:
        raise WatchError(
            f"{server.url}/metrics counts no guesses: the server does not speculate, or has not yet."
        )
    try:
        counts = logs.later(last.counts, first.counts)
    except TraceError as error:
        raise WatchError(f"{server.url}: {error}") from None
    if not counts.tokens and not counts.rounds:
        raise WatchError(
            f"Nothing ran on {server.url} within {seconds:g} seconds. Give --prompts to send some."
        )
    engine_s = last.more.get("seconds", 0.0) - first.more.get("seconds", 0.0)
    accepted, rounds = counts.accepted or 0, counts.rounds or 0
    passes = max(rounds, (counts.tokens or 0) - accepted)
    leg.rows.append(
        Answered(
            counts.tokens or 0,
            engine_s,
            rounds,
            counts.drafted or 0,
            accepted,
            passes,
            counts.at,
            engine_s or None,
        )
    )
    return leg
