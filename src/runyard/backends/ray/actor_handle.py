"""A worker actor as the driver sees it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from runyard.backends.ray import messages as wire
from runyard.backends.ray.cluster import Requirements
from runyard.backends.ray.messages import OpenReply
from runyard.backends.ray.worker_actor import WorkerActor

CALLS, ORDERS = "calls", "orders"

INLINE_BYTES = 64 * 1024
"""The most data that travels inside a call; more goes through the object store."""


class ActorHandle:
    """An actor, and what the driver knows of it."""

    def __init__(self, number: int, lane: int, node: str, key: tuple[Any, ...], actor: Any) -> None:
        self.number = number
        self.lane = lane
        self.node = node
        self.key = key  # what it was started for
        self.host = ""  # its machine's name, once it has started
        self.rested = asyncio.Event()  # it serves no batch
        self.rested.set()
        self._actor = actor

    async def hello(self) -> None:
        """Wait until it has started."""
        self.host = await self._actor.hello.remote()

    async def open(self, job: Any, environment: bytes, code: Any) -> OpenReply:
        """Begin a batch."""
        reply = await self._call("open", self.lane, job, environment, code)
        return wire.decode_open_reply(reply)

    async def update(self, patience: float) -> bytes:
        """Its next update."""
        found: bytes = await self._call("update", patience)
        return found

    async def rest(self) -> None:
        """End the batch."""
        await self._call("rest")

    async def leave(self) -> None:
        """Let it clean up, then end it."""
        if self.host:  # else it may wait for room, and would not answer before it has some
            self.hurry()
            with contextlib.suppress(Exception):
                await self._call("leave")
        self.kill()

    def kill(self) -> None:
        """End it by force."""
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self._actor)

    def order(self, content: bytes) -> None:
        """Pass on an order."""
        self._actor.order.options(concurrency_group=ORDERS).remote(content)

    def hurry(self) -> None:
        """Have it answer at once when it is asked for an update."""
        self._actor.hurry.options(concurrency_group=ORDERS).remote()

    def _call(self, method: str, *args: Any) -> Any:
        return getattr(self._actor, method).options(concurrency_group=CALLS).remote(*args)


def start_actor(
    number: int, lane: int, node: str, need: Requirements, runtime_env: dict[str, Any]
) -> ActorHandle:
    """Have Ray start a worker actor on a node that has room.

    Ray's own choice could be a node that died a moment ago, which it notices late.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote: Any = ray.remote  # whose types don't know concurrency groups
    actor = remote(concurrency_groups={CALLS: 1, ORDERS: 1})(WorkerActor)
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {**need.options(), "max_restarts": 0, "scheduling_strategy": there}
    if runtime_env:
        options["runtime_env"] = runtime_env
    key = actor_key(need, runtime_env)
    return ActorHandle(number, lane, node, key, actor.options(**options).remote())


def shared(data: bytes) -> Any:
    """Data for many actors: in the object store once, unless it is small."""
    import ray

    return data if len(data) < INLINE_BYTES else ray.put(data)


def actor_key(need: Requirements, runtime_env: dict[str, Any]) -> tuple[Any, ...]:
    """What must be the same for an actor to serve another batch."""
    return need.amounts, runtime_env
