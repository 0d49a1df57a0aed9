"""What this engine may start: by priority, then by number; retries when due."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from runyard.attempt.wire import Item
from runyard.spec.batch import ListedTask, settings_of
from runyard.spec.outcome import decoding_stored
from runyard.spec.status import Priority
from runyard.store.rows import Claim

Place = tuple[int, int]
"""Where a task stands among others: its priority below zero, then its number."""


class Held:
    """A claim, how many of its tasks have no outcome yet, and what they ask for."""

    __slots__ = (
        "_calls", "_priorities", "claim", "left", "lost", "priority", "retries", "timeouts",
    )  # fmt: skip

    def __init__(self, claim: Claim, priority: int = Priority.MEDIUM) -> None:
        self.claim = claim
        self.left = claim.size
        self.lost = False  # another engine has it
        self.priority = priority  # of those that ask for none
        self.retries: dict[int, int] = {}
        self.timeouts: dict[int, float] = {}
        self._priorities: dict[int, int] = {}
        self._calls: dict[int, bytes] = {}  # what tasks call that were handed in
        with decoding_stored(f"a task of batch {claim.batch}"):
            for task, content in claim.tasks.items():
                self._note(task, *settings_of(content))

    def enter(self, task: int, listed: ListedTask, content: bytes, call: bytes | None) -> None:
        """One more task, of a claim that grows."""
        self.left += 1
        self.claim.tasks[task] = content
        if call is not None:
            self._calls[task] = call
        self._note(task, listed.priority, listed.timeout, listed.retries)

    def forget(self, task: int) -> None:
        """One of its tasks has an outcome, and nothing is asked about it any more."""
        for notes in (self.claim.tasks, self._calls, self._priorities, self.retries, self.timeouts):
            notes.pop(task, None)

    def _note(self, task: int, priority: int, timeout: float | None, retries: int | None) -> None:
        self._priorities[task] = priority
        if retries is not None:
            self.retries[task] = retries
        if timeout is not None:
            self.timeouts[task] = timeout

    def item(self, task: int, attempt: int) -> Item:
        """One of its tasks, ready to travel."""
        return Item(task, attempt, self.claim.tasks.get(task), self._calls.get(task))

    def priority_of(self, task: int) -> int:
        """What one of its tasks asks for."""
        return self._priorities.get(task, self.priority)


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
        self._items: list[tuple[int, int, int, Held, Item]] = []
        self._later: list[tuple[float, int, Held, Item]] = []
        self.alone: deque[tuple[Held, Item]] = deque()  # may kill more than their own worker
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

    @property
    def next_place(self) -> Place | None:
        """Where the item stands that is taken next."""
        return self._items[0][:2] if self._items else None

    def add_range(self, held: Held, low: int, high: int) -> None:
        """Numbers at their first attempt."""
        if high > low and not held.lost:
            self._ranges.append((held, low, high))
            self._in_ranges += high - low

    def add_item(self, held: Held, item: Item) -> None:
        """One task with its attempt number; one that comes back stands where it stood."""
        if held.lost:
            return
        entry = -held.priority_of(item.task), item.task, next(self._serial), held, item
        heapq.heappush(self._items, entry)

    def add_later(self, due: float, held: Held, item: Item) -> None:
        """A retry."""
        if held.lost:
            return
        heapq.heappush(self._later, (due, next(self._serial), held, item))

    def add_alone(self, held: Held, item: Item) -> None:
        """A task that goes alone, so that it takes no neighbour with it."""
        if not held.lost:
            self.alone.append((held, item))

    def wake_due(self, now: float) -> None:
        """Let retries whose time has come stand in line."""
        while self._later and self._later[0][0] <= now:
            _, _, held, item = heapq.heappop(self._later)
            self.add_item(held, item)

    def take(self, most: int) -> Piece | None:
        """The next tasks, at most so many, all of one claim and one priority."""
        if self._items:
            priority, _, _, held, _ = self._items[0]
            items: list[Item] = []
            while self._items and len(items) < most and self._items[0][3] is held:
                if self._items[0][0] != priority:
                    break
                items.append(heapq.heappop(self._items)[4])
            return Piece(held, 0, 0, items)
        if not self._ranges:
            return None
        held, low, high = self._ranges.popleft()
        cut = min(high, low + most)
        if cut < high:
            self._ranges.appendleft((held, cut, high))
        self._in_ranges -= cut - low
        return Piece(held, low, cut, None)

    def drop(self, held: Held) -> None:
        """Another engine has this claim: nothing of it is started here."""
        held.lost = True
        self._items = [entry for entry in self._items if entry[3] is not held]
        self._later = [entry for entry in self._later if entry[2] is not held]
        self.alone = deque(each for each in self.alone if each[0] is not held)
        heapq.heapify(self._items)
        heapq.heapify(self._later)
        self._ranges = deque(each for each in self._ranges if each[0] is not held)
        self._in_ranges = sum(high - low for _, low, high in self._ranges)

    def remove(self, tasks: set[int]) -> list[tuple[Held, Item]]:
        """Take these out, wherever they wait."""
        found = [(entry[3], entry[4]) for entry in self._items if entry[1] in tasks]
        found += [(entry[2], entry[3]) for entry in self._later if entry[3].task in tasks]
        found += [each for each in self.alone if each[1].task in tasks]
        if found:
            self._items = [entry for entry in self._items if entry[1] not in tasks]
            self._later = [entry for entry in self._later if entry[3].task not in tasks]
            self.alone = deque(each for each in self.alone if each[1].task not in tasks)
            heapq.heapify(self._items)
            heapq.heapify(self._later)
        for _ in range(len(self._ranges)):
            held, low, high = self._ranges.popleft()
            self._in_ranges -= high - low
            for number in sorted(n for n in tasks if low <= n < high):
                self.add_range(held, low, number)
                found.append((held, held.item(number, 0)))
                low = number + 1
            self.add_range(held, low, high)
        return found
