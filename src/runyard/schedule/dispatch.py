"""Which lane gets the next tasks, how many, and when."""

from __future__ import annotations

from runyard.schedule import policy
from runyard.schedule.feeding import ClaimFeeder
from runyard.schedule.lifecycle import Lifecycle
from runyard.schedule.run import Run
from runyard.schedule.strict_order import StrictStartOrder
from runyard.schedule.writer import Writer


class Dispatch:
    """Sends tasks from the queue to lanes that have room."""

    def __init__(self, run: Run, writer: Writer, tasks: Lifecycle, feeder: ClaimFeeder) -> None:
        self._run = run
        self._writer = writer
        self._tasks = tasks
        self._feeder = feeder
        self._order = StrictStartOrder(run, tasks.in_flight) if run.strict_order else None
        self._one_runs_alone = False

    @property
    def is_about_to_send(self) -> bool:
        """Whether a lane is free and gets something in a moment."""
        return self._order is not None and self._order.is_about_to_send

    def fill(self, most: float) -> None:
        """Send up to `most` tasks to lanes that have room."""
        tasks, backend = self._tasks, self._run.backend
        if tasks.ready.alone:
            free = (lane for lane in tasks.in_flight.with_room(0) if backend.room(lane))
            if not tasks.in_flight and (lane := next(free, None)) is not None:
                tasks.send_alone(lane)
                self._one_runs_alone = True
            return
        if self._one_runs_alone and tasks.in_flight:
            return
        self._one_runs_alone = False
        if self._order is None:
            self._spread(most)
        else:
            self._fill_in_order(self._order, most)

    def _spread(self, most: float) -> None:
        """One chunk for each lane in turn."""
        tasks, backend, estimate = self._tasks, self._run.backend, self._tasks.estimate
        depth = policy.lane_depth(estimate.value, backend.lanes, backend.depth, backend.distance)
        unclaimed = self._feeder.unclaimed
        for chunks in range(depth):
            for lane in tasks.in_flight.with_room(chunks):
                if not tasks.ready.size or most < 1:
                    return
                room = backend.room(lane)
                if room:
                    size = policy.chunk_size(
                        estimate.value, estimate.count, tasks.ready.size + unclaimed,
                        backend.lanes, depth, backend.distance,
                    )  # fmt: skip
                    most -= tasks.send(lane, int(min(size, room, most)))

    def _fill_in_order(self, order: StrictStartOrder, most: float) -> None:
        """The next tasks, to the one lane where they start after all that were sent before."""
        tasks, backend, estimate = self._tasks, self._run.backend, self._tasks.estimate
        is_batched = policy.is_batched_in_order(estimate.value, backend.distance)
        depth = backend.depth if is_batched else 1
        order.is_about_to_send = False
        if self._writer.mailbox.next_free is not None:
            order.take_back_after(self._writer.mailbox.next_free)
        while tasks.ready.size and most >= 1 and self._is_next():
            lane = order.lane(depth)
            if lane is None:
                return
            size = 1
            if is_batched:
                left = tasks.ready.size + self._feeder.unclaimed
                size = policy.chunk_size(
                    estimate.value, estimate.count, left, 1, depth, backend.distance
                )
            most -= tasks.send(lane, int(min(size, backend.room(lane), most)))

    def _is_next(self) -> bool:
        """Whether no task elsewhere ranks before the first one here.

        The order of the two questions matters: a claim that has just come in is a change, too.
        """
        return not self._feeder.is_overtaken and self._writer.is_current
