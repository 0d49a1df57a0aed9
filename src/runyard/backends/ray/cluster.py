"""How many stations a cluster can hold. Decisions without I/O, and without Ray."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Amounts = Mapping[str, float]

UNSHOWN = ("node:", "object_store_memory", "accelerator_type:")
"""Resources that Ray counts for its own use."""

_GRAIN = 1e-9


class Need(msgspec.Struct, frozen=True):
    """What one task needs of the machine that it runs on."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    resources: dict[str, float] = {}

    @property
    def amounts(self) -> dict[str, float]:
        """By Ray's names, what is not needed left out."""
        named = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory or 0)}
        return {name: most for name, most in (named | self.resources).items() if most > 0}

    def options(self) -> dict[str, Any]:
        """As Ray wants it said of an actor."""
        found: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        if self.memory is not None:
            found["memory"] = self.memory
        return found | ({"resources": self.resources} if self.resources else {})

    def __str__(self) -> str:
        return shown(self.amounts) or "nothing"


class View(msgspec.Struct, frozen=True):
    """The nodes of a cluster that are alive: what each has, and what of it nobody uses."""

    total: dict[str, dict[str, float]] = {}
    free: dict[str, dict[str, float]] = {}
    places: dict[str, str] = {}  # where each listens

    def without(self, nodes: Iterable[str]) -> View:
        """The same without some nodes."""
        gone = set(nodes)
        return View(
            {node: has for node, has in self.total.items() if node not in gone},
            {node: has for node, has in self.free.items() if node not in gone},
            {node: place for node, place in self.places.items() if node not in gone},
        )


def holds(offer: Amounts, need: Need) -> int:
    """How many tasks a node with so much can run at once; one a core where they need nothing."""
    wanted = need.amounts
    if not wanted:
        return max(1, int(offer.get("CPU", 1)))
    return int(min(offer.get(name, 0.0) / most + _GRAIN for name, most in wanted.items()))


def could_ever_hold(view: View, need: Need) -> bool:
    """Whether some node has what a task needs, even if others use it now."""
    return any(holds(offer, need) for offer in view.total.values())


def seats_to_add(view: View, need: Need, *, starting: Mapping[str, int], most: int) -> list[str]:
    """The nodes that get one more station each, at most so many in all; the emptiest first.

    Those that start may not be counted in what is free yet; the next look will tell.
    """
    room = {node: holds(offer, need) - starting.get(node, 0) for node, offer in view.free.items()}
    found: list[str] = []
    while len(found) < most:
        node = max(room, key=lambda node: room[node], default=None)
        if node is None or room[node] < 1:
            break
        room[node] -= 1
        found.append(node)
    return found


def shortage(
    view: View, need: Need, *, ready: int, starting: int, wanted: int, asked: bool
) -> str | None:
    """What to tell a user whose workers have not all started; None where they have.

    A worker that was asked for may still wait for room: Ray's view of what is free lags behind.
    """
    if not ready:
        waiting = f"Ray to start {starting:,} workers" if starting else "room on the Ray cluster"
        return f"waiting for {waiting}: a task needs {need}, and {_free(view, need)}"
    have = ready + starting
    if asked and have < wanted:
        return f"the Ray cluster has room for {have} of {wanted} workers: a task needs {need}"
    return None


def _free(view: View, need: Need) -> str:
    """How much of what a task needs is unused: `0 of 6 CPU are free`."""
    words = []
    for name in need.amounts:
        total = sum(offer.get(name, 0.0) for offer in view.total.values())
        free = sum(offer.get(name, 0.0) for offer in view.free.values())
        words.append(f"{shown({name: free}).split()[0]} of {shown({name: total})}")
    return " and ".join(words) + " are free" if words else "no node has a free place"


def largest(view: View, need: Need) -> str:
    """The node that comes closest to what a task needs, in words."""
    if not view.total:
        return "there is no node"
    wanted = need.amounts

    def share(offer: Amounts) -> float:
        return sum(min(1.0, offer.get(name, 0.0) / most) for name, most in wanted.items())

    best = max(view.total.values(), key=share)
    return f"the node that comes closest has {shown(best)}"


def shown(amounts: Amounts) -> str:
    """Amounts for people: `4 CPU, 1 GPU, 2.1 GB memory`."""
    words = []
    for name in sorted(amounts, key=lambda name: (name not in ("CPU", "GPU", "memory"), name)):
        if name == "memory":
            words.append(f"{amounts[name] / 1e9:.2g} GB memory")
        elif not name.startswith(UNSHOWN):
            words.append(f"{amounts[name]:g} {name}")
    return ", ".join(words)
