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
from time import perf_counter, sleep

from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.process_state import ProcessState
from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import (
    AttemptResults,
    Emission,
    Report,
    StateChange,
    encode_report,
    encode_rows,
)
from runyard.backends import tree
from runyard.backends.channel import HEAD, LARGEST, MARK

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
        self.results = AttemptResults.none()  # since the process was last known to be unchanged
        self._trusted = AttemptResults.none()  # before that: what may be sent
        self._emitted: list[Emission] = []
        self._change: StateChange | None = None
        self.failure: SystemFailure | None = None  # why the rest of the chunk can't run
        self._chunk = 0
        self._done = 0
        self._supervisor = os.getppid()
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
            return self._done + self._trusted.size

    def trust(self, change: str = "", *, is_undone: bool = True) -> None:
        """Let all results be sent, and report what the last one's task changed, if anything."""
        tasks = self.results.tasks if change else []
        with self._sending:
            self._trusted.take(self.results)
            if tasks:
                self._change = StateChange(tasks[-1], change, is_undone)

    def forget_untrusted(self) -> None:
        """Drop the results of tasks that have to run again, and what they emitted."""
        again = set(self.results.tasks)
        self.results.drop(self.results)
        with self._sending:
            self._emitted[:] = [each for each in self._emitted if each.task not in again]

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
            results, emitted = self._trusted, self._emitted[:]
            if results.size or emitted or finished:
                self._send_in_parts(results, emitted, finished)
            self.flush_at = perf_counter() + FLUSH_SECONDS

    def _send(self, results: AttemptResults, emitted: list[Emission], finished: bool) -> None:
        """Send these as one report, and drop them."""
        done = self._done + results.size
        data = encode_report(
            Report(
                self._lane, self._chunk, done, encode_rows(results.rows), results.failures,
                results.printed, emitted, results.seconds, finished, self._change,
                self.failure if finished else None,
            )
        )  # fmt: skip
        if len(data) > LARGEST:
            raise MemoryError
        self._channel.sendall(HEAD.pack(self._key, len(data)))
        self._channel.sendall(data)
        self._done = done
        self._change = None
        self._trusted.drop(results)
        del self._emitted[: len(emitted)]  # the main thread may have appended to it

    def _send_in_parts(
        self, results: AttemptResults, emitted: list[Emission], finished: bool
    ) -> None:
        """Send one report, or several if it is too large for one; emissions first."""
        try:
            self._send(results, emitted, finished)
        except MemoryError:
            if results.size + len(emitted) < 2:
                raise
            if emitted:
                part = (len(emitted) + 1) // 2
                self._send_in_parts(AttemptResults.none(), emitted[:part], False)
                self._send_in_parts(results, emitted[part:], finished)
            else:
                first, rest = results.halves()
                self._send_in_parts(first, [], False)
                self._send_in_parts(rest, [], finished)

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
