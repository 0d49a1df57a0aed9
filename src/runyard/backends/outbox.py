"""What a worker has to report, sent every few tens of milliseconds.

main thread ── results, emissions ──▶ outbox ──▶ channel
flusher, while a task takes long ───────┘

A result is sent once the process is known to be as it was before the task ran: `trust`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import deque
from itertools import islice
from time import perf_counter, sleep
from typing import Any

from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.process_state import ProcessState
from runyard.attempt.runner import Result
from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import Completed, Emission, Failure, Report, StateChange, encode_report
from runyard.backends import tree
from runyard.backends.channel import HEAD, LARGEST, MARK
from runyard.spec.outcome import WIDTH, Printed

FLUSH_SECONDS = 0.05
"""The longest time between two reports; a little more than a chunk takes."""


class Outbox:
    """The results and emissions of a lane that have not been sent yet."""

    def __init__(
        self, channel: socket.socket, lane: int, state: ProcessState, key: int = MARK
    ) -> None:
        self._channel = channel
        self._key = key
        self._lane = lane
        self._state = state
        self._sending = threading.Lock()
        self._busy = threading.Event()
        self._closed = False
        self._results: deque[Result] = deque()
        self._emitted: deque[Emission] = deque()
        self._trusted = 0  # how many of the results, from the first
        self._change: StateChange | None = None
        self.failure: SystemFailure | None = None  # why the rest of the chunk can't run
        self._chunk = 0
        self._done = 0
        self._supervisor = os.getppid()
        self.result = self._results.append
        self.flush_at = 0.0  # when to send what is here
        threading.Thread(target=self._flush_late, daemon=True, name="runyard-flush").start()

    def begin(self, chunk: int) -> None:
        """What follows belongs to this chunk."""
        self._chunk = chunk
        self._done = 0
        self.failure = None
        self._busy.set()

    def emit(self, emission: Emission) -> None:
        """The running task emitted an event."""
        self._emitted.append(emission)

    @property
    def ended(self) -> int:
        """How many of the chunk's tasks need not run again."""
        with self._sending:
            return self._done + self._trusted

    @property
    def untrusted(self) -> int:
        """How many results came since the process was last known to be unchanged."""
        with self._sending:
            return len(self._results) - self._trusted

    def trust(self, change: str = "", *, is_undone: bool = True) -> None:
        """Let all results be sent, and report what the last one's task changed, if anything."""
        with self._sending:
            self._trusted = len(self._results)
            if change and self._results:
                self._change = StateChange(_task_of(self._results[-1]), change, is_undone)

    def forget_untrusted(self) -> None:
        """Drop the results of tasks that have to run again, and what they emitted."""
        with self._sending:
            again = set()
            while len(self._results) > self._trusted:
                again.add(_task_of(self._results.pop()))
            emitted = [each for each in self._emitted if each.task not in again]
            self._emitted.clear()
            self._emitted.extend(emitted)

    def finish(self) -> None:
        """The chunk is finished."""
        self._busy.clear()
        self.flush(finished=True)

    def close(self) -> None:
        """Nothing more will be sent."""
        self._closed = True
        self._busy.set()

    def flush(self, *, finished: bool = False) -> None:
        """Send what is here."""
        with self._sending, beyond_the_limit():
            # The results first: what their tasks emitted is here by then.
            results, emitted = list(islice(self._results, self._trusted)), list(self._emitted)
            if results or emitted or finished:
                self._send_in_parts(results, emitted, finished)
            self.flush_at = perf_counter() + FLUSH_SECONDS

    def _send(self, results: list[Result], emitted: list[Emission], finished: bool) -> None:
        """Send these as one report, and drop them."""
        rows: list[Any] = []
        failures: list[Failure] = []
        printed: list[Printed] = []
        for result in results:
            if type(result) is tuple:
                rows += result
            elif isinstance(result, Completed):
                rows += result.row
                printed.append(result.printed)
            else:
                failures.append(result)  # type: ignore[arg-type]
        done = self._done + len(results)
        seconds = sum(rows[6::WIDTH]) + sum(f.row.seconds for f in failures)
        data = encode_report(
            Report(
                self._lane, self._chunk, done, rows, failures, printed, emitted, seconds, finished,
                self._change, self.failure if finished else None,
            )
        )  # fmt: skip
        if len(data) > LARGEST:
            raise MemoryError
        self._channel.sendall(HEAD.pack(self._key, len(data)))
        self._channel.sendall(data)
        self._done = done
        self._change = None
        _drop(self._results, len(results))
        self._trusted -= len(results)
        _drop(self._emitted, len(emitted))

    def _send_in_parts(
        self, results: list[Result], emitted: list[Emission], finished: bool
    ) -> None:
        """Send one report, or several if it is too large for one; emissions first."""
        try:
            self._send(results, emitted, finished)
        except MemoryError:
            if len(results) + len(emitted) < 2:
                raise
            half, part = len(results) // 2, (len(emitted) + 1) // 2
            if emitted:
                self._send_in_parts([], emitted[:part], False)
                self._send_in_parts(results, emitted[part:], finished)
            else:
                self._send_in_parts(results[:half], [], False)
                self._send_in_parts(results[half:], [], finished)

    def _flush_late(self) -> None:
        """Send what waits while the main thread runs a task; exit with the supervisor."""
        while True:
            self._busy.wait()
            if self._closed:
                return
            sleep(FLUSH_SECONDS)
            if os.getppid() != self._supervisor:  # it was killed, and perhaps the engine too
                tree.kill_below(os.getpid())
                os._exit(1)
            if self._busy.is_set() and perf_counter() >= self.flush_at:
                # What could not be sent stays; the main thread tries again, and may fail then.
                with contextlib.suppress(Exception):
                    if self._state.is_connected():
                        self.flush()


def _task_of(result: Result) -> int:
    if isinstance(result, Completed | Failure):
        return result.row[0]
    return result[0]


def _drop(items: deque[Any], count: int) -> None:
    """Drop the first items of a deque that another thread appends to."""
    for _ in range(count):
        items.popleft()
