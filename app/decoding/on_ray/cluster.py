"""The cluster of `serve`: how large it is, and what runs in it.

    python -m app.decoding.on_ray.cluster

deploys the two applications to the Ray cluster that SPECDEC_RAY_ADDRESS names. A RayService does the same with
`decoder` and `patient` as its import paths.

Two kinds of replicas, because a call that waits must not hold a decoder. `decoder` takes one race at a time and nothing
else. `patient` takes many calls at once, computes for one at a time, and gets the rest: races in which a visitor
guesses, sweeps that wait for their next turn, and what a page asks while it is drawn.
"""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config import SETTINGS
from app.config import read as read_policy
from app.decoding.models import ModelChoice, family
from specdec_core.models import catalogue

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[3]
PATIENT_CALLS = 250  # at once, on one replica: a visitor's guess may take minutes
PER_PATIENT = 4  # decoders for which one patient replica is enough
LONGEST_S = 330.0  # a replica that is to end waits so long for its calls: a visitor's guess, and what follows
REACH_S = 5.0  # for a cluster's head to answer at all
IDLE_S = 600.0  # before a replica that nobody needs ends


@dataclass(frozen=True, slots=True)
class Cluster:
    """How large the cluster is.

    Attributes:
        address: of a cluster that exists; None to start one on this machine, which ends with this process.
        least, most: how many decoders.
        queued: how many calls of one web process may wait for a replica of a kind.
        families: how many each replica keeps loaded.
        cpus, gpus: of each replica.
        default: the catalogue name of the family that is loaded besides the bundled one.
    """

    address: str | None = None
    least: int = 1
    most: int = 1
    queued: int = 100
    families: int = 3
    cpus: float = 1.0
    gpus: float = 0.0
    default: str = catalogue.BUNDLED

    @property
    def patient(self) -> int:
        """How many patient replicas there are at most."""
        return math.ceil(self.most / PER_PATIENT)

    @property
    def needed(self) -> int:
        """How many replicas there have to be: the fewest decoders, and a patient one."""
        return self.least + 1


def read(environment: Mapping[str, str] = os.environ) -> Cluster:
    """The cluster that the environment describes.

    Raises:
        ValueError: one sentence naming the invalid variable.
    """
    named = environment.get("SPECDEC_SERVE_REPLICAS", "").strip() or "1"
    bounds = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", named)
    least, most = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (0, 0)
    if not 1 <= least <= most:
        raise ValueError(
            f"SPECDEC_SERVE_REPLICAS has to be a number such as 3, or bounds such as 1-8, got {named!r}."
        )
    gpus = _number(environment, "SPECDEC_SERVE_GPUS", 0)
    if gpus > 1 and gpus % 1:
        raise ValueError(
            f"SPECDEC_SERVE_GPUS has to be a share of one GPU or a whole number, got '{gpus:g}'."
        )
    return Cluster(
        address=environment.get("SPECDEC_RAY_ADDRESS", "").strip() or None,
        least=least,
        most=most,
        queued=int(_number(environment, "SPECDEC_SERVE_QUEUE", 100, least=1, whole=True)),
        families=int(_number(environment, "SPECDEC_SERVE_FAMILIES", 3, least=1, whole=True)),
        cpus=_number(environment, "SPECDEC_SERVE_CPUS", 1),
        gpus=gpus,
        default=read_policy(environment).family,
    )


def refuse_unused(environment: Mapping[str, str] = os.environ) -> None:
    """For a server whose decoder is its own.

    Raises:
        ValueError: one sentence, if a setting says how large the cluster is that there is not.
    """
    for name in (f"SPECDEC_{setting}" for setting in SETTINGS if setting.startswith(("SERVE_", "RAY_"))):
        if environment.get(name, "").strip():
            raise ValueError(f"{name} does nothing without SPECDEC_DECODER=serve: set that, or unset this.")


def shortage(cluster: Cluster, machines: Sequence[Mapping[str, float]]) -> str | None:
    """Why fewer replicas than needed fit on machines with these of Ray's resources, as a sentence; None if all do.

    Ray itself lets a replica wait without a word until a machine comes that has what it reserves.
    """
    reserved = {name: each for name, each in (("CPU", cluster.cpus), ("GPU", cluster.gpus)) if each}
    room = sum(
        min(math.floor(machine.get(name, 0.0) / each + 1e-6) for name, each in reserved.items())
        for machine in machines
        if reserved
    )
    if not reserved or room >= cluster.needed:
        return None
    there = "; ".join(_amounts(machine.get("CPU", 0.0), machine.get("GPU", 0.0)) for machine in machines[:8])
    return (
        f"Ray has room for {room} of the {cluster.needed} replicas that are needed, one of them patient: each reserves "
        f"{_amounts(cluster.cpus, cluster.gpus)} (SPECDEC_SERVE_CPUS, SPECDEC_SERVE_GPUS), and its machines have "
        f"{there or 'nothing'}{'; …' if len(machines) > 8 else ''}."
    )


def _amounts(cpus: float, gpus: float) -> str:
    return f"{cpus:g} CPU{'' if cpus == 1 else 's'} and {gpus:g} GPU{'' if gpus == 1 else 's'}"


def machines() -> list[dict[str, float]]:
    """What each machine of the cluster that this process has joined gives to Ray."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _number(
    environment: Mapping[str, str], name: str, usual: float, *, least: float = 0, whole: bool = False
) -> float:
    text = environment.get(name, "").strip() or str(usual)
    if not re.fullmatch(r"\d{1,6}" if whole else r"\d{1,6}(\.\d{1,6})?", text) or float(text) < least:
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{name} has to be {kind} from {least:g} on, got {text!r}.")
    return float(text)


def applications(cluster: Cluster) -> dict[str, Any]:
    """What runs in a cluster, by name."""
    least, most = cluster.least, cluster.most
    return {
        "decoder": _application(cluster, "decoder", least, most, calls=1, wanted=1),
        "patient": _application(
            cluster, "patient", 1, cluster.patient, calls=PATIENT_CALLS, wanted=PATIENT_CALLS / 10
        ),
    }


def _application(cluster: Cluster, name: str, least: int, most: int, *, calls: int, wanted: float) -> Any:
    from ray import serve

    from .replica import Replica

    growing = {
        "min_replicas": least,
        "max_replicas": most,
        "target_ongoing_requests": wanted,
        "upscale_delay_s": 2.0,
        "downscale_delay_s": IDLE_S,
    }
    size: dict[str, Any] = {"num_replicas": most} if least == most else {"autoscaling_config": growing}
    deployed = serve.deployment(
        Replica,
        name=name,
        max_ongoing_requests=calls,
        max_queued_requests=cluster.queued
        + most * calls,  # Ray counts a call as queued until a replica has it
        graceful_shutdown_timeout_s=LONGEST_S,
        ray_actor_options={"num_cpus": cluster.cpus, "num_gpus": cluster.gpus},
        logging_config={"enable_access_log": False},
        **size,
    )
    return deployed.bind(tuple(dict.fromkeys((ModelChoice(), family(cluster.default)))), cluster.families)


def join(cluster: Cluster) -> None:
    """Connect this process to the cluster, which is started on this machine if it has no address.

    Raises:
        OSError: one sentence, if it cannot be reached, or if this machine has too few GPUs for what is to be started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    import ray

    quiet: dict[str, Any] = {"logging_level": logging.WARNING}
    if cluster.address is not None:
        _reach(cluster.address)
        ray.init(address=cluster.address, **quiet)
        return
    needed = cluster.cpus * (cluster.most + cluster.patient)
    if needed > (os.cpu_count() or 1):
        log.warning(
            "%d replicas with %g CPUs each share %s processors: they slow each other down.",
            cluster.most + cluster.patient,
            cluster.cpus,
            os.cpu_count(),
        )
    # What Ray starts has to find this program's modules.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    ray.init(
        address="local",
        num_cpus=max(math.ceil(needed), os.cpu_count() or 1),
        include_dashboard=False,
        object_store_memory=500_000_000,  # of records on their way; by default a third of the memory
        **quiet,
    )
    if missing := shortage(cluster, machines()):
        raise OSError(missing)  # to a cluster of its own no machine will come


def _reach(address: str) -> None:
    """Try a cluster's address: Ray itself would try for minutes, and could not be interrupted.

    Raises:
        OSError: one sentence, if nothing answers there.
    """
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if address == "auto" or address.startswith("local"):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise OSError(
            f"SPECDEC_RAY_ADDRESS is {address[:80]!r}, and no cluster answers there ({error}). Name a running "
            "cluster's head as host:port, usually port 6379, or auto on one of its machines."
        ) from None


def deploy(cluster: Cluster) -> None:
    """Deploy both applications; replicas of an earlier deployment end once their calls have."""
    from ray import serve

    serve.start(proxy_location="Disabled")  # calls come through handles
    targets = [
        serve.RunTarget(target, name=name, route_prefix=None)
        for name, target in applications(cluster).items()
    ]
    serve.run_many(targets, wait_for_applications_running=False)


def main() -> None:
    """Deploy to the cluster that the environment names."""
    try:
        cluster = read()
    except ValueError as error:
        sys.exit(str(error))
    if cluster.address is None:
        sys.exit(
            "SPECDEC_RAY_ADDRESS has to name the cluster to deploy to, such as auto on one of its machines."
        )
    try:
        join(cluster)
    except OSError as error:
        sys.exit(str(error))
    deploy(cluster)
    if missing := shortage(cluster, machines()):
        print(f"{missing} They wait until there is.", file=sys.stderr)


if __name__ == "__main__":
    main()
