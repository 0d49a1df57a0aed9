"""The loop: feeds the queue, sends chunks, takes reports in, and knows when a run is over.

feeding ──▶ queue ──▶ dispatch ──chunks──▶ backend ──reports──▶ lifecycle ──▶ writer ──▶ store
"""

from __future__ import annotations

import math

from runyard import clock, faults
from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import LossCause, Report, StateChange
from runyard.events import Progress
from runyard.schedule import policy
from runyard.schedule.dispatch import Dispatch
from runyard.schedule.ending import End
from runyard.schedule.feeding import ClaimFeeder
from runyard.schedule.lifecycle import Lifecycle
from runyard.schedule.retries import AttemptHistory
from runyard.schedule.run import Run
from runyard.schedule.strict_order import MOMENT
from runyard.schedule.writer import Writer
from runyard.store.rows import Claim

TICK = 0.05
PROGRESS_SECONDS = 0.1


class Loop:
    """Runs one batch on one backend until it ends."""

    def __init__(self, run: Run, writer: Writer, history: AttemptHistory) -> None:
        self._run = run
        self._writer = writer
        self._mailbox = writer.mailbox
        self._tasks = Lifecycle(run, writer, history)
        self._feeder = ClaimFeeder(run, writer, self._tasks)
        self._dispatch = Dispatch(run, writer, self._tasks, self._feeder)
        self._rate = policy.RateEstimate()
        self._ending: End | None = None  # nothing new is started
        self._at_once = False  # what runs is not waited for
        self._is_drained = False  # lanes were told to start nothing more
        self._began = clock.monotonic()
        self._ticked = 0.0
        self._shown = 0.0  # when progress was last published
        self._told_unready = False  # the user knows that the store takes nothing
        self._told_change = False  # the user knows that tasks change their worker
        self._failure: SystemFailure | None = None  # of Runyard's own, in a lane

    def stop(self, end: End = End.STOPPED) -> None:
        """Start nothing more, and finish what runs. Callable from a signal handler."""
        if self._ending is None:
            self._ending = end
        self._run.backend.wake()

    @property
    def running(self) -> int:
        """How many lanes have something to do."""
        return self._tasks.in_flight.busy

    def unfinished_claims(self) -> list[Claim]:
        """Claims that still hold tasks, to be released."""
        return self._feeder.unfinished_claims()

    def run(self) -> End:
        """Run until every task has its outcome, or something ends the run."""
        while True:
            self._feed()
            self._obey_requests()
            if self._mailbox.error is not None:
                raise self._mailbox.error
            self._check_for_end()
            if self._is_over():
                self._publish_notices()
                self._run.publish(self.progress())
                if self._failure is not None:
                    raise self._failure.error()
                return self._ending or End.FINISHED
            if self._ending is None:
                self._tasks.ready.release_due(clock.monotonic())
                self._send()
            for message in self._run.backend.poll(self._patience()):
                if isinstance(message, Report):
                    self._receive(message)
                else:
                    self._tasks.lost(message)
            self._tick()

    # Tasks in, reports out

    def _feed(self) -> None:
        submissions = self._run.submissions
        if submissions is not None and submissions.aborted and self._ending is None:
            self.stop(End.CANCELLED)
        if self._ending is not None:
            self._feeder.take_in()
        elif self._feeder.refill():
            self._tasks.cancelling.remove_waiting()

    def _send(self) -> None:
        """Give lanes something to do, unless what they bring could not be kept."""
        if self._writer.is_behind or self._mailbox.unready is not None:
            return
        most = self._may_start()
        if most >= 1:
            self._dispatch.fill(most)

    def _may_start(self) -> float:
        """How many tasks the budget allows; when it allows none and none runs, the run ends."""
        budget = self._run.budget
        if budget is None:
            return math.inf
        elapsed = clock.monotonic() - self._began
        elapsed -= clock.pauses.within(elapsed)
        budget.recorded(self._mailbox.counts.done)
        left = budget.room(self._tasks.in_flight.tasks, elapsed, self._run.backend.lanes)
        is_idle = left < 1 and not self._tasks.in_flight
        if is_idle and self._mailbox.counts.pending > self._writer.backlog:
            self._ending = End.LIMIT if budget.is_at_limit else End.BUDGET
            if self._ending is End.BUDGET:
                self._run.warn(f"the budget is used up ({budget.reached(elapsed)})")
        return left

    def _receive(self, report: Report) -> None:
        faults.point("result")
        sent = self._tasks.in_flight.get(report.chunk)
        if sent is None:
            return
        if not self._run.batch.listed:  # followers in a list come with the commit
            self._feeder.look_again()
        self._warn_of_change(report.change)
        self._note_failure(report.system_failure)
        self._tasks.reported(sent, report)

    def _warn_of_change(self, change: StateChange | None) -> None:
        """Say once that tasks of this batch change what all tasks of a worker share."""
        if change is None or self._told_change:
            return
        self._told_change = True
        then = "it was restored" if change.is_undone else "its worker was replaced"
        self._run.warn(
            f"task {change.task} changed state that all tasks of a worker share ({change.what}); "
            f"{then}, and tasks that may have been affected were rerun"
        )

    def _note_failure(self, failure: SystemFailure | None) -> None:
        """End the run, once what runs has ended, where a lane can't run tasks at all."""
        if failure is None or self._failure is not None:
            return
        self._failure = failure
        self._run.warn(f"no new tasks are started: {failure.error().message}")
        self.stop()

    # What others ask

    def _obey_requests(self) -> None:
        while self._mailbox.requests:
            requests = self._mailbox.requests.popleft()
            if requests.stop:
                self._at_once |= requests.stop > 1
                self.stop()
            elif requests.preempted:
                self.stop(End.YIELDED)
            self._feeder.look_again()
            self._tasks.cancelling.request(set(requests.cancel))
        while self._mailbox.refused:
            self._tasks.refused(self._mailbox.refused.popleft())
        unready = self._mailbox.unready
        if unready is not None and not self._told_unready:
            self._run.warn(unready.waiting)
        self._told_unready = unready is not None

    # The end

    def _check_for_end(self) -> None:
        budget = self._run.budget
        if self._ending is None:
            if self._mailbox.counts.control == "cancel":
                self._ending = End.CANCELLED
            elif self._tasks.has_failed_fast:
                self._ending = End.FAIL_FAST
            elif self._tasks.spent is not None:
                self._ending = End.BUDGET
                self._run.warn(f"the budget is used up ({self._tasks.spent})")
            elif self._feeder.is_outgrown:
                self._ending = End.OUTGROWN
            elif budget is not None and budget.missing():
                self._ending = End.METRIC
            elif self._run.preempted is not None and self._has_nothing_to_do():
                self._ending = End.YIELDED
        if self._ending is not None and (not self._is_drained or self._at_once):
            self._drain()
            self._is_drained, self._at_once = True, False

    def _has_nothing_to_do(self) -> bool:
        has_tasks = self._tasks.in_flight or self._tasks.ready or self._writer.backlog
        return self._feeder.is_dry and not has_tasks

    def _is_over(self) -> bool:
        submissions, writer = self._run.submissions, self._writer
        stays = self._ending is None and submissions is not None and not submissions.is_done
        if stays:
            return False
        is_all_sent = not self._tasks.ready.size and not self._feeder.elsewhere
        if is_all_sent or not (self._tasks.in_flight or self._tasks.ready.size):
            writer.hurry()
        if self._tasks.in_flight:
            return False
        if self._ending is not None:
            return writer.is_done and not self._feeder.is_waiting
        if not self._run.reads_store:
            return writer.backlog == 0
        return self._mailbox.counts.pending == 0 and writer.is_done

    def _drain(self) -> None:
        """Let no lane start another task; end what runs, where the end can't wait for it."""
        self._writer.takes_followers = False
        self._tasks.in_flight.hold()
        self._end_at_once()
        if self._ending is End.CANCELLED:
            self._writer.cancel_rest()

    def _end_at_once(self) -> None:
        if self._at_once or self._ending in (End.DEADLINE, End.CANCELLED):
            cause = LossCause.CANCELLED if self._ending is End.CANCELLED else LossCause.DEADLINE
            self._tasks.in_flight.end_running(cause, "the batch was ended")

    # Time passes

    def _patience(self) -> float:
        """How long to wait for the next report."""
        if self._dispatch.is_about_to_send:
            return MOMENT
        due = self._tasks.ready.next_due
        return TICK if due is None else max(0.0, min(TICK, due - clock.monotonic()))

    def _tick(self) -> None:
        now = clock.monotonic()
        if now - self._ticked < TICK / 2:
            return
        self._ticked = now
        self._publish_notices()
        deadline, elapsed = self._run.options.deadline, self._run.elapsed + now - self._began
        if deadline is not None and elapsed > deadline and self._ending is None:
            self._ending = End.DEADLINE
        if self._ending is not None:  # repeated: what a far lane runs may show later
            self._end_at_once()
        self._tasks.in_flight.watch()
        if self._tasks.in_flight.retry_take_back():
            self._tasks.cancelling.remove_waiting()
        self._writer.running = self._tasks.in_flight.busy
        if now - self._shown > PROGRESS_SECONDS:
            self._shown = now
            progress = self.progress()
            self._writer.rate = progress.rate
            self._run.publish(progress)

    def _publish_notices(self) -> None:
        while self._run.backend.notices:
            self._run.warn(self._run.backend.notices.popleft())

    def progress(self) -> Progress:
        """Where the batch stands."""
        counts, now, budget = self._mailbox.counts, clock.monotonic(), self._run.budget
        self._rate.update(now, counts.done)
        return Progress(
            batch=self._run.name,
            total=counts.total,
            completed=counts.completed,
            failed=counts.failed,
            cancelled=counts.cancelled,
            running=self._tasks.in_flight.busy,
            retrying=self._tasks.ready.delayed,
            workers=self._run.backend.lanes,
            rate=self._rate.rate,
            eta=self._rate.eta(counts.pending),
            elapsed=now - self._began,
            metric=None if budget is None else budget.shown,
        )
