"""`processes`: supervised worker processes. The default.

                       ┌───────────────────────── engine ──┐
                       │ selector: control, channels, wake │
                       └─┬──────────┬───────────┬──────────┘
              control    │          │ channel   │ channel
                      ┌──▼────┐  ┌──▼─────┐  ┌──▼─────┐
                      │warden ├─▶│worker 0│  │worker 1│    forked by the warden
                      └───────┘  └────────┘  └────────┘

One channel a worker. A worker that dies is replaced at once; what it noted last tells which task
that cost. Workers stay warm between the runs of one process (a crew), and end with it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from runyard import clock
from runyard.attempt.output import remove_spool, salvage
from runyard.attempt.slots import IDLE, Note, Slots
from runyard.attempt.wire import (
    Chunk,
    Job,
    Loss,
    Report,
    decode_report,
    encode_chunk,
    encode_job,
)
from runyard.backends import tree
from runyard.backends.base import Backend, Capabilities, starting
from runyard.backends.crew import Crew, close_crews, keep_crew, take_crew
from runyard.backends.lane import Lane
from runyard.backends.worker import CHUNK, JOB, MUTE, REST
from runyard.errors import BackendError
from runyard.spec.hash_seed import workers_seed

__all__ = ["ProcessesBackend", "close_crews"]

CUT_OFF_SECONDS = 1.0
"""How long a worker that closed its channel has to end by itself, which says why."""

STILLBORN_LIMIT = 10
"""So many workers in a row may die before one of them gets anything done."""


class ProcessesBackend(Backend):
    """One worker process a lane."""

    name = "processes"
    capabilities = Capabilities(
        hard_kill=True,
        memory_limit=True,
        own_directory=True,
        descriptor_capture=True,
        survives_crash=True,
    )
    decode = staticmethod(decode_report)
    """How a worker's report is read."""
    hash_seed = staticmethod(workers_seed)

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        """With an environment, its variables are set for the workers besides those there are."""
        super().__init__(lanes)
        self._environment = environment
        with starting():
            self._crew = take_crew(lanes, environment)
        self._job: Job | None = None
        self._frame = b""
        self._ready: list[Report | Loss] = []
        self._stillborn = 0
        self._closed = False

    def open(self, job: Job, slots: Slots) -> None:
        if self._crew.is_outdated(job.code):
            self._crew.release()
            self._crew = self._new_crew()
        self._job = job
        self._slots = slots
        self._frame = encode_job(job)
        for lane in self._crew.lanes:
            self._crew.write(lane, JOB, self._frame)

    def send(self, lane: int, chunk: Chunk) -> None:
        state = self._crew.lanes[lane]
        state.sent.append(chunk.id)
        state.tasks += chunk.size
        self._crew.write(state, CHUNK, encode_chunk(chunk))

    def room(self, lane: int) -> int:
        state = self._crew.lanes[lane]
        share = self._job.recycle if self._job else None
        if state.ending is not None or state.renewing:
            return 0
        if share is None:
            return sys.maxsize
        if state.tasks >= share and not state.sent:
            self.renew(lane)
            return 0
        return max(0, share - state.tasks)

    def poll(self, timeout: float) -> list[Report | Loss]:
        crew = self._crew
        ended: list[tuple[int, int]] = []
        for key, mask in crew.selector.select(0 if self._ready else timeout):
            if key.fileobj is crew.control:
                ended += crew.news()
            elif key.data is None:
                crew.calm()
            else:
                lane: Lane = key.data
                if mask & selectors.EVENT_WRITE:
                    crew.pump(lane)
                if mask & selectors.EVENT_READ:
                    self._read(lane)
        for number, status in ended:
            self._bury(crew.lanes[number], status)
        self._end_cut_off()
        if crew.is_without_warden():
            self._start_over()
        found, self._ready = self._ready, []
        return found

    def end(self, lane: int, note: Note, error: str, reason: str) -> None:
        state = self._crew.lanes[lane]
        if state.ending is None and self._slots.read(lane) == note:
            state.ending = note, error, reason
            self._crew.kill(state)

    def memory(self, lane: int) -> int | None:
        pid = self._crew.lanes[lane].pid
        return None if pid is None else tree.resident(pid)

    def wake(self) -> None:
        self._crew.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._crew.is_lost or any(lane.is_busy for lane in self._crew.lanes):
            self._crew.release()
        else:
            for lane in self._crew.lanes:
                self._crew.write(lane, REST)
            keep_crew(self._crew)
        if self._job is not None:
            for lane in self._crew.lanes:
                remove_spool(self._spool(lane.number))

    @property
    def pids(self) -> list[int]:
        return [lane.pid for lane in self._crew.lanes if lane.pid is not None]

    def _read(self, lane: Lane) -> bool:
        """Take in what the worker sent; False when there is nothing more to come now."""
        assert lane.channel is not None
        try:
            size = lane.channel.recv_into(self._crew.received)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        if not size:
            with contextlib.suppress(KeyError):
                self._crew.selector.unregister(lane.channel)
            lane.cut_off = lane.cut_off or time.monotonic()
            return False
        lane.incoming += self._crew.received[:size]
        for report in lane.frames(self.decode):
            self._stillborn = 0
            if report.finished and report.chunk in lane.sent:
                lane.sent.remove(report.chunk)
            self._ready.append(report)
        return True

    def _end_cut_off(self) -> None:
        """End workers that live on although their channels are closed: nobody hears them."""
        for lane in self._crew.lanes:
            if lane.cut_off is None or lane.pid is None or lane.asked is not None:
                continue
            if time.monotonic() - lane.cut_off > CUT_OFF_SECONDS:
                self._crew.kill(lane)

    def _bury(self, lane: Lane, status: int) -> None:
        """A worker has ended: take its last words, say what it cost, start the next one."""
        if lane.renewing and not lane.sent:
            self._restart(lane)
            return
        running = self._lose(lane, _death(status))
        self._note_birth(running, f"workers die as soon as they start: {_death(status)}")
        self._restart(lane)

    def _start_over(self) -> None:
        """The warden is gone, and its workers with it: say what that cost, start others.

        One of the tasks that ran may be what killed it, and which one can't be told.
        """
        crew = self._crew
        crew.end()
        ran = [lane for lane in crew.lanes if self._slots.read(lane.number).task != IDLE]
        for lane in crew.lanes:
            self._lose(lane, "the process that looks after the workers died", shared=len(ran) > 1)
        words = crew.last_words()
        crew.release()
        reason = "the process that looks after the workers dies as soon as it starts"
        self._note_birth(bool(ran), f"{reason}: {words}" if words else reason)
        self.notices.append(
            "the process that looks after the workers died; another one has taken its place"
        )
        self._crew = self._new_crew()
        for lane in self._crew.lanes:
            self._slots.clear(lane.number)
            self._crew.write(lane, JOB, self._frame)

    def _lose(self, lane: Lane, reason: str, *, shared: bool = False) -> bool:
        """Take a dead worker's last words and say what it cost; whether it was running a task."""
        while self._read(lane):
            pass
        note, error = self._slots.read(lane.number), "WorkerDied"
        if lane.ending is not None:
            meant, error, reason = lane.ending
            if meant != note:  # that task ended just in time, and this one is innocent
                note = note._replace(task=IDLE)
        running = note.task != IDLE
        printed = None
        if self._job is not None and running:
            spool, folder = self._spool(lane.number), Path(self._job.folder)
            printed = salvage(spool, folder, note.task, note.attempt)
        elif self._job is not None:
            remove_spool(self._spool(lane.number))
        seconds = note.seconds if running else 0.0
        self._ready.append(
            Loss(
                lane.number,
                lane.sent[0] if lane.sent else None,
                note.task if running else None,
                note.attempt,
                clock.now() - seconds,
                seconds,
                error,
                reason,
                printed,
                shared,
            )
        )
        return running

    def _note_birth(self, did_something: bool, trouble: str) -> None:
        """Give up where too many in a row die before they get anything done."""
        self._stillborn = 0 if did_something else self._stillborn + 1
        if self._stillborn > STILLBORN_LIMIT:
            raise BackendError(
                trouble, hint="try `python -c 'import runyard'` with the same interpreter"
            )

    def renew(self, number: int) -> None:
        """Have a fresh worker take the place of one that has done its share, soon."""
        lane = self._crew.lanes[number]
        lane.renewing = True
        self._crew.kill(lane)

    def is_renewing(self, number: int) -> bool:
        """Whether the lane still waits for its fresh worker."""
        return self._crew.lanes[number].renewing

    def _restart(self, lane: Lane) -> None:
        if lane.channel is not None:
            with contextlib.suppress(KeyError):
                self._crew.selector.unregister(lane.channel)
            lane.channel.close()
        if not self._slots.path.exists():
            raise BackendError(
                f"no worker can be started: {self._slots.path} was removed during the run",
                hint="leave the files of a yard alone while it is in use; `runyard resume` goes on",
            )
        self._slots.clear(lane.number)
        with starting("a worker"):
            self._crew.fork(lane)
        self._crew.write(lane, JOB, self._frame)

    def _new_crew(self) -> Crew:
        with starting():
            return Crew(self.lanes, self._environment)

    def _spool(self, lane: int) -> Path:
        assert self._job is not None
        return Path(self._job.spool, f"{self._job.engine}-{lane}")


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    if os.WEXITSTATUS(status) == MUTE:
        return "closed the connection to the engine"
    return f"exited with code {os.WEXITSTATUS(status)}"
