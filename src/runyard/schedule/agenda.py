"""What this engine may start: priority first, then first in, first out; retries when due."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from itertools import count

from runyard.attempt.wire import Item
from runyard.store.rows import Claim


class Held:
    """A claim, and how many of its tasks have no outcome yet."""

    __slots__ = ("claim", "left")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.left = claim.size


class Piece:
    """Tasks of one claim that can travel together: a range of first attempts, or items."""

    __slots__ = ("held", "high", "items", "low")

    def __init__(self, held: Held, low: int, high: int, items: list[Item] | None) -> None:
        self.held = held
        self.low = low
        self.high = high
        self.items = items


class Agenda:
    """Tasks that wait for a lane. Taking and adding cost O(log n)."""

    def __init__(self) -> None:
        self._ranges: deque[tuple[Held, int, int]] = deque()
        self._items: list[tuple[int, int, Held, Item]] = []
        self._later: list[tuple[float, int, int, Held, Item]] = []
        self._serial = count()
        self._in_ranges = 0

    @property
    def ready(self) -> int:
        """How many could start now."""
        return self._in_ranges + len(self._items)

    @property
    def waiting(self) -> int:
        """How many wait for their retry."""
        return len(self._later)

    def next_due(self) -> float | None:
        """When the next retry is due."""
        return self._later[0][0] if self._later else None

    def add_range(self, held: Held, low: int, high: int) -> None:
        """Numbers at their first attempt."""
        if high > low:
            self._ranges.append((held, low, high))
            self._in_ranges += high - low

    def add_item(self, held: Held, item: Item, priority: int) -> None:
        """One task with its attempt number."""
        heapq.heappush(self._items, (-priority, next(self._serial), held, item))

    def add_back(self, held: Held, items: Iterable[Item], priority: int) -> None:
        """Tasks that were taken and not started: they come before others of their priority."""
        for item in items:
            heapq.heappush(self._items, (-priority, item.task - (1 << 62), held, item))

    def add_later(self, due: float, held: Held, item: Item, priority: int) -> None:
        """A retry."""
        heapq.heappush(self._later, (due, next(self._serial), priority, held, item))

    def wake_due(self, now: float) -> None:
        """Let retries whose time has come stand in line."""
        while self._later and self._later[0][0] <= now:
            _, _, priority, held, item = heapq.heappop(self._later)
            self.add_item(held, item, priority)

    def take(self, most: int) -> Piece | None:
        """The next tasks, at most so many, all of one claim."""
        if self._items:
            held = self._items[0][2]
            items: list[Item] = []
            while self._items and len(items) < most and self._items[0][2] is held:
                items.append(heapq.heappop(self._items)[3])
            return Piece(held, 0, 0, items)
        if not self._ranges:
            return None
        held, low, high = self._ranges.popleft()
        cut = min(high, low + most)
        if cut < high:
            self._ranges.appendleft((held, cut, high))
        self._in_ranges -= cut - low
        return Piece(held, low, cut, None)

    def remove(self, tasks: set[int]) -> list[tuple[Held, Item]]:
        """Take these out, wherever they wait."""
        found = [(entry[2], entry[3]) for entry in self._items if entry[3].task in tasks]
        found += [(entry[3], entry[4]) for entry in self._later if entry[4].task in tasks]
        if found:
            self._items = [entry for entry in self._items if entry[3].task not in tasks]
            self._later = [entry for entry in self._later if entry[4].task not in tasks]
            heapq.heapify(self._items)
            heapq.heapify(self._later)
        for _ in range(len(self._ranges)):
            held, low, high = self._ranges.popleft()
            self._in_ranges -= high - low
            for number in sorted(n for n in tasks if low <= n < high):
                self.add_range(held, low, number)
                found.append((held, Item(number, 0, held.claim.tasks.get(number))))
                low = number + 1
            self.add_range(held, low, high)
        return found
