"""What Ray knows of its cluster's nodes, and what a socket knows sooner."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from runyard.backends.ray.cluster import View


def look() -> View:
    """The cluster as it is."""
    from ray._private import state

    available: Callable[[], dict[str, dict[str, float]]] = state.available_resources_per_node
    nodes = _nodes()
    total = {node["NodeID"]: node["Resources"] for node in nodes}
    return View(
        total,
        {node: has for node, has in available().items() if node in total},
        {n["NodeID"]: f"{n['NodeManagerAddress']}:{n['NodeManagerPort']}" for n in nodes},
    )


def _nodes() -> list[dict[str, Any]]:
    """The nodes that Ray believes to be alive."""
    import ray

    nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    return [node for node in nodes() if node["Alive"]]


def explain(error: BaseException) -> tuple[str, bool]:
    """What an error of Ray says, and whether another try is pointless."""
    from ray.exceptions import ActorDiedError, RuntimeEnvSetupError

    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RuntimeEnvSetupError):
        return "its runtime_env can't be set up: " + " ".join(lines[:3]), True
    failed = isinstance(error, ActorDiedError) and "creation task" in str(error)
    return (lines[-1] if failed and lines else " ".join(lines[:2])), failed


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    host, _, port = address.rpartition(":")
    if not host:
        return False
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True
