"""`specdec watch`: planted causes are named, numbers are the planted ones, servers that misbehave get one sentence."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specdec_cli import commands as cli
from specdec_measure.watching import asking, numbers
from specdec_measure.watching.cause import cause
from specdec_measure.watching.client import Server, WatchError

from .watched_server import Planted, served

GOOD = (0.85, 0.85, 0.85, 0.85)
WIDE = (0.7, 0.55, 0.5, *[0.4] * 9)
PLANTED: dict[str, dict[str, Any]] = {
    "too many guesses": {"rates": WIDE, "guess_s": 0.0004},
    "acceptance is low": {"rates": (0.3, 0.3, 0.3), "guess_s": 0.0001},
    "a guess is expensive": {"rates": GOOD, "round_s": 0.001, "guess_s": 0.0014},
    "the batch is full": {"rates": GOOD, "running": 24, "waiting": 6},
    "sampling and penalties": {"rates": GOOD, "penalised": (0.4, 0.3, 0.3, 0.3)},
    "the draft does not fit the model": {"rates": (0.01, 0.1, 0.1, 0.1)},
    "rarely guesses": {"rates": GOOD, "guessing": 0.18},
    "no guesses": {},
    "near its ceiling": {"rates": (0.97, 0.97, 0.97, 0.97)},
}
ARGUMENTS = ["-n", "60", "--seconds", "20"]


def watch(*urls: str, more: tuple[str, ...] = ()) -> Any:
    return CliRunner().invoke(cli.app, ["watch", *urls, *ARGUMENTS, *more])


@pytest.mark.parametrize(
    ("name", "engine"),
    [*((name, "vllm") for name in PLANTED), *((name, "llamacpp") for name in list(PLANTED)[:6])],
)
def test_a_planted_cause_is_named(name: str, engine: str, tmp_path: Path) -> None:
    """Catches: another cause than the planted one, from the counters and times of two servers of one model."""
    with ExitStack() as stack:
        planted = PLANTED[name]
        main = stack.enter_context(served(Planted(engine, **planted)))
        half = planted.get("rates", ())[:1]
        others = [Planted(engine), *([Planted(engine, **planted | {"rates": half})] if half else [])]
        urls = [stack.enter_context(served(other)) for other in others]
        file, page = tmp_path / "w.json", tmp_path / "w.html"
        done = watch(main, *urls, more=("--json", str(file), "--html", str(page)))
    assert done.exit_code == 0, done.output
    said = json.loads(file.read_text())
    assert said["cause"]["name"] == name, done.output
    assert name in " ".join(done.output.split()) and name.lower() in page.read_text().lower()
    assert "<script" not in page.read_text()


def test_numbers_are_the_planted_ones() -> None:
    """Catches: a position's share, a pass's time or a ceiling that is off; the engine's clock mixed with ours."""
    planted = {"rates": (0.8, 0.6, 0.5, 0.5), "plain_s": 0.006, "round_s": 0.003, "guess_s": 0.001}
    with ExitStack() as stack:
        legs = []
        for rates in (planted["rates"], (), planted["rates"][:1]):  # type: ignore[index]
            url = stack.enter_context(served(Planted(**planted | {"rates": rates})))  # type: ignore[arg-type]
            requests = asking.bodies(None)
            legs.append(asking.ask(Server(url), "x", requests, 80, time.monotonic() + 30))
    found = numbers.watched(legs[0], legs[1:])
    assert found.depth == 4 and found.tokens == 80 * len(asking.PROMPTS) and found.shared == 0
    for share, (seen, low, high) in zip((0.8, 0.48, 0.24, 0.12), found.at, strict=True):
        assert low <= seen <= high and abs(seen - share) < 0.12
    assert found.line is not None and found.line.lengths == (1.0, 4.0)
    assert found.line.b == pytest.approx(0.001, rel=0.3) and found.line.a == pytest.approx(0.009, rel=0.15)
    assert found.plain_step_s == pytest.approx(0.006, rel=0.15)
    assert found.step_s == pytest.approx(found.engine_step_s, rel=0.15)
    assert found.ceiling == pytest.approx(5 * 6 / 13, rel=0.15)
    assert found.speedup == pytest.approx(found.tokens_per_pass * 6 / 13, rel=0.15)  # type: ignore[operator]


def test_sglang_s_answers_count_where_its_page_does_not() -> None:
    """Catches: an engine without counters taken for one without guesses; the path that reports no counts."""
    planted = {"rates": (0.8, 0.6, 0.5, 0.5), "plain_s": 0.004, "guess_s": 0.0005}
    with (
        served(Planted("sglang", **planted)) as url,
        served(Planted("sglang", rates=(0.8,), plain_s=0.004, guess_s=0.0005)) as other,
    ):  # type: ignore[arg-type]
        legs = [
            asking.ask(Server(one), "x", asking.bodies(None), 60, time.monotonic() + 30, asking.NEUTRAL)
            for one in (url, other)
        ]
    found = numbers.watched(legs[0], legs[1:])
    assert (found.engine, found.depth, found.tokens) == ("SGLang", 4, 60 * len(asking.PROMPTS))
    for share, (seen, low, high) in zip((0.8, 0.48, 0.24, 0.12), found.at, strict=True):
        assert low - 0.05 <= share <= high + 0.05 and seen > 0
    assert found.line is not None and found.line.lengths == (1.0, 4.0) and found.plain_step_s is None


def test_one_address_says_that_the_cost_is_unknown() -> None:
    """Catches: a cost, a ceiling or an expensive guess read off a single draft length."""
    with served(Planted(rates=GOOD)) as url:
        done = watch(url)
        leg = asking.ask(Server(url), "x", asking.bodies(None), 60, time.monotonic() + 20)
    assert "times are unknown" in done.output and "a + b·k" in done.output and "unknown" in done.output
    found = numbers.watched(leg)
    assert (found.line, found.cost, found.ceiling, found.speedup, found.best_length) == (None,) * 5


def test_what_others_send_is_not_counted_as_ours() -> None:
    """Catches: the counters of a shared server taken for those of one request; --listen that sends something."""
    planted = Planted(rates=GOOD)
    with served(planted) as url:
        real = planted.page
        planted.page = lambda: (planted.count(4, 2, 3, 0.01), real())[1]  # type: ignore[method-assign]
        leg = asking.ask(Server(url), "x", asking.bodies(None), 40, time.monotonic() + 20)
        assert leg.rows == [] and leg.shared == len(asking.PROMPTS)
        before = dict(planted.counts)
        found = numbers.watched(asking.listen(Server(url), 1.0, lambda seconds: time.sleep(0.02)))
    assert planted.counts["tokens"] - before["tokens"] == pytest.approx(
        3 * (planted.counts["drafts"] - before["drafts"])
    )
    assert found.rounds > 10 and [share for share, _, _ in found.at] == [1.0, 1.0, 0.0, 0.0]
    assert found.engine_step_s == pytest.approx(0.01)


def test_requests_come_from_a_file(tmp_path: Path) -> None:
    """Catches: a prompt that is lost or changed; a file without prompts that sends something else."""
    file = tmp_path / "prompts.jsonl"
    file.write_text('Plain words\n\n{"prompt": [1, 2], "temperature": 0.5}\n', encoding="utf-8")
    assert asking.bodies(file) == [{"prompt": "Plain words"}, {"prompt": [1, 2], "temperature": 0.5}]
    for text, said in (("", "no prompt"), ('{"text": "x"}', "Line 1"), ('{"prompt": 5}', "Line 1")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(WatchError, match=said):
            asking.bodies(file)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("stalls", "did not answer within 1"), ("drips", "did not answer within 1"),
        ("drips a header", "did not answer within 1"), ("floods", "sends more than 8,000,000 bytes"),
        ("one line", "sends more than 1,000,000 bytes"), ("redirects", "is not followed"),
        ("lies", "contradict each other"), ("no page", "no page of vLLM"),
        ("refuses", "HTTP 401: no⟨1B⟩[2J⟨1B⟩[31m key"),
        ("no HTTP", "could not be read"),
    ],
)  # fmt: skip
def test_a_server_that_misbehaves_gets_one_sentence(odd: str, said: str) -> None:
    """Catches: a hang, a full memory, a request to another host, a traceback."""
    with served(odd=odd) as url:
        began = time.monotonic()
        done = CliRunner().invoke(cli.app, ["watch", url, "--timeout", "1"])
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output
    assert done.output.count("http://") == 1, "a sentence in a sentence"
    assert time.monotonic() - began < 8 and "Traceback" not in done.output


def test_addresses_that_are_none_are_refused() -> None:
    """Catches: a file, or a name with a password in it, taken for a server; a closed port as a traceback."""
    for url in ("ftp://x", "file:///etc/hosts", "http://a:b@c", "http://x:99999", ""):
        with pytest.raises(WatchError, match="no address"):
            Server(url)
    with served() as url:
        pass
    with pytest.raises(WatchError, match="Nothing answers"):
        Server(url, 2).get("/metrics")


def test_the_first_cause_that_was_checked_is_the_one() -> None:
    """Catches: a cause said of a handful of rounds."""
    with served(Planted(rates=GOOD)) as url:
        leg = asking.ask(Server(url), "x", asking.bodies(None)[:1], 20, time.monotonic() + 20)
    assert cause(numbers.watched(leg)).name == "too few rounds"
