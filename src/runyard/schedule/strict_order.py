"""Where tasks must start in order: which lane gets the next ones, and when.

Nothing is sent to a lane before everything that was sent to others has started.
"""

from __future__ import annotations

from time import perf_counter, sleep

from runyard.attempt.lane_status import IDLE
from runyard.schedule.in_flight import InFlight, SentChunk
from runyard.schedule.ready_queue import Rank
from runyard.schedule.run import Run

MOMENT = 0.001
"""How long to watch a just-sent task for its start."""

GLANCE = 0.00005
"""How often to look during that time."""

LOADING_SECONDS = 0.25
"""How long a lane that loads what its first task calls may hold up the others."""


class StrictStartOrder:
    """Knows whether the chunk that was sent last has started."""

    def __init__(self, run: Run, in_flight: InFlight) -> None:
        self._run = run
        self._in_flight = in_flight
        self.is_about_to_send = False  # a lane is free and waits for the last chunk to start

    def lane(self, depth: int) -> int | None:
        """The lane where the next tasks start after all that were sent before; None: not yet.

        It is the lane of the last chunk, where that has not started, otherwise any free one.
        """
        last, room = self._in_flight.last, self._run.backend.room
        self.is_about_to_send = False
        if depth > 1 and last is not None and not self._has_started(last):
            has_room = len(self._in_flight.of(last.lane)) < depth and room(last.lane)
            return last.lane if has_room else None
        free = next((lane for lane in self._in_flight.with_room(0) if room(lane)), None)
        if free is not None and last is not None and not self._starts(last):
            self.is_about_to_send = True
            return None
        return free

    def take_back_after(self, rank: Rank) -> None:
        """Take back what has not started and ranks after this."""
        last = self._in_flight.last
        if last is None or self._has_started(last) or last.claim.rank(last.last_task) <= rank:
            return
        self._in_flight.take_back(last.lane)

    def _starts(self, sent: SentChunk) -> bool:
        """Whether all of it has started, now or within a moment."""
        until = perf_counter() + MOMENT
        while not self._has_started(sent):
            if sent.left > 1 or perf_counter() > until:
                return False
            sleep(GLANCE)
        return True

    def _has_started(self, sent: SentChunk) -> bool:
        """Whether its last task has started; a lane that takes nothing is not waited for."""
        if self._in_flight.get(sent.chunk.id) is not sent:
            return True
        if self._run.backend.distance > 1:  # too far away to see in time
            return sent.left <= 1
        status = self._run.lanes.read(sent.lane)
        if status.task == IDLE:
            return perf_counter() - sent.sent > LOADING_SECONDS
        return status.chunk == sent.chunk.id and status.task == sent.last_task
