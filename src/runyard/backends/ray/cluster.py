"""The Ray cluster: starting or joining it, its nodes, and how many actors fit where.

What imports Ray is at the end; the decisions before it are pure.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from runyard.format import count
from runyard.spec.options import Options

Amounts = Mapping[str, float]

INTERNAL = ("node:", "object_store_memory", "accelerator_type:")
"""Resources that Ray uses internally; not shown."""

SHUTDOWN_SECONDS = 15.0
LONGEST_SESSION = "session_2026-01-01_00-00-00_123456_1234567"  # with the driver's process id
_EPSILON = 1e-9


class Requirements(msgspec.Struct, frozen=True):
    """The resources that one task needs."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    resources: dict[str, float] = {}

    @classmethod
    def of(cls, options: Options) -> Requirements:
        """What a batch's options ask for: one core by default."""
        cpus = 1.0 if options.cpus is None else options.cpus
        return cls(cpus, options.gpus or 0.0, options.memory, options.resources)

    @property
    def amounts(self) -> dict[str, float]:
        """By Ray's names, without what is not needed."""
        named = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory or 0)}
        return {name: most for name, most in (named | self.resources).items() if most > 0}

    def options(self) -> dict[str, Any]:
        """As options of a Ray actor."""
        found: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        if self.memory is not None:
            found["memory"] = self.memory
        return found | ({"resources": self.resources} if self.resources else {})

    def __str__(self) -> str:
        return shown(self.amounts) or "nothing"


class ClusterNode(NamedTuple):
    """A living node of a cluster."""

    total: Amounts  # what it has
    free: Amounts  # what of it is unused
    address: str = ""  # where it listens


Nodes = Mapping[str, ClusterNode]  # by node id


def capacity(offer: Amounts, need: Requirements) -> int:
    """How many tasks fit on a node; one per core if they need nothing."""
    wanted = need.amounts
    if not wanted:
        return max(1, int(offer.get("CPU", 1)))
    return int(min(offer.get(name, 0.0) / most + _EPSILON for name, most in wanted.items()))


def could_ever_fit(nodes: Nodes, need: Requirements) -> bool:
    """Whether some node has what a task needs, even if it is in use now."""
    return any(capacity(node.total, need) for node in nodes.values())


def nodes_for_actors(
    nodes: Nodes, need: Requirements, *, starting: Mapping[str, int], most: int
) -> list[str]:
    """The nodes that get one more actor each, at most `most`; the emptiest first.

    What is free may not yet account for the actors that are starting; the next look will.
    """
    room = {n: capacity(node.free, need) - starting.get(n, 0) for n, node in nodes.items()}
    found: list[str] = []
    while room and len(found) < most:
        name = max(room, key=lambda name: room[name])
        if room[name] < 1:
            break
        room[name] -= 1
        found.append(name)
    return found


def shortage(
    nodes: Nodes,
    need: Requirements,
    *,
    ready: int,
    starting: int,
    wanted: int,
    is_explicit: bool,
) -> str | None:
    """What to tell a user whose workers have not all started; None if they have.

    A worker may still wait for room: Ray's view of what is free lags behind.
    """
    if not ready:
        waiting = (
            f"Ray to start {count(starting, 'worker')}" if starting else "room on the Ray cluster"
        )
        return f"waiting for {waiting}: a task needs {need}, and {_free(nodes, need)}"
    have = ready + starting
    if is_explicit and have < wanted:
        return f"the Ray cluster has room for {have} of {wanted} workers: a task needs {need}"
    return None


def _free(nodes: Nodes, need: Requirements) -> str:
    """How much of what a task needs is unused: `0 of 6 CPU are free`."""
    parts = []
    for name in need.amounts:
        total = sum(node.total.get(name, 0.0) for node in nodes.values())
        free = sum(node.free.get(name, 0.0) for node in nodes.values())
        parts.append(f"{shown({name: free}).split()[0]} of {shown({name: total})}")
    return " and ".join(parts) + " are free" if parts else "no node has room"


def closest_node(nodes: Nodes, need: Requirements) -> str:
    """The node that comes closest to what a task needs, as text."""
    if not nodes:
        return "there is no node"
    wanted = need.amounts

    def share(offer: Amounts) -> float:
        return sum(min(1.0, offer.get(name, 0.0) / most) for name, most in wanted.items())

    best = max((node.total for node in nodes.values()), key=share)
    return f"the node that comes closest has {shown(best)}"


def shown(amounts: Amounts) -> str:
    """Amounts as text: `4 CPU, 1 GPU, 2.1 GB memory`."""
    parts = []
    for name in sorted(amounts, key=lambda name: (name not in ("CPU", "GPU", "memory"), name)):
        if name == "memory":
            parts.append(f"{amounts[name] / 1e9:.2g} GB memory")
        elif not name.startswith(INTERNAL):
            parts.append(f"{amounts[name]:g} {name}")
    return ", ".join(parts)


def answers(address: str) -> bool:
    """Whether a server listens at this address."""
    host, _, port = address.rpartition(":")
    if not host:
        return False
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def make_folder() -> str:
    """A folder for a local Ray: among the temporary files, if Ray's sockets can be below it.

    A socket's path may have 107 characters on Linux and 103 on macOS, where the usual folder for
    temporary files is too long for them.
    """
    usual = tempfile.gettempdir()
    socket_path = f"{usual}/runyard-ray-12345678/r/{LONGEST_SESSION}/sockets/plasma_store"
    folder = usual if len(os.fsencode(socket_path)) <= 103 else "/tmp"  # noqa: S108
    return tempfile.mkdtemp(prefix="runyard-ray-", dir=folder)


def connect(address: str | None, cores: int, folder: str | None) -> None:
    """Join a cluster, or start a Ray with its files in a folder."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        os.environ.pop("RAY_ADDRESS", None)
        # Makes Ray a cluster of one machine, which listens on loopback only.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # By default Ray's workers have a lower priority than all other processes.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # A folder inside ours: Ray makes its own readable for every user of the machine.
        temporary = f"{folder}/r"
        settings |= {"num_cpus": cores, "include_dashboard": False, "_temp_dir": temporary}
    else:
        settings["address"] = address
        if address != "auto" and not answers(address.removeprefix("ray://")):
            raise ConnectionError("nothing listens there")
    import ray

    ray.init(**settings)


def disconnect() -> None:
    """Leave the cluster, or end Ray; ends this process if Ray hangs."""
    threading.Timer(SHUTDOWN_SECONDS, os._exit, [1]).start()
    with contextlib.suppress(Exception):
        import ray

        ray.shutdown()


def current_nodes() -> dict[str, ClusterNode]:
    """The cluster as Ray sees it now."""
    import ray
    from ray._private import state

    available: Callable[[], dict[str, Amounts]] = state.available_resources_per_node
    list_nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    free = available()
    return {
        node["NodeID"]: ClusterNode(
            node["Resources"],
            free.get(node["NodeID"], {}),
            f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
        )
        for node in list_nodes()
        if node["Alive"]
    }


def explain(error: BaseException) -> tuple[str, bool]:
    """The message of an error of Ray, and whether retrying is pointless."""
    from ray.exceptions import ActorDiedError, RuntimeEnvSetupError

    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RuntimeEnvSetupError):
        return "its runtime_env can't be set up: " + " ".join(lines[:3]), True
    failed = isinstance(error, ActorDiedError) and "creation task" in str(error)
    return (lines[-1] if failed and lines else " ".join(lines[:2])), failed
