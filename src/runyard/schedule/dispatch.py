"""What goes to which lane, and when.

Most batches are spread over the lanes in chunks. Listed tasks, which have priorities, begin exactly
in order: nothing is handed to a lane before everything that went to others has begun.
"""

from __future__ import annotations

from runyard.attempt.wire import Item
from runyard.backends.base import Backend
from runyard.schedule import policy
from runyard.schedule.agenda import Agenda, Piece
from runyard.schedule.flights import Flights
from runyard.schedule.judge import Judge
from runyard.schedule.order import Order
from runyard.schedule.recorder import Recorder
from runyard.schedule.submissions import Submissions
from runyard.schedule.supply import Supply


class Dispatch:
    """Hands tasks from the agenda to lanes."""

    def __init__(
        self,
        *,
        backend: Backend,
        agenda: Agenda,
        flights: Flights,
        supply: Supply,
        recorder: Recorder,
        judge: Judge,
        mean: policy.Mean,
        intake: Submissions | None,
        order: Order | None,
    ) -> None:
        self._backend = backend
        self._agenda = agenda
        self._flights = flights
        self._supply = supply
        self._recorder = recorder
        self._judge = judge
        self._mean = mean
        self._intake = intake
        self._order = order  # None: the lanes share tasks as they come
        self._alone = False  # one that goes alone is under way

    def fill(self, budget: float) -> None:
        """Give lanes that have room something to do, at most so many tasks."""
        if self._agenda.alone:
            free = (lane for lane in self._flights.with_room(0) if self._backend.room(lane))
            if not self._flights and (lane := next(free, None)) is not None:
                held, item = self._agenda.alone.popleft()
                self._flights.fly(lane, 0, 0, [item], held)
                self._alone = True
            return
        if self._alone and self._flights:
            return
        self._alone = False
        if self._order is None:
            self._spread(budget)
        else:
            self._fill_in_order(self._order, budget)

    @property
    def awaits(self) -> bool:
        """Whether a lane is free and gets something in a moment."""
        return self._order is not None and self._order.awaits

    def _spread(self, budget: float) -> None:
        """One chunk for each lane in turn."""
        mean, backend = self._mean, self._backend
        depth = policy.lane_depth(mean.value, backend.lanes, backend.depth, backend.distance)
        unclaimed = self._supply.unclaimed
        for level in range(depth):
            for number in self._flights.with_room(level):
                if not self._agenda.ready or budget < 1:
                    return
                room = backend.room(number)
                if room:
                    left = self._agenda.ready + unclaimed
                    size = policy.chunk_size(
                        mean.value, mean.count, left, backend.lanes, depth, backend.distance
                    )
                    budget -= self._send(number, int(min(size, room, budget)))

    def _fill_in_order(self, order: Order, budget: float) -> None:
        """What is next, to the one lane where it begins after all that was sent before."""
        mean, backend = self._mean, self._backend
        together = policy.travels_together(mean.value, backend.distance)
        depth = backend.depth if together else 1
        order.awaits = False
        if self._recorder.next_free is not None:
            order.recall(self._recorder.next_free)
        while self._agenda.ready and budget >= 1 and self._is_free_to_go():
            lane = order.lane(depth)
            if lane is None:
                return
            size = 1
            if together:
                left = self._agenda.ready + self._supply.unclaimed
                size = policy.chunk_size(mean.value, mean.count, left, 1, depth, backend.distance)
            budget -= self._send(lane, int(min(size, backend.room(lane), budget)))

    def _is_free_to_go(self) -> bool:
        """Whether nothing elsewhere comes before what is next here.

        The order of the questions matters: a claim that has just come in is news.
        """
        return not self._supply.is_overtaken and self._recorder.is_current

    def _send(self, lane: int, size: int) -> int:
        while (piece := self._agenda.take(size)) is not None:
            items = self._allowed(piece)
            if items != []:
                self._flights.fly(lane, piece.low, piece.high, items, piece.held)
                return len(items) if items is not None else piece.high - piece.low
        return 0

    def _allowed(self, piece: Piece) -> list[Item] | None:
        """Those of a piece that whoever handed them in still wants."""
        if piece.items is None or self._intake is None:
            return piece.items
        allowed = []
        for item in piece.items:
            if self._intake.may_start(item.task):
                allowed.append(item)
            else:
                self._judge.cancelled(piece.held, item.task)
        return allowed
