"""A chunk on its way through a lane."""

from __future__ import annotations

from runyard.attempt.wire import Chunk, Item
from runyard.schedule.agenda import Held


class Flight:
    """What was sent to a lane, and how far it has got."""

    __slots__ = ("chunk", "done", "held", "kept", "lane")

    def __init__(self, chunk: Chunk, held: Held, lane: int) -> None:
        self.chunk = chunk
        self.held = held
        self.lane = lane
        self.done = 0
        self.kept = chunk.size  # tasks from here on were taken back

    def rest(self, start: int) -> list[Item]:
        """What is left of it from a position on."""
        items = (self.chunk.item(at) for at in range(start, self.kept))
        return [self.held.item(item.task, item.attempt) for item in items]

    def position(self, task: int | None) -> int | None:
        """Where a task that has not ended stands in it."""
        tasks = self.chunk.tasks()
        if task is None or task not in tasks:
            return None
        found = tasks.index(task)
        return found if self.done <= found < self.kept else None
