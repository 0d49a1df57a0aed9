"""A worker actor as the driver sees it."""

from __future__ import annotations

import contextlib
from typing import Any

from runyard.backends.ray.cluster import Requirements
from runyard.backends.ray.worker_actor import WorkerActor

ORDERS, UPDATES = "orders", "updates"

INLINE_BYTES = 64 * 1024
"""The most data that travels inside a call; more goes through the object store."""


class ActorHandle:
    """An actor and its state. Its methods return the answer as a Ray object reference."""

    def __init__(self, lane: int, node: str, key: tuple[Any, ...], actor: Any) -> None:
        self.lane = lane
        self.node = node
        self.key = key  # what it was started for
        self.generation = 0  # of its lane
        self.host = node[:8]
        self.is_ready = False  # it has started
        self.is_open = False  # the engine may use it
        self.is_asked = False  # for an update
        self._actor = actor

    def hello(self) -> Any:
        """Ask for its machine's name."""
        return self._actor.hello.remote()

    def open(self, job: Any, environment: bytes, code: Any) -> Any:
        """Begin a batch."""
        call = self._actor.open.options(concurrency_group=ORDERS)
        return call.remote(self.lane, self.generation, job, environment, code)

    def order(self, kind: bytes, number: int, content: bytes) -> None:
        """Pass on a message for its lane."""
        self._actor.order.options(concurrency_group=ORDERS).remote(kind, number, content)

    def update(self, patience: float) -> Any:
        """Ask for its next update."""
        return self._actor.update.options(concurrency_group=UPDATES).remote(patience)

    def rest(self) -> Any:
        """End the batch."""
        return self._actor.rest.options(concurrency_group=ORDERS).remote()

    def leave(self) -> Any:
        """End the batch, and let it clean up for good."""
        return self._actor.leave.options(concurrency_group=ORDERS).remote()

    def kill(self) -> None:
        """End it by force."""
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self._actor)


def start_actor(
    lane: int, node: str, need: Requirements, runtime_env: dict[str, Any]
) -> ActorHandle:
    """Have Ray start a worker actor on a node that has room.

    Ray's own choice could be a node that died a moment ago, which it notices late.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote: Any = ray.remote  # whose types don't know concurrency groups
    actor = remote(concurrency_groups={ORDERS: 1, UPDATES: 1})(WorkerActor)
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {**need.options(), "max_restarts": 0, "scheduling_strategy": there}
    if runtime_env:
        options["runtime_env"] = runtime_env
    return ActorHandle(lane, node, actor_key(need, runtime_env), actor.options(**options).remote())


def shared(data: bytes) -> Any:
    """Data for many actors: in the object store once, unless it is small."""
    import ray

    return data if len(data) < INLINE_BYTES else ray.put(data)


def actor_key(need: Requirements, runtime_env: dict[str, Any]) -> tuple[Any, ...]:
    """What must be the same for an actor to serve another batch."""
    return need.amounts, runtime_env
