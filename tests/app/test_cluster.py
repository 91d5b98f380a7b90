"""The settings of the decoders' cluster, without Ray."""

from __future__ import annotations

import pytest

from app import services
from app.config import Policy
from app.config import read as read_policy
from app.decoding.cluster import _reach, read
from app.decoding.local import Local


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
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    """Catches: a cluster that starts with a size nobody asked for, and a traceback at the start."""
    with pytest.raises(ValueError, match=name):
        read({name: value})


@pytest.mark.parametrize("address", ["rubbish", "127.0.0.1:1", "head.invalid:6379", "[::1]:99999"])
def test_a_cluster_that_is_not_there_is_one_sentence(address: str) -> None:
    """Catches: minutes in which Ray tries an address, and cannot be stopped."""
    with pytest.raises(OSError, match=r"SPECDEC_RAY_ADDRESS is .* and no cluster answers there"):
        _reach(address)


def test_the_decoder_is_chosen_by_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: Ray asked for and not used, and a server that starts although Ray is missing."""
    with pytest.raises(ValueError, match="SPECDEC_DECODER"):
        read_policy({"SPECDEC_DECODER": "ray"})
    made = services.decoder.__wrapped__
    monkeypatch.setattr(services, "operator", Policy)
    assert isinstance(made(), Local)
    monkeypatch.setattr(services, "operator", lambda: Policy(decoder="serve"))
    monkeypatch.setattr("app.decoding.serve.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"requirements-serve\.txt"):
        made()
