"""The one loop: sends chunks to lanes, takes reports in, and acts on what `policy` decides.

agenda ──chunks──▶ backend ──reports──▶ loop ──rows──▶ recorder ──▶ store
   ▲                                     │
   └──── retries, what was taken back ◀──┘
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from runyard import clock, faults
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import Change, Emission, Failure, Loss, LossCause, Report
from runyard.backends.base import Backend
from runyard.events import (
    Event,
    Notice,
    Progress,
    ResultsRefused,
    TaskEmitted,
    WorkerLost,
)
from runyard.schedule import policy
from runyard.schedule.agenda import Agenda, Held
from runyard.schedule.commit import Wishes
from runyard.schedule.dispatch import Dispatch
from runyard.schedule.flights import Flight, Flights
from runyard.schedule.judge import Judge
from runyard.schedule.order import MOMENT, Order
from runyard.schedule.recorder import Recorder
from runyard.schedule.submissions import Submissions
from runyard.schedule.supply import Supply
from runyard.spec.codec import decode
from runyard.spec.outcome import Printed, Rows
from runyard.spec.task import Options
from runyard.store.rows import Claim

if TYPE_CHECKING:
    from runyard.schedule.budget import Budget

TICK = 0.05
PROGRESS_SECONDS = 0.1


class End(enum.Enum):
    """Why a run ended."""

    FINISHED = "finished"
    STOPPED = "stopped"  # somebody asked; resumable
    INTERRUPTED = "interrupted"  # a signal; resumable
    DEADLINE = "deadline"  # resumable
    FAIL_FAST = "fail-fast"  # resumable
    BUDGET = "budget"  # resumable
    LIMIT = "limit"  # as many tasks as this run was asked for; resumable
    METRIC = "missing metric"  # tasks don't return what the budget is about; resumable
    CANCELLED = "cancelled"
    YIELDED = "yielded"  # others have what is left, or something more urgent waits
    OUTGROWN = "outgrown"  # the batch has grown, and only an engine that starts anew knows how


class Loop:
    """Runs one batch on one backend until it ends."""

    def __init__(
        self,
        *,
        name: str,
        options: Options,
        backend: Backend,
        lane_status: LaneStatusFile,
        agenda: Agenda,
        judge: Judge,
        recorder: Recorder,
        publish: Callable[[Event], None],
        history: dict[int, tuple[int, int]],
        meter: Budget | None = None,
        intake: Submissions | None = None,
        spent: float = 0.0,
        leaves: bool = False,
        listed: bool = False,
        in_order: bool = False,
    ) -> None:
        self._name = name
        self._options = options
        self._backend = backend
        self._agenda = agenda
        self._judge = judge
        self._recorder = recorder
        self._publish = publish
        self._meter = meter
        self._intake = intake
        self._spent = spent  # of the deadline
        self._leaves = leaves  # when there is nothing to claim
        self._flights = Flights(backend, lane_status, agenda, options, in_order=in_order)
        self._supply = Supply(
            name=name, priority=options.priority, lanes=backend.lanes,
            fragile=not backend.capabilities.survives_crash, listed=listed, agenda=agenda,
            flights=self._flights, recorder=recorder, history=history, intake=intake,
        )  # fmt: skip
        self._mean = policy.Mean()
        self._lanes = Dispatch(
            backend=backend, agenda=agenda, flights=self._flights, supply=self._supply,
            recorder=recorder, judge=judge, mean=self._mean, intake=intake,
            order=Order(backend, lane_status, self._flights) if in_order else None,
        )  # fmt: skip
        self._pace = policy.Pace()
        self._ending: End | None = None
        self._began = clock.monotonic()
        self._shown = 0.0
        self._ticked = 0.0
        self._at_once = False  # a stop does not wait for what runs
        self._drained = False  # nothing more is started
        self._waits = False  # for the store
        self._told_of_change = False
        self._trouble: SystemFailure | None = (
            None  # of a lane's own, for which nothing more is started
        )

    def stop(self, end: End = End.STOPPED) -> None:
        """Finish what is running, start nothing more. Callable from a signal handler."""
        if self._ending is None:
            self._ending = end
        self._backend.wake()

    @property
    def running(self) -> int:
        """How many lanes have something to do."""
        return self._flights.busy

    def run(self) -> End:
        """Until every task has its outcome, or something ends the run."""
        while True:
            self._take_in()
            self._see_wishes()
            if self._recorder.error is not None:
                raise self._recorder.error
            self._see_the_end()
            if self._is_over():
                self._publish(self.progress())
                if self._trouble is not None:
                    raise self._trouble.error()
                return self._ending or End.FINISHED
            if self._ending is None:
                self._agenda.wake_due(clock.monotonic())
                self._dispatch()
            for news in self._backend.poll(self._patience()):
                if isinstance(news, Report):
                    self._take_report(news)
                else:
                    self._take_loss(news)
            self._tick()

    def _see_the_end(self) -> None:
        if self._recorder.counts.control == "cancel" and self._ending is None:
            self._ending = End.CANCELLED
        if self._judge.has_had_enough and self._ending is None:
            self._ending = End.FAIL_FAST
        if self._supply.outgrown and self._ending is None:
            self._ending = End.OUTGROWN
        if self._meter is not None and self._ending is None and self._meter.missing():
            self._ending = End.METRIC
        if self._leaves and self._ending is None and self._has_nothing_to_do():
            self._ending = End.YIELDED
        if self._ending is not None and (not self._drained or self._at_once):
            self._drain()
            self._drained, self._at_once = True, False

    def leave(self) -> list[Claim]:
        """Claims that still hold tasks, to be given back."""
        return self._supply.leave()

    def _is_over(self) -> bool:
        stays = self._ending is None and self._intake is not None and not self._intake.is_done
        if self._flights or stays:
            return False
        if not self._agenda.ready:
            self._recorder.hurry()
        if self._ending is not None:
            return self._recorder.is_through and not self._supply.asked
        if self._intake is not None and self._intake.only:
            return self._recorder.backlog == 0
        return self._recorder.counts.pending == 0 and self._recorder.is_through

    def _has_nothing_to_do(self) -> bool:
        agenda = self._agenda
        waits = self._flights or agenda.ready or agenda.waiting or agenda.alone
        return self._supply.is_dry and not waits and not self._recorder.backlog

    def _patience(self) -> float:
        if self._lanes.awaits:
            return MOMENT
        due = self._agenda.next_due()
        return TICK if due is None else max(0.0, min(TICK, due - clock.monotonic()))

    # ReadyTask in

    def _take_in(self) -> None:
        if self._intake is not None and self._intake.aborted and self._ending is None:
            self.stop(End.CANCELLED)
        self._supply.lanes = self._backend.lanes
        if self._ending is not None:
            self._supply.take_last()
        elif self._supply.refill(self._mean.value) and self._judge.cancelling:
            self._cancel_waiting()

    def _dispatch(self) -> None:
        """Give lanes something to do, unless what they bring could not be kept."""
        if self._recorder.is_behind or self._recorder.unready is not None:
            return
        budget = self._budget_left()
        if budget < 1:
            return
        self._lanes.fill(budget)

    def _budget_left(self) -> float:
        """How many tasks may be started; none, and nothing under way, ends the run."""
        if self._meter is None:
            return math.inf
        elapsed = clock.monotonic() - self._began
        elapsed -= clock.pauses.within(elapsed)
        self._meter.recorded(self._recorder.counts.done)
        left = self._meter.room(self._flights.tasks, elapsed, self._backend.lanes)
        rests = left < 1 and not self._flights
        if rests and self._recorder.counts.pending > self._recorder.backlog:
            if self._meter.is_at_limit:
                self._ending = End.LIMIT
            else:
                self._ending = End.BUDGET
                self._warn(f"the budget is used up ({self._meter.reached(elapsed)})")
        return left

    def _warn(self, text: str) -> None:
        self._publish(Notice(batch=self._name, text=text, level="warning"))

    # ReadyTask out

    def _take_report(self, report: Report) -> None:
        faults.point("result")
        flight = self._flights.get(report.chunk)
        if flight is None:
            return
        self._supply.look_again()
        rows, failures, printed = self._in_time(report)
        ended = len(rows) + len(failures)
        if report.done > flight.kept or report.done != flight.done + ended:
            mine = {item.task for item in flight.rest(flight.done)}  # each task counts once
            rows = rows.only(lambda row: row.task in mine)
            failures = [failure for failure in failures if failure.row.task in mine]
            printed = [each for each in printed if each.task in mine]
        for emission in report.emitted:
            self._emitted(emission)
        self._tell_of_change(report.change)
        self._see_trouble(report.system_failure)
        if rows:
            self._recorder.rows(flight.held, rows, printed)
        for failure in failures:
            if self._intake is not None:
                self._intake.failed(failure)
            self._judge.failed(flight.held, failure)
        size = rows.size + sum(each.size for each in printed)
        self._mean.update(report.seconds, report.done - flight.done, size)
        if ended or report.finished:
            flight.done = max(flight.done, report.done)
        if report.finished:
            self._flights.land(flight)
            self._flights.put_back(flight, flight.done)
            if self._judge.cancelling and flight.done < flight.chunk.size:
                self._cancel_waiting()

    def _tell_of_change(self, change: Change | None) -> None:
        """Say once that tasks of this batch change what all of a worker's tasks share."""
        if change is None or self._told_of_change:
            return
        self._told_of_change = True
        then = "it was put back" if change.is_undone else "its worker was replaced"
        self._warn(
            f"task {change.task} changed what all tasks of a worker share ({change.what}); {then}, "
            "and what may have seen the change ran again"
        )

    def _see_trouble(self, trouble: SystemFailure | None) -> None:
        """What keeps a lane from running tasks ends the run, once what runs has ended."""
        if trouble is None or self._trouble is not None:
            return
        self._trouble = trouble
        self._warn(f"nothing more is started: {trouble.error().message}")
        if self._ending is None:
            self._ending = End.STOPPED

    def _in_time(self, report: Report) -> tuple[Rows, list[Failure], list[Printed]]:
        """What the report brings, where late tasks whose engine paused meanwhile have completed."""
        late = [f for f in report.failures if f.late is not None and self._flights.excuses(f.late)]
        if not late:
            return Rows(report.rows), report.failures, report.printed
        rows = [*report.rows, *(value for failure in late for value in failure.late or ())]
        printed = [*report.printed, *(f.printed for f in late if f.printed is not None)]
        return Rows(rows), [f for f in report.failures if f not in late], printed

    def _take_loss(self, loss: Loss) -> None:
        """A lane is gone: charge the task it was running, put its neighbours back."""
        running: Flight | None = None
        held = self._flights.of(loss.lane)
        if held and loss.cause is LossCause.WORKER_DIED:
            self._flights.suspect(held[0])
        for flight in held:
            position = flight.position(loss.task)
            self._flights.land(flight)
            if position is None:
                self._flights.put_back(flight, flight.done)
                continue
            running = flight
            others = [i for i in flight.rest(flight.done) if i.task != loss.task]
            for item in others:
                self._agenda.add_item(flight.held, item)
        task = loss.task if running is not None else None
        if loss.cause is LossCause.WORKER_DIED and (task is not None or not loss.clean_exit):
            self._publish(
                WorkerLost(batch=self._name, worker=loss.lane, reason=loss.reason, task=task)
            )
        if running is not None:
            self._judge.lost(running.held, loss)

    def _emitted(self, emission: Emission) -> None:
        self._publish(
            TaskEmitted(
                batch=self._name, task=emission.task, attempt=emission.attempt, at=emission.at,
                kind=emission.kind, data=decode(emission.data),
            )
        )  # fmt: skip

    # Watch

    def _tick(self) -> None:
        now = clock.monotonic()
        if now - self._ticked < TICK / 2:
            return
        self._ticked = now
        while self._backend.notices:
            self._warn(self._backend.notices.popleft())
        deadline = self._options.deadline
        elapsed = self._spent + now - self._began
        if deadline is not None and elapsed > deadline and self._ending is None:
            self._ending = End.DEADLINE
        if self._ending is not None:  # again and again: what a lane far away runs shows later
            self._end_at_once()
        self._flights.watch()
        if self._flights.ask_again() and self._judge.cancelling:
            self._cancel_waiting()
        self._recorder.running = self._flights.busy
        if now - self._shown > PROGRESS_SECONDS:
            self._shown = now
            progress = self.progress()
            self._recorder.rate = progress.rate
            self._publish(progress)

    # Ends

    def _drain(self) -> None:
        """Start nothing more; for an end that can't wait, end what runs."""
        self._flights.hold()
        self._end_at_once()
        if self._ending is End.CANCELLED:
            self._recorder.cancel_rest()

    def _end_at_once(self) -> None:
        """End what runs, where the end of the run can't wait for it."""
        if self._at_once or self._ending in (End.DEADLINE, End.CANCELLED):
            cause = LossCause.CANCELLED if self._ending is End.CANCELLED else LossCause.DEADLINE
            self._flights.end_running(cause, "the batch was ended")

    def _see_wishes(self) -> None:
        while self._recorder.wishes:
            wishes: Wishes = self._recorder.wishes.popleft()
            if wishes.stop:
                self._at_once |= wishes.stop > 1
                self.stop(End.STOPPED)
            elif wishes.leave:
                self.stop(End.YIELDED)
            self._supply.look_again()
            fresh = set(wishes.cancel) - self._judge.cancelling
            if fresh:
                self._cancel_tasks(fresh)
        unready = self._recorder.unready
        if unready is not None and not self._waits:
            self._publish(Notice(batch=self._name, text=unready.waiting, level="warning"))
        self._waits = unready is not None
        while self._recorder.refused:
            self._refuse(*self._recorder.refused.popleft())

    def _refuse(self, held: Held, tasks: list[int]) -> None:
        """Another engine has this claim, and what came of it here was too late."""
        self._agenda.drop(held)
        self._flights.drop(held)
        if not tasks:  # only what they printed
            return
        self._publish(ResultsRefused(batch=self._name, tasks=tasks))
        text = (
            f"{len(tasks)} results came too late and were refused: another engine has these tasks"
        )
        self._publish(Notice(batch=self._name, text=text, level="warning"))

    def _cancel_tasks(self, tasks: set[int]) -> None:
        self._judge.cancel(tasks)
        self._flights.cancel(tasks)
        self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        """Take what is to be cancelled out of the line."""
        for held, item in self._agenda.remove(self._judge.cancelling):
            self._judge.cancelled(held, item.task)

    def progress(self) -> Progress:
        """Where the batch stands."""
        counts, now = self._recorder.counts, clock.monotonic()
        self._pace.update(now, counts.done)
        shown = None if self._meter is None else self._meter.shown
        return Progress(
            batch=self._name,
            total=counts.total,
            completed=counts.completed,
            failed=counts.failed,
            cancelled=counts.cancelled,
            running=self._flights.busy,
            retrying=self._agenda.waiting,
            workers=self._backend.lanes,
            rate=self._pace.rate,
            eta=self._pace.eta(counts.pending),
            elapsed=now - self._began,
            metric=shown,
        )
