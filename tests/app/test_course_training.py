"""Training a draft on a page: one per visitor, in the line of the runs, and what the picture says of it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from app import services
from app.course.live import training
from app.course.live.training import Trainings
from app.course.pictures.own import distilling
from app.decoding.device_queue import DeviceQueue
from app.decoding.jobs import Busy
from app.records import visitor
from specdec_lessons.distilled import HELD_BACK, Distilled, Heat, Report, Score, Standing

from .course_page import page, predict, press, sent
from .test_course_cache import WORDS

HEATS = tuple(Heat(1.0, 1.5 + 0.1 * number, 4.0, 2.0, 1.0) for number in range(HELD_BACK))
RESULT = Distilled(HEATS, Score(0.66, 2.58), b"weights", 300, 24_576)
REPORTS = [
    Standing("reading", 1.0, 1.0, 0),
    Standing("writing", 9.0, 1.0, 24_576),
    Standing("training", 10.0, 0.0, 0, Score(0.02, 1.02)),
    Standing("training", 60.0, 1.0, 90_000, Score(0.45, 1.95)),
    Standing("racing", 70.0, 1.0, 0),
    RESULT,
]


class Scripted:
    """A family whose trainings report what is written above, each report once it is let."""

    card = SimpleNamespace(machine="scripted machine", device="cpu")

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.line = DeviceQueue()

    def distil(self, kind: str, budget_s: float, *, cancelled: Callable[[], bool]) -> Iterator[Report]:
        for report in REPORTS:
            while not self.let.acquire(timeout=0.01):
                if cancelled():
                    return
            yield report


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    found, own = Scripted(), Trainings()
    monkeypatch.setattr(services, "shelf", lambda: SimpleNamespace(get=lambda choice, gone: found))
    monkeypatch.setattr(services, "runs", lambda: SimpleNamespace(line=lambda device: found.line))
    monkeypatch.setattr(training, "trainings", lambda: own)
    yield found
    own.close()


def done(job: Any, family: Scripted) -> None:
    family.let.release(len(REPORTS))
    assert job.wait(20) and job.state == "done", job.error


def test_a_visitor_has_one_training_and_the_server_a_few(family: Scripted) -> None:
    """Catches: a second press that trains a second draft, and a class that queues an hour of training."""
    own = training.trainings()
    first = own.begin("story", "me")
    assert own.begin("code", "me") is first and own.of("me") is first and own.of("you") is None
    others = [own.begin("story", f"visitor {number}") for number in range(training.ACTIVE - 1)]
    with pytest.raises(Busy, match="are being trained"):
        own.begin("story", "one too many")
    for job in (first, *others):
        job.cancel()
        assert job.wait(20) and job.state == "stopped" and job.result is None
    done(own.begin("code", "me"), family)


def test_the_device_is_free_between_two_slices(family: Scripted) -> None:
    """Catches: a training that makes everybody's runs wait for a minute."""
    job = training.trainings().begin("story", "me")
    waiting, had = threading.Event(), threading.Event()

    def other() -> None:
        with family.line.turn(lambda: False, lambda ahead: waiting.set(), "you"):
            had.set()

    while job.state != "running":
        assert job.active
        time.sleep(0.005)
    threading.Thread(target=other).start()
    assert waiting.wait(20) and not had.is_set()
    family.let.release()  # one slice
    assert had.wait(20)
    done(job, family)
    assert job.result is RESULT and [score.tokens_per_pass for score in distilling.scores(job.scored)] == [
        1.02,
        1.95,
    ]


def test_the_page_trains_shows_and_hands_out_the_draft(
    family: Scripted, monkeypatch: pytest.MonkeyPatch, lesson: Any
) -> None:
    """Catches: figures on the page that are not those of the race, and an interval of other values."""
    monkeypatch.setattr(visitor, "of_session", lambda: "me")
    at = predict(page(lesson="choosing"), lesson)
    press(at, "course-next")
    assert "course-choosing-change-download" not in sent(at)
    press(at, "course-choosing-change-start")
    at.run()  # a press runs the whole page here and the fragment alone in a browser, which then draws the page anew
    job = training.trainings().of("me")
    assert job is not None and job.kind == "story"
    assert at.button(key="course-choosing-change-stop") is not None
    done(job, family)
    at.run()
    assert not at.exception
    text = sent(at)
    assert re.findall(r"<td>([^<]*)</td>", text)[:9] == [
        "2%", "1.00", "0.25×", "45%", "1.95", "0.50×", "66%", "2.58", "–",
    ]  # fmt: skip
    assert "**+0.95 tokens per pass**" in text and "+0.73 to +1.17" in text and "scripted machine" in text
    assert "24,576 tokens" in text and WORDS("distilling.download") in text


@pytest.fixture
def lesson() -> Any:
    from app.course.files import reading

    found, problems = reading.read("en", "choosing")
    assert found is not None, problems
    return found
