"""Tasks that this engine holds and may start: by priority, then by number; retries when due."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from runyard.attempt.wire import Chunk, Item
from runyard.spec.batch import ListedTask, settings_of
from runyard.spec.outcome import Rows, decoding_stored
from runyard.spec.status import Priority
from runyard.store.rows import Claim

Rank = tuple[int, int]
"""Where a task stands among others: its priority, negated, then its number."""


class HeldClaim:
    """A claim of this engine's: how many of its tasks have no outcome, and their own settings."""

    __slots__ = (
        "_calls", "_priorities", "claim", "left", "lost", "priority", "retries", "timeouts",
    )  # fmt: skip

    def __init__(self, claim: Claim, priority: int = Priority.MEDIUM) -> None:
        self.claim = claim
        self.left = claim.size  # tasks without an outcome
        self.lost = False  # another engine has taken it over
        self.priority = priority  # of tasks without a priority of their own
        self.retries: dict[int, int] = {}  # of tasks with their own number of retries
        self.timeouts: dict[int, float] = {}  # of tasks with their own time limit
        self._priorities: dict[int, int] = {}
        self._calls: dict[int, bytes] = {}  # pickled calls of tasks submitted by this process
        with decoding_stored(f"a task of batch {claim.batch}"):
            for task, content in claim.tasks.items():
                self._set(task, *settings_of(content))

    def add(self, task: int, listed: ListedTask, content: bytes, call: bytes | None) -> None:
        """Add a task to the claim that holds this process's submissions."""
        self.left += 1
        self.claim.tasks[task] = content
        if call is not None:
            self._calls[task] = call
        self._set(task, listed.priority, listed.timeout, listed.retries)

    def forget(self, task: int) -> None:
        """Drop the settings of a task that has an outcome."""
        for each in (self.claim.tasks, self._calls, self._priorities, self.retries, self.timeouts):
            each.pop(task, None)

    def _set(self, task: int, priority: int, timeout: float | None, retries: int | None) -> None:
        self._priorities[task] = priority
        if retries is not None:
            self.retries[task] = retries
        if timeout is not None:
            self.timeouts[task] = timeout

    def item(self, task: int, attempt: int) -> Item:
        """One of its tasks as it travels to a lane."""
        return Item(task, attempt, self.claim.tasks.get(task), self._calls.get(task))

    def rank(self, task: int) -> Rank:
        """Where one of its tasks stands among others."""
        return -self._priorities.get(task, self.priority), task

    def is_awaited(self, rows: Rows) -> bool:
        """Whether other tasks come after one of these."""
        awaited = self.claim.awaited
        return bool(awaited) and not awaited.isdisjoint(rows.tasks)


class ReadyQueue:
    """Tasks that wait for a lane. Adding and taking cost O(log n)."""

    def __init__(self) -> None:
        self._ranges: deque[tuple[HeldClaim, int, int]] = deque()
        self._items: list[tuple[int, int, int, HeldClaim, Item]] = []
        self._delayed: list[tuple[float, int, HeldClaim, Item]] = []
        self.alone: deque[tuple[HeldClaim, Item]] = deque()  # each to run with no other task
        self._serial = count()  # breaks ties in the heaps
        self._in_ranges = 0

    def __bool__(self) -> bool:
        return bool(self.size or self._delayed or self.alone)

    @property
    def size(self) -> int:
        """How many tasks could start now."""
        return self._in_ranges + len(self._items)

    @property
    def delayed(self) -> int:
        """How many tasks wait for their next attempt."""
        return len(self._delayed)

    @property
    def next_due(self) -> float | None:
        """When the next delayed task may start."""
        return self._delayed[0][0] if self._delayed else None

    @property
    def first(self) -> Rank | None:
        """The rank of the item that is taken next."""
        return self._items[0][:2] if self._items else None

    def add_range(self, claim: HeldClaim, low: int, high: int) -> None:
        """Add the tasks [low, high) at their first attempt."""
        if high > low and not claim.lost:
            self._ranges.append((claim, low, high))
            self._in_ranges += high - low

    def add(self, claim: HeldClaim, item: Item) -> None:
        """Add one task; one that comes back has the rank that it had."""
        if not claim.lost:
            heapq.heappush(self._items, (*claim.rank(item.task), next(self._serial), claim, item))

    def add_delayed(self, due: float, claim: HeldClaim, item: Item) -> None:
        """Add one task that may not start before it is due."""
        if not claim.lost:
            heapq.heappush(self._delayed, (due, next(self._serial), claim, item))

    def add_alone(self, claim: HeldClaim, item: Item) -> None:
        """Add one task that runs while no other does."""
        if not claim.lost:
            self.alone.append((claim, item))

    def release_due(self, now: float) -> None:
        """Let delayed tasks start that are due."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, claim, item = heapq.heappop(self._delayed)
            self.add(claim, item)

    def take(self, most: int) -> tuple[HeldClaim, Chunk] | None:
        """The next tasks, up to `most`, all of one claim and one priority."""
        if self._items:
            priority, _, _, claim, _ = self._items[0]
            items: list[Item] = []
            while self._items and len(items) < most and self._items[0][3] is claim:
                if self._items[0][0] != priority:
                    break
                items.append(heapq.heappop(self._items)[4])
            return claim, Chunk(0, 0, 0, items)
        if not self._ranges:
            return None
        claim, low, high = self._ranges.popleft()
        cut = min(high, low + most)
        if cut < high:
            self._ranges.appendleft((claim, cut, high))
        self._in_ranges -= cut - low
        return claim, Chunk(0, low, cut)

    def drop(self, claim: HeldClaim) -> None:
        """Remove everything of a claim that another engine has taken over."""
        claim.lost = True
        self._items = [entry for entry in self._items if entry[3] is not claim]
        self._delayed = [entry for entry in self._delayed if entry[2] is not claim]
        self.alone = deque(entry for entry in self.alone if entry[0] is not claim)
        heapq.heapify(self._items)
        heapq.heapify(self._delayed)
        self._ranges = deque(entry for entry in self._ranges if entry[0] is not claim)
        self._in_ranges = sum(high - low for _, low, high in self._ranges)

    def remove(self, tasks: set[int]) -> list[tuple[HeldClaim, int]]:
        """Remove these tasks wherever they wait; those found, with their claims."""
        found = [(entry[3], entry[1]) for entry in self._items if entry[1] in tasks]
        found += [(entry[2], entry[3].task) for entry in self._delayed if entry[3].task in tasks]
        found += [(entry[0], entry[1].task) for entry in self.alone if entry[1].task in tasks]
        if found:
            self._items = [entry for entry in self._items if entry[1] not in tasks]
            self._delayed = [entry for entry in self._delayed if entry[3].task not in tasks]
            self.alone = deque(entry for entry in self.alone if entry[1].task not in tasks)
            heapq.heapify(self._items)
            heapq.heapify(self._delayed)
        for _ in range(len(self._ranges)):
            claim, low, high = self._ranges.popleft()
            self._in_ranges -= high - low
            for task in sorted(n for n in tasks if low <= n < high):
                self.add_range(claim, low, task)
                found.append((claim, task))
                low = task + 1
            self.add_range(claim, low, high)
        return found
