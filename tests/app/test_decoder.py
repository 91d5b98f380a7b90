"""The seam to the decoder: what every implementation of `Family` does, and what a decoder in a process of its own adds
(its death is a sentence, and another takes its place)."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from app.decoding.api import DecoderLost, Family, LaneDone, unpack
from app.decoding.in_child.forking import METHOD, start
from app.decoding.in_child.local import Local
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.on_ray.cluster import Cluster
from app.decoding.on_ray.serve import Serve
from app.decoding.run import Request
from app.decoding.runs import Runs
from specdec_core.engine.events import Ended, Started, Step
from specdec_core.foundations.errors import ModelError, PromptError, SettingsError, SpecdecError
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_lessons.distilled import Standing
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.run import SweepProgress

ROOT = Path(__file__).resolve().parents[2]
LANES = (Settings(proposer="none", max_new_tokens=12), Settings(max_new_tokens=12))
LABELS = ("Plain decoding", "Draft model")
WAIT = 240.0  # a replica needs the half of it to start on a machine that is busy with more


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    found = Local()
    found.load(ModelChoice())
    yield found
    found.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Serve]:
    """Two decoders and a patient replica of a Ray that is started here."""
    pytest.importorskip("ray", reason="Ray is not installed: requirements-serve.txt")
    found = Serve(Cluster(least=2, most=2, queued=1))
    yield found
    found.close()


@pytest.fixture(scope="module")
def here() -> Family:
    """The bundled models in this process."""
    from app.decoding.loaded import load

    return load(ModelChoice())


@pytest.fixture(scope="module")
def child(local: Local) -> Family:
    """The bundled models in a child process."""
    return local.load(ModelChoice())


@pytest.fixture(scope="module")
def served(cluster: Serve) -> Family:
    """The bundled models on Ray Serve."""
    return cluster.load(ModelChoice())


# Ray's own warnings are not ours to mend.
ON_RAY = (pytest.mark.serve, pytest.mark.filterwarnings("ignore"))
ELSEWHERE = ["child", pytest.param("served", marks=ON_RAY)]


@pytest.fixture(params=["here", *ELSEWHERE])
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=ELSEWHERE)
def there(request: pytest.FixtureRequest) -> Family:
    """The bundled models in another process."""
    found: Family = request.getfixturevalue(request.param)
    return found


def never() -> bool:
    return False


def silent(text: str) -> str:
    return ""


def traces(events: list[Any]) -> list[Trace]:
    found = {event.lane: event.packed for event in events if isinstance(event, LaneDone)}
    return [Trace.from_json(unpack(found[lane])) for lane in sorted(found)]


def race(family: Family, prompt: str = "Once upon a time", lanes: tuple[Settings, ...] = LANES) -> list[Any]:
    return list(family.race(prompt, lanes, cancelled=never, ask=silent))


def long_race(tokens: int) -> tuple[Settings, ...]:
    """Lanes that take seconds on any machine: a thousand tokens alone may take one."""
    return tuple(Settings(max_new_tokens=tokens, seed=seed) for seed in range(4))


def until(fact: Callable[[], bool], every: float = 0.005) -> None:
    deadline = time.monotonic() + WAIT
    while not fact():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(every)


def test_a_race_tells_each_round_and_ends_with_a_sound_record(family: Family) -> None:
    events = race(family)
    for lane in range(2):
        own = [event for event in events if event.lane == lane]
        assert isinstance(own[0], Started) and isinstance(own[-2], Ended) and isinstance(own[-1], LaneDone)
        steps = [event for event in own if isinstance(event, Step)]
        record = traces(events)[lane]
        assert [token for step in steps for token in step.tokens] == record.token_ids
        assert len(record.token_ids) == own[-1].stats.tokens == 12 and record.audit() == []


def test_both_write_the_same_and_know_the_same(here: Family, there: Family) -> None:
    """Catches: a setting that is lost on the way to the other process, or a family loaded otherwise there."""
    lanes = (LANES[0], Settings(max_new_tokens=12, temperature=0.9, seed=7, proposer="medusa"))
    written = [[(trace.token_ids, trace.header.settings) for trace in traces(race(each, lanes=lanes))]
               for each in (here, there)]  # fmt: skip
    assert written[0] == written[1]
    assert here.card == there.card
    record = traces(race(here))[1]
    assert here.ledger(record) == there.ledger(record)
    texts = [
        [(token.text, token.choice) for token in each.surprises("The cat sat.")] for each in (here, there)
    ]
    assert texts[0] == texts[1] and len(texts[0]) > 2
    assert set(here.about(LANES, LABELS)) == set(there.about(LANES, LABELS))


def test_a_cancelled_race_ends_within_a_round_and_keeps_its_record(family: Family) -> None:
    stop: list[bool] = []
    events = []
    for event in family.race(
        "Once", [Settings(max_new_tokens=500)], cancelled=lambda: bool(stop), ask=silent
    ):
        events.append(event)
        if isinstance(event, Step):
            stop.append(True)
    assert [event.end for event in events if isinstance(event, Ended)] == ["cancelled"]
    assert 0 < len(traces(events)[0].token_ids) < 500


def test_a_race_that_is_left_does_not_block_the_next(family: Family) -> None:
    """Catches: a caller that goes away without a word, whose race holds the device for ever."""
    events = family.race("Once", [Settings(max_new_tokens=1000)], cancelled=never, ask=silent)
    next(events)
    del events
    began = time.monotonic()
    assert len(race(family)) > 4
    assert time.monotonic() - began < 30


def test_a_training_ends_soon_after_it_is_cancelled(family: Family) -> None:
    """Catches: a training that holds the device for its minute after its visitor has left."""
    stop: list[bool] = []
    reports = family.distil("story", 60.0, cancelled=lambda: bool(stop))
    first = next(reports)
    assert isinstance(first, Standing) and (first.phase, first.share) == ("reading", 0.1)
    stop.append(True)
    assert len(list(reports)) <= 1
    with pytest.raises(ModelError, match="not written here"):
        list(family.distil("poem", 1.0, cancelled=never))


def test_a_visitor_s_words_are_asked_for_and_judged(family: Family) -> None:
    heard: list[str] = []

    def ask(text: str) -> str:
        heard.append(text)
        return " upon a time"

    lanes = [Settings(proposer="you", max_new_tokens=6)]
    events = list(family.race("Once", lanes, cancelled=never, ask=ask))
    assert heard and heard[0].endswith("Once")
    guessed = [text for event in events if isinstance(event, Step) for text in event.node_texts]
    assert " upon" in guessed


@pytest.mark.parametrize(
    ("prompt", "lanes", "error"),
    [
        ("\0" * 90_000, LANES, PromptError),
        ("a" * 1_000_001, LANES, PromptError),
        ("Once", (Settings(proposer="eagle", rule="k-seq", max_new_tokens=8),), SettingsError),
        ("Once", (), SettingsError),
        ("Once", LANES * 9, SettingsError),
    ],
)
def test_what_the_core_refuses_is_the_same_sentence(
    here: Family, there: Family, prompt: str, lanes: Any, error: Any
) -> None:
    sentences = []
    for family in (here, there):
        with pytest.raises(error) as refused:
            race(family, prompt, lanes)
        sentences.append((refused.type, str(refused.value)))
    assert sentences[0] == sentences[1]


def test_models_without_a_template_say_so(family: Family) -> None:
    assert not family.card.chat_template
    with pytest.raises(ModelError, match="no chat template"):
        family.chat("Hello", "")


def test_a_sweep_computes_only_while_a_row_is_waited_for(family: Family) -> None:
    """Catches: a sweep that runs on in the decoder's process while somebody else holds the device."""
    ahead: list[SweepProgress] = []
    cases = [Case("own", f"number {at}", "Once upon a time") for at in range(4)]
    rows = family.sweep(
        cases, LANES, repeats=1, labels=LABELS, known=(), cancelled=lambda: len(ahead) == 3,
        on_progress=ahead.append,
    )  # fmt: skip
    first = next(rows)
    assert (first.lane, first.error) == (0, None)
    time.sleep(0.3)
    assert len(ahead) == 1
    rest = [(row.lane, row.same_text) for row in rows]
    assert rest in ([(1, True)], [(1, True), (0, True)]), (
        "another process may end the third cell before it is told"
    )


def test_a_decoder_that_is_killed_is_a_sentence_and_the_next_run_works(child: Family, local: Local) -> None:
    """Catches: a page that waits for ever for a dead decoder, runs in line that are lost with it, and a family that is
    not loaded again."""
    shelf = ModelCache(lambda choice: child, lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone))
    lost = local.lost()
    killed = runs.start(Request("Once", (Settings(max_new_tokens=1000),), ("x",), ModelChoice()))
    waiting = runs.start(Request("Once", LANES, LABELS, ModelChoice()))
    until(lambda: any("step" in message for message in killed.messages))
    os.kill(local.decoder().pid or 0, signal.SIGKILL)
    assert killed.wait(2), "its page is told within two seconds"
    assert killed.state == "failed" and "stopped unexpectedly" in (killed.error or "")
    last = [json.loads(message) for message in killed.messages[-2:]]
    assert [message["type"] for message in last] == ["error", "done"]
    assert waiting.wait(WAIT) and waiting.error is None and len(waiting.traces) == 2
    assert local.lost() == lost + 1
    runs.close()


def test_a_decoder_that_is_killed_while_nobody_computes_is_there_again(child: Family, local: Local) -> None:
    """Catches: an operator's figure that counts a dead decoder, or one without its models, as ready."""
    lost = local.lost()
    until(lambda: local.ready() == 1)
    os.kill(local.decoder().pid or 0, signal.SIGKILL)
    until(lambda: local.lost() > lost)
    assert local.ready() == 0
    assert len(race(child)) > 4
    until(lambda: local.ready() == 1)


ORPHAN = """
import sys, time
from app.decoding.in_child.forking import METHOD, start
from app.decoding.in_child.local import Local
from app.decoding.models import ModelChoice
from specdec_core.settings import Settings

def main():
    local = Local()
    family = local.load(ModelChoice())
    family.surprises("The cat sat.")
    events = family.race("Once", [Settings(max_new_tokens=1000)], cancelled=lambda: False, ask=lambda text: "")
    next(events)
    print(local.decoder().pid, "torch" in sys.modules, flush=True)
    time.sleep(60)

if __name__ == "__main__":
    main()
"""


def test_the_web_process_imports_no_torch_and_its_death_is_its_decoder_s(tmp_path: Path) -> None:
    """Catches: decoding in the web process, and a decoder that computes on after its server was killed."""
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN, encoding="utf-8")
    web = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert web.stdout is not None
    decoder, torch_here = web.stdout.readline().split()
    assert torch_here == "False"
    web.kill()
    web.communicate()
    until(lambda: not _alive(int(decoder)))


STOPPED = """
import os, signal, threading, time
from multiprocessing import forkserver
from app.decoding.in_child.local import Local
from app.decoding.models import ModelChoice

def main():
    local = Local()
    loading = threading.Thread(target=lambda: local.load(ModelChoice()), daemon=True)
    loading.start()
    while not (server := forkserver._forkserver._forkserver_pid):
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(server, signal.SIGTERM)  # as systemd does; it must not end before its turn
    time.sleep(0.3)
    began = time.monotonic()
    alive = open(f"/proc/{server}/stat").read().split()[2]
    local.close()
    loading.join()
    print(alive != "Z", server, time.monotonic() - began, flush=True)

if __name__ == "__main__":
    main()
"""


def test_a_server_that_is_stopped_while_it_starts_ends_soon_and_leaves_nothing(tmp_path: Path) -> None:
    """Catches: a SIGTERM to all processes that is taken for a crash, and a process that imports torch on for nobody."""
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    alive, server, seconds = done.stdout.split()
    assert alive == "True" and float(seconds) < 5, done.stderr
    assert "shutting down" in done.stderr and "EOFError" not in done.stderr
    assert not _alive(int(server))


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_after_the_end_a_call_is_a_sentence() -> None:
    local = Local()
    local.close()
    with pytest.raises(DecoderLost, match="shutting down"):
        local.load(ModelChoice())


@pytest.mark.serve
@pytest.mark.filterwarnings("ignore")
def test_a_full_cluster_says_so_and_what_waits_can_be_stopped(served: Family) -> None:
    """Catches: calls that wait in Ray without bound, and one that cannot be stopped before a decoder is free."""
    stop = threading.Event()
    ends: list[str] = []

    def run() -> None:
        try:
            race_ends = [
                event.end
                for event in served.race("Once", long_race(1000), cancelled=stop.is_set, ask=silent)
                if isinstance(event, Ended)
            ]
            ends.extend(set(race_ends))  # its lanes end alike
        except SpecdecError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
        time.sleep(0.3)
    until(lambda: len(ends) >= 1)
    assert all("All decoders are busy" in end for end in ends)
    refused = len(ends)
    stop.set()
    for thread in threads:
        thread.join(WAIT)
    ends = ends[refused:]
    assert ends.count("cancelled") == 2, "both decoders raced"
    assert ends.count("Stopped before a decoder was free.") == len(ends) - 2 > 0


@pytest.mark.serve
@pytest.mark.filterwarnings("ignore")
def test_a_visitor_who_thinks_holds_no_decoder(served: Family) -> None:
    """Catches: guesses that make a class wait, minutes each."""
    thinking, guess = threading.Event(), threading.Event()

    def ask(text: str) -> str:
        thinking.set()
        assert guess.wait(WAIT)
        return ""

    lanes = [Settings(proposer="you", max_new_tokens=6)]
    played: list[Any] = []
    visitors = [
        threading.Thread(
            target=lambda: played.append(list(served.race("Once", lanes, cancelled=never, ask=ask)))
        )
        for _ in range(3)
    ]
    for visitor in visitors:
        visitor.start()
    assert thinking.wait(WAIT)
    assert len(race(served)) > 4 and len(served.surprises("The cat sat.")) > 2
    guess.set()
    for visitor in visitors:
        visitor.join(WAIT)
    assert [traces(events)[0].audit() for events in played] == [[], [], []]


def replicas() -> set[int]:
    """The processes of the decoders on Ray Serve."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed
            if "ServeReplica:decoder" in " ".join(process.cmdline()):
                found.add(process.pid)
    return found


@pytest.mark.serve
@pytest.mark.filterwarnings("ignore")
def test_a_replica_that_is_killed_ends_its_own_race_only_and_is_replaced(
    served: Family, cluster: Serve
) -> None:
    """Catches: a race disturbed by the death of another's replica, and a decoder that never comes back."""
    stop = threading.Event()
    seen: list[list[Any]] = [[], []]
    lost: list[tuple[int, str]] = []

    def run(number: int) -> None:
        try:
            for event in served.race("Once", long_race(1000), cancelled=stop.is_set, ask=silent):
                seen[number].append(event)
        except DecoderLost as error:
            lost.append((number, str(error)))

    before = replicas()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: all(seen))
    os.kill(min(before), signal.SIGKILL)
    until(lambda: bool(lost))
    other = seen[1 - lost[0][0]]
    told = len(other)
    until(lambda: len(other) > told + 100)  # rounds of four lanes
    stop.set()
    for thread in threads:
        thread.join(WAIT)
    assert len(lost) == 1 == cluster.lost() and "stopped unexpectedly" in lost[0][1]
    assert "cancelled" in {event.end for event in other if isinstance(event, Ended)}, "it went on until now"
    assert len(traces(other)) == 4 and all(trace.audit() == [] for trace in traces(other))
    assert len(race(served)) > 4, "the next run works at once"
    until(
        lambda: len(replicas() - {min(before)}) == 2 == cluster.ready(), every=0.5
    )  # Ray needs the processor meanwhile


def test_a_child_does_not_run_the_page_that_is_being_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Catches: a decoder that starts anew while Streamlit draws a page, and first runs that page."""
    page = tmp_path / "page.py"
    page.write_text("raise SystemExit('ran the page')")
    drawn = ModuleType("__main__")
    drawn.__file__ = str(page)
    monkeypatch.setitem(sys.modules, "__main__", drawn)
    process = multiprocessing.get_context(METHOD).Process(target=time.sleep, args=(0,))
    start(process)
    process.join(60)
    assert process.exitcode == 0 and sys.modules["__main__"] is drawn
