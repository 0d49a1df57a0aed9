"""A seat: one station as the bridge sees it."""

from __future__ import annotations

import contextlib
from typing import Any

from runyard.backends.ray.cluster import Need
from runyard.backends.ray.station import Station

ORDERS, NEWS = "orders", "news"

INLINE_BYTES = 64 * 1024
"""So much travels inside a call."""


class Seat:
    """A station, and how far it has got."""

    def __init__(self, lane: int, node: str, key: tuple[Any, ...], actor: Any) -> None:
        self.lane = lane
        self.node = node
        self.key = key  # what it was started for
        self.life = 0
        self.host = node[:8]
        self.is_ready = False  # it has started
        self.is_open = False  # the engine may use it
        self.is_asked = False  # for news
        self._actor = actor

    def hello(self) -> Any:
        """Ask for its machine's name."""
        return self._actor.hello.remote()

    def open(self, job: Any, surroundings: bytes, code: Any) -> Any:
        """Tell it of a batch."""
        call = self._actor.open.options(concurrency_group=ORDERS)
        return call.remote(self.lane, self.life, job, surroundings, code)

    def order(self, kind: bytes, number: int, content: bytes) -> None:
        """Pass an order on."""
        self._actor.order.options(concurrency_group=ORDERS).remote(kind, number, content)

    def news(self, patience: float) -> Any:
        """Ask what there is to say."""
        return self._actor.news.options(concurrency_group=NEWS).remote(patience)

    def rest(self) -> Any:
        """Tell it that the batch is over."""
        return self._actor.rest.options(concurrency_group=ORDERS).remote()

    def leave(self) -> Any:
        """Tell it that it is not needed any more."""
        return self._actor.leave.options(concurrency_group=ORDERS).remote()

    def kill(self) -> None:
        """End it, whatever it does."""
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self._actor)


def start_seat(lane: int, node: str, need: Need, runtime_env: dict[str, Any]) -> Seat:
    """Have Ray start a station on a node that has room.

    Ray's own choice could be a node that died a moment ago, which it notices late.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote: Any = ray.remote  # whose types know no concurrency groups
    station = remote(concurrency_groups={ORDERS: 1, NEWS: 1})(Station)
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {**need.options(), "max_restarts": 0, "scheduling_strategy": there}
    if runtime_env:
        options["runtime_env"] = runtime_env
    return Seat(lane, node, seat_key(need, runtime_env), station.options(**options).remote())


def shared(data: bytes) -> Any:
    """Data that many stations are given: in the object store once, unless it is small."""
    import ray

    return data if len(data) < INLINE_BYTES else ray.put(data)


def seat_key(need: Need, runtime_env: dict[str, Any]) -> tuple[Any, ...]:
    """What has to be the same for a station to serve another batch."""
    return need.amounts, runtime_env
