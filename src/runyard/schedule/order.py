"""Where tasks have to begin in order: which lane gets the next ones, and when."""

from __future__ import annotations

from time import perf_counter, sleep

from runyard.attempt.lane_status import IDLE, LaneStatusFile
from runyard.backends.base import Backend
from runyard.schedule.agenda import Place
from runyard.schedule.flights import Flight, Flights

MOMENT = 0.001
"""For so long a task that was just sent is watched until it begins,"""

GLANCE = 0.00005
"""so often."""

LOADING_SECONDS = 0.25
"""A lane that still loads what its first task calls does not hold up the others for longer."""


class Order:
    """Knows whether what was sent last has begun."""

    def __init__(self, backend: Backend, lane_status: LaneStatusFile, flights: Flights) -> None:
        self._backend = backend
        self._slots = lane_status
        self._flights = flights
        self.awaits = False  # a lane is free, and gets something once the last one has begun

    def lane(self, depth: int) -> int | None:
        """The lane where what is sent next begins after all that was sent before; None: not yet.

        Behind what was sent last, where that has not begun, else any that is free.
        """
        last, room = self._flights.last, self._backend.room
        self.awaits = False
        if depth > 1 and last is not None and not self._has_begun(last):
            has_room = len(self._flights.of(last.lane)) < depth and room(last.lane)
            return last.lane if has_room else None
        free = next((lane for lane in self._flights.with_room(0) if room(lane)), None)
        if free is not None and last is not None and not self._begins(last):
            self.awaits = True
            return None
        return free

    def recall(self, place: Place) -> None:
        """Take back what has not begun and comes after this place."""
        last = self._flights.last
        if last is not None and not self._has_begun(last):
            task = last.chunk.tasks()[last.kept - 1]
            if place < (-last.held.priority_of(task), task):
                self._flights.take_back(last.lane)

    def _begins(self, flight: Flight) -> bool:
        """Whether all of it has begun, or does in a moment."""
        until = perf_counter() + MOMENT
        while not self._has_begun(flight):
            if flight.kept - flight.done > 1 or perf_counter() > until:
                return False
            sleep(GLANCE)
        return True

    def _has_begun(self, flight: Flight) -> bool:
        """Whether the last task of it has begun; a lane that takes nothing is not waited for."""
        if self._flights.get(flight.chunk.id) is not flight:
            return True
        if self._backend.distance > 1:  # too far to see in time
            return flight.kept - flight.done <= 1
        note = self._slots.read(flight.lane)
        if note.task == IDLE:
            return perf_counter() - flight.sent > LOADING_SECONDS
        return note.chunk == flight.chunk.id and note.task == flight.chunk.tasks()[flight.kept - 1]
