"""The settings of the decoders' cluster, without Ray."""

from __future__ import annotations

import queue
import re
import time
from unittest.mock import Mock

import pytest

from app import services
from app.config import Policy
from app.config import read as read_policy
from app.decoding.in_child.local import Local
from app.decoding.on_ray import serve
from app.decoding.on_ray.cluster import Cluster, _reach, read, shortage


def test_bounds_are_read_from_the_environment() -> None:
    found = read(
        {"SPECDEC_SERVE_REPLICAS": "2-9", "SPECDEC_SERVE_GPUS": "0.25", "SPECDEC_DEFAULT_MODELS": "tiny"}
    )
    assert (found.least, found.most, found.patient, found.gpus) == (2, 9, 3, 0.25)
    assert (read({}).least, read({}).most, read({}).address) == (1, 1, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPECDEC_SERVE_REPLICAS", "0"),
        ("SPECDEC_SERVE_REPLICAS", "5-2"),
        ("SPECDEC_SERVE_REPLICAS", "many"),
        ("SPECDEC_SERVE_QUEUE", "1.5"),
        ("SPECDEC_SERVE_FAMILIES", "0"),
        ("SPECDEC_SERVE_CPUS", "-1"),
        ("SPECDEC_SERVE_GPUS", "nan"),
        ("SPECDEC_SERVE_GPUS", "1.5"),  # Ray gives out shares of one GPU only
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    """Catches: a cluster that starts with a size nobody asked for, and a traceback at the start."""
    with pytest.raises(ValueError, match=name):
        read({name: value})


ONE_GPU = [{"CPU": 8.0, "GPU": 1.0, "memory": 1e9}]


@pytest.mark.parametrize(
    ("cluster", "machines", "words"),
    [
        (Cluster(), [{"CPU": 2.0}], None),
        (Cluster(cpus=0), [], None),
        (Cluster(gpus=0.5), ONE_GPU, None),
        (Cluster(least=2, most=9, gpus=0.1, cpus=0), ONE_GPU, None),
        (Cluster(cpus=2), [{"CPU": 3.0}, {"CPU": 3.0}], None),
        (Cluster(gpus=1), ONE_GPU, "room for 1 of the 2 .* its machines have 8 CPUs and 1 GPU[.]"),
        (Cluster(gpus=1), [{"CPU": 2.0}], "room for 0 of the 2 .* 1 CPU and 1 GPU .* 2 CPUs and 0 GPUs"),
        (Cluster(gpus=0.6), ONE_GPU, "room for 1 of the 2"),  # Ray splits no replica between two GPUs
        (Cluster(cpus=4), [{"CPU": 3.0}] * 9, "room for 0 of the 2 .* 3 CPUs and 0 GPUs; …"),
        (Cluster(), [], "machines have nothing"),
    ],
)
def test_replicas_that_fit_nowhere_are_a_sentence(
    cluster: Cluster, machines: list[dict[str, float]], words: str | None
) -> None:
    """Catches: GPUs or processors that a cluster does not have, for which a run waits for ever without a word."""
    found = shortage(cluster, machines)
    assert found is None if words is None else found is not None and re.search(words, found)


class Waiting(serve.Connection):
    """A connection with calls that no replica has, to a cluster that is not there."""

    def __init__(self, cluster: Cluster, *calls: serve.Open) -> None:
        self._cluster, self._missing, self._calls = cluster, None, dict(enumerate(calls))

    def ready(self, kind: str = "decoder") -> int:
        return int(kind == "patient")


def test_whoever_waits_for_a_machine_that_is_not_there_hears_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one GPU went to the patient replica. Catches: a run that stands in line for ever; a refusal while a machine
    may still come; a log that repeats itself every two seconds."""
    there = list(ONE_GPU)
    monkeypatch.setattr(serve, "machines", lambda: there)
    now = time.monotonic()
    calls = [
        serve.Open(queue.SimpleQueue(), kind, progresses, response=Mock(), begun=begun, since=since)
        for kind, progresses, begun, since in (
            ("decoder", True, False, now),
            ("decoder", False, False, now),
            ("decoder", False, False, now - serve.NO_ROOM_S - 1),
            ("decoder", False, True, 0.0),  # a replica has it
            ("patient", False, False, 0.0),  # its turn will come
        )
    ]
    waiting = Waiting(Cluster(gpus=1), *calls)
    waiting._look()
    waiting._look()
    assert [call.answers.qsize() for call in calls] == [1, 0, 2, 0, 0]
    assert calls[0].answers.get() == ("progress", (None, serve.NO_ROOM))
    assert calls[2].answers.get() == ("refused", ("SpecdecError", f"{serve.NO_ROOM}."))
    assert calls[2].response.cancel.called and not calls[4].response.cancel.called
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    there.append({"CPU": 8.0, "GPU": 4.0})
    waiting._look()
    assert [call.answers.qsize() for call in calls] == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("address", ["rubbish", "127.0.0.1:1", "head.invalid:6379", "[::1]:99999"])
def test_a_cluster_that_is_not_there_is_one_sentence(address: str) -> None:
    """Catches: minutes in which Ray tries an address, and cannot be stopped."""
    with pytest.raises(OSError, match=r"SPECDEC_RAY_ADDRESS is .* and no cluster answers there"):
        _reach(address)


def test_the_decoder_is_chosen_by_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: Ray, or three replicas, asked for and not used, and a server that starts although Ray is missing."""
    with pytest.raises(ValueError, match="SPECDEC_DECODER"):
        read_policy({"SPECDEC_DECODER": "ray"})
    made = services.decoder.__wrapped__
    monkeypatch.setattr(services, "operator", Policy)
    assert isinstance(made(), Local)
    for name in ("SPECDEC_SERVE_REPLICAS", "SPECDEC_RAY_ADDRESS"):
        with monkeypatch.context() as setting:
            setting.setenv(name, "3")
            with pytest.raises(ValueError, match=f"{name} does nothing without SPECDEC_DECODER=serve"):
                made()
    monkeypatch.setattr(services, "operator", lambda: Policy(decoder="serve"))
    monkeypatch.setattr("app.decoding.on_ray.serve.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"requirements-serve\.txt"):
        made()
