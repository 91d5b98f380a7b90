"""A small server that speaks as vLLM or llama.cpp do, with a planted speculation; and some that misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

# Names as recorded: vLLM 0.32.0 and llama.cpp's server 0.10434.
VLLM = {
    "drafts": "spec_decode_num_drafts_total", "guesses": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total", "at": "spec_decode_num_accepted_tokens_per_pos_total",
    "tokens": "generation_tokens_total", "steps": "iteration_tokens_total_count",
    "seconds": "inter_token_latency_seconds_sum", "running": "num_requests_running", "waiting": "num_requests_waiting",
}  # fmt: skip
LLAMA = VLLM | {
    "at": "spec_decode_num_accepted_tokens_per_pos_total", "tokens": "tokens_predicted_total",
    "steps": "n_decode_total", "seconds": "tokens_predicted_seconds_total", "running": "requests_processing",
    "waiting": "requests_deferred",
}  # fmt: skip


@dataclass
class Planted:
    """How the server speculates.

    Attributes:
        rates: by position, the chance that a guess is accepted where the one before it was; empty: no guesses.
        penalised: the rates where the request is not greedy.
        plain_s, round_s, guess_s: of a pass without guesses; more of one with some, and for each guess. `clock`
            shortens all of them on the wire, so that a test is quick; the engine's own counter has them whole.
        guessing: the share of passes that have guesses.
        detailed: whether an answer has its rounds' counts; merged: whether two passes' tokens come in one event.
        log: of each pass of the last answer guesses, accepted ones and tokens.
    """

    engine: str = "vllm"
    rates: tuple[float, ...] = ()
    penalised: tuple[float, ...] | None = None
    plain_s: float = 0.002
    round_s: float = 0.0
    guess_s: float = 0.0001
    guessing: float = 1.0
    running: float = 1.0
    waiting: float = 0.0
    detailed: bool = False
    merged: bool = False
    first_id: int = 100  # of a prompt's tokens
    log: list[tuple[int, int, int]] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*VLLM, "requests"), 0.0))
    at: list[int] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(5))

    def passes(self, tokens: int, greedy: bool) -> Iterator[tuple[int, int, int, float]]:
        """Of each pass after the prompt's: guesses, accepted, tokens that are written, seconds."""
        rates = self.rates if greedy or self.penalised is None else self.penalised
        left = tokens - 1
        self.log = []
        while left:
            guessed = len(rates) if self.random.random() < self.guessing else 0
            kept = 0
            while kept < guessed and self.random.random() < rates[kept]:
                kept += 1
            written = min(left, kept + 1)
            left -= written
            self.log.append((guessed, kept, written))
            yield guessed, kept, written, self.plain_s + bool(guessed) * self.round_s + guessed * self.guess_s

    def count(self, guessed: int, kept: int, written: int, seconds: float) -> None:
        self.counts["drafts"] += bool(guessed)
        self.counts["guesses"] += guessed
        self.counts["accepted"] += kept
        self.counts["tokens"] += written
        self.counts["steps"] += 1
        self.counts["seconds"] += seconds
        self.at += [0] * (guessed - len(self.at))
        for place in range(kept):
            self.at[place] += 1

    def page(self) -> str:
        if self.engine == "sglang":  # names by its source: gauges, no counters of guesses
            gauges = {
                "num_running_reqs": self.running,
                "num_queue_reqs": self.waiting,
                "spec_accept_length": 2.5,
            }
            return "".join(f"sglang:{name} {value}\n" for name, value in gauges.items())
        names = VLLM if self.engine == "vllm" else LLAMA
        label = 'engine="0",model_name="m"' if self.engine == "vllm" else ""
        values = self.counts | {"running": self.running, "waiting": self.waiting}
        hidden = {"requests"} if self.rates else {"requests", "drafts", "guesses", "accepted"}
        rows = [
            f"{self.engine}:{names[name]}{{{label}}} {value}"
            if label
            else f"{self.engine}:{names[name]} {value:.12g}"
            for name, value in values.items()
            if name not in hidden and name != "at"
        ]
        for place, count in enumerate(self.at if self.rates else []):
            more = f'{label}{"," if label else ""}position="{place}"'
            rows.append(f"{self.engine}:{names['at']}{{{more}}} {count}")
        return "# TYPE x counter\n" + "\n".join(rows) + "\n"


class Handler(BaseHTTPRequestHandler):
    planted: Planted
    odd: str = ""

    def log_message(self, *said: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.odd and self.path == "/metrics":
            misbehave(self, self.odd)
            return
        body = self.planted.page() if self.path == "/metrics" else '{"data": [{"id": "m"}]}'
        self._start("text/plain")
        self.wfile.write(body.encode())

    def _start(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        planted = self.planted
        if self.path == "/generate":
            self._generate(body["sampling_params"])
            return
        if self.path in ("/tokenize", "/detokenize"):
            self._start("application/json")
            ids = [planted.first_id + ord(letter) % 50 for letter in body.get("content", "")]
            self.wfile.write(json.dumps({"tokens": ids, "prompt": "x"}).encode())
            return
        tokens = body.get("max_tokens") or body["n_predict"]
        self._start("text/event-stream")
        if self.path == "/completion":
            self._completion(tokens, body)
            return
        self._completions(tokens, body)

    def _completion(self, tokens: int, body: dict[str, Any]) -> None:
        """As llama.cpp's own path answers: an event for each token, with counts that grow with a round's first."""
        planted, drafted, accepted, written = self.planted, 0, 0, 0
        planted.counts["steps"] += 1
        planted.counts["tokens"] += 1
        for guessed, kept, more, seconds in [(0, 0, 1, 0.0), *planted.passes(tokens, True)]:
            time.sleep(seconds)
            if written:
                planted.count(guessed, kept, more, seconds)
            drafted, accepted = drafted + guessed, accepted + kept
            for _ in range(more):
                written += 1
                counts = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
                event = {"content": "x", "tokens": [200 + written], "stop": False}
                self._send(event | {"timings": {"predicted_n": written, **counts}})
        end = {"content": "", "tokens": [], "stop": True, "stop_type": "limit", "model": "a/b/m.gguf"}
        self._send(end | {"timings": {"predicted_n": written, **counts}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _completions(self, tokens: int, body: dict[str, Any]) -> None:
        planted, written, waiting = self.planted, 1, 0
        prompt = [planted.first_id + ord(letter) % 50 for letter in str(body["prompt"])]

        def choice(more: int) -> dict[str, Any]:
            named = {"token_ids": list(range(201 + written - more, 201 + written))}
            if written == 1:
                named["prompt_token_ids"] = prompt
            one = {"index": 0, "text": "x" * more, "finish_reason": "length" if written == tokens else None}
            return {
                "id": "a",
                "model": "m",
                "choices": [one | (named if body.get("return_token_ids") else {})],
            }

        planted.counts["steps"] += 1
        planted.counts["tokens"] += 1
        self._send(choice(1))
        due = time.perf_counter()
        for guessed, kept, more, seconds in planted.passes(tokens, body.get("temperature") == 0):
            due += seconds
            time.sleep(max(0.0, due - time.perf_counter()))
            planted.count(guessed, kept, more, seconds)
            written, waiting = written + more, waiting + more
            if not planted.merged or waiting != more or written == tokens:
                self._send(choice(waiting))
                waiting = 0
        end: dict[str, Any] = {"id": "a", "model": "m", "choices": [], "usage": {"completion_tokens": tokens}}
        if planted.detailed and (rounds := [one for one in planted.log if one[0]]):
            said = {"num_spec_steps": len(rounds), "num_spec_tokens": len(planted.rates)}
            said |= {"num_draft_tokens": sum(one[0] for one in rounds)}
            said |= {"num_accepted_draft_tokens": sum(one[1] for one in rounds)}
            end["metrics"] = {"speculative_decoding": said | {
                "per_step_accepted": [one[1] for one in rounds], "per_step_drafted": [one[0] for one in rounds],
            }}  # fmt: skip
        self._send(end)
        self.wfile.write(b"data: [DONE]\n\n")

    def _generate(self, asked: dict[str, Any]) -> None:
        """As SGLang's own path answers: each event has the whole text so far and the counts so far."""
        planted, written, counts, histogram = self.planted, 1, [0, 0, 0], [0] * (len(self.planted.rates) + 1)
        self._start("text/event-stream")
        self._send({"text": "x", "meta_info": {"id": "a", "finish_reason": None, "completion_tokens": 1}})
        for guessed, kept, more, seconds in planted.passes(
            asked["max_new_tokens"], asked.get("temperature") == 0
        ):
            time.sleep(seconds)
            written += more
            counts = [counts[0] + 1, counts[1] + guessed, counts[2] + kept]
            histogram[kept] += 1
            said = dict(
                zip(
                    ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts"),
                    counts,
                    strict=True,
                )
            )
            end = {"type": "length"} if written == asked["max_new_tokens"] else None
            meta = {"id": "a", "finish_reason": end, "completion_tokens": written, **said}
            meta["spec_correct_drafts_histogram"] = list(histogram)
            self._send({"text": "x" * written, "meta_info": meta})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()


def misbehave(handler: Handler, how: str) -> None:
    if how == "stalls":
        time.sleep(30)
    elif how == "drips":
        handler._start("text/plain")
        for _ in range(300):
            handler.wfile.write(b"#")
            handler.wfile.flush()
            time.sleep(0.1)
    elif how == "drips a header":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(300):
            handler.wfile.write(b"y")
            handler.wfile.flush()
            time.sleep(0.1)
    elif how == "floods":
        handler._start("text/plain")
        for _ in range(100):
            handler.wfile.write((b"# " + b"x" * 998 + b"\n") * 1_000)
    elif how == "one line":
        handler._start("text/plain")
        handler.wfile.write(b"x" * 100_000_000)
    elif how == "redirects":
        handler.send_response(302)
        handler.send_header("Location", f"http://127.0.0.1:{handler.server.server_port + 1}/metrics")
        handler.end_headers()
    elif how == "lies":
        handler._start("text/plain")
        page = "vllm:spec_decode_num_drafts_total 5\nvllm:spec_decode_num_draft_tokens_total 3\n"
        handler.wfile.write(f"{page}vllm:spec_decode_num_accepted_tokens_total 9\n".encode())
    elif how == "no page":
        handler._start("text/html")
        handler.wfile.write(b"<html>hello\xff</html>")
    elif how == "refuses":
        handler.send_response(401)
        handler.end_headers()
        handler.wfile.write(b"no\x1b[2J\x1b[31m key")
    elif how == "no HTTP":
        handler.wfile.write(b"\x00\x01\x02 SSH-2.0\r\n\r\n")


@contextmanager
def served(planted: Planted | None = None, odd: str = "") -> Iterator[str]:
    """The address of a server that runs meanwhile."""

    class Mine(Handler):
        pass

    Mine.planted, Mine.odd = planted or Planted(rates=(0.5,)), odd
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    server.daemon_threads = True
    server.handle_error = lambda *about: None  # type: ignore[method-assign]  # the client hangs up
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
