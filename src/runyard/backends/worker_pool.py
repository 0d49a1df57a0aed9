"""A worker pool: the supervisor and its workers, as the engine sees them."""

from __future__ import annotations

import enum
import os
import secrets
import selectors
import socket
import time
from collections.abc import Mapping
from typing import ClassVar

from runyard.attempt.lane_status import LaneStatus
from runyard.attempt.wire import LossCause
from runyard.backends import tree
from runyard.backends.base import SentChunks
from runyard.backends.channel import Channel
from runyard.backends.helper import HelperProcess, WarmCache
from runyard.backends.supervisor import ENDED, FORK, KILL, MESSAGE, STARTED
from runyard.spec.hash_seed import seeded

CHECK_SECONDS = 0.5
SILENT_SECONDS = 2.0
"""How long a request may stay unanswered before the supervisor is taken to be stopped."""

ANSWER_SECONDS = 10.0
"""How long a continued supervisor has to answer before it is replaced."""

START_SECONDS = 60.0
"""The same for its first answer, since its interpreter may still be starting."""


class WorkerHandle:
    """The engine's end of one worker."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number  # of its lane in this pool
        self.channel = channel
        self.pid: int | None = None  # None: not started yet, or ended
        self.started = time.monotonic()
        self.sent = SentChunks()
        self.asked: float | None = time.monotonic()  # the oldest request that is not done
        self.cut_off: float | None = None  # when the worker was seen to have closed its channel
        self.renewing = False  # asked to end after its share of tasks
        self.ending: tuple[LaneStatus, LossCause, str] | None = None  # asked to end, and why

    @property
    def is_busy(self) -> bool:
        """Whether its worker has something to do, or is being ended."""
        return bool(self.sent.ids or self.ending or self.renewing)


class WorkerPool(HelperProcess):
    """A supervisor and its workers."""

    warm: ClassVar[WarmCache[WorkerPool]] = WarmCache()
    end_seconds = 10.0

    @classmethod
    def take(cls, lanes: int, environment: Mapping[str, str] | None = None) -> WorkerPool:
        """A pool for this directory and environment, warm if there is one."""
        key = _pool_key(lanes, environment)
        found = cls.warm.take(lambda pool: pool.key == key and pool.lives)
        return found or cls(lanes, environment)

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        self.workers: list[WorkerHandle] = []
        super().__init__("runyard.backends.supervisor", environment=seeded(environment))
        self.key = _pool_key(lanes, environment)
        self.started = time.monotonic()
        self.is_lost = False  # the supervisor is gone
        self._has_answered = False
        self._continued: float | None = None  # when a silent supervisor was continued
        self._checked = 0.0
        try:
            self.poller.selector.register(self.socket, selectors.EVENT_READ, self)
            for number in range(lanes):
                self.workers.append(self._forked(number))
        except BaseException:
            self.close()
            raise

    @property
    def lives(self) -> bool:
        return not self.is_lost and super().lives

    def fork(self, number: int) -> WorkerHandle:
        """Replace a lane's worker, which has ended."""
        self.workers[number].channel.close()
        self.workers[number] = self._forked(number)
        return self.workers[number]

    def _forked(self, number: int) -> WorkerHandle:
        mine, theirs = socket.socketpair()
        streams = [_stream(descriptor) for descriptor in (1, 2)]
        key = secrets.randbits(64)
        try:
            message = MESSAGE.pack(FORK, number, key)
            socket.send_fds(self.socket, [message], [theirs.fileno(), *streams])
        except OSError:
            self.is_lost = True
        finally:
            theirs.close()
            for stream in streams:
                os.close(stream)
        channel = Channel(self.poller, mine, key=key)
        channel.owner = worker = WorkerHandle(number, channel)
        return worker

    def kill(self, worker: WorkerHandle) -> None:
        """Have the supervisor end a worker and everything below it."""
        worker.asked = worker.asked or time.monotonic()
        try:
            self.socket.sendall(MESSAGE.pack(KILL, worker.number, 0))
        except OSError:
            self.is_lost = True

    def read_exits(self) -> list[tuple[WorkerHandle, int]]:
        """Read what the supervisor says: workers that ended, with their exit statuses."""
        data = b""
        try:
            while len(data) % MESSAGE.size or not data:
                part = self.socket.recv(MESSAGE.size * 64)
                if not part:
                    self.is_lost = True
                    break
                data += part
        except OSError:
            self.is_lost = True
        self._has_answered = True
        exits = []
        whole = len(data) // MESSAGE.size * MESSAGE.size
        for kind, number, value in MESSAGE.iter_unpack(data[:whole]):
            worker = self.workers[number]
            if kind == STARTED:
                worker.pid, worker.started = value, time.monotonic()
                if worker.ending is None and not worker.renewing:
                    worker.asked = None
            elif kind == ENDED:
                worker.pid = worker.asked = None
                exits.append((worker, value >> 32))
        return exits

    def has_lost_supervisor(self) -> bool:
        """Whether the supervisor is gone or does not answer; a stopped one is continued."""
        now = time.monotonic()
        if self.is_lost or now - self._checked < CHECK_SECONDS:
            return self.is_lost
        self._checked = now
        asked = min((each.asked for each in self.workers if each.asked is not None), default=None)
        patience = ANSWER_SECONDS if self._has_answered else START_SECONDS
        health = health_of(now, asked, self._continued, patience)
        if health is Health.WELL:
            self._continued = None
        elif health is Health.SILENT:
            self._continued = now
            self.resume()
        self.is_lost = health is Health.HUNG
        return self.is_lost

    def kill_all(self) -> None:
        """Kill every process without the supervisor's help, and wait until none is left."""
        pids = [worker.pid for worker in self.workers if worker.pid is not None]
        if super().lives:
            pids.insert(0, self.process.pid)
        tree.end_trees(pids)

    def abandon(self) -> None:
        super().abandon()
        for worker in self.workers:
            worker.channel.close()


class Health(enum.Enum):
    """Whether a supervisor does what it is asked for."""

    WELL = "well"
    WAITING = "waiting"  # for an answer
    SILENT = "silent"  # for too long: it may be stopped
    HUNG = "hung"  # it did not answer after it was continued


def health_of(now: float, asked: float | None, continued: float | None, patience: float) -> Health:
    """A supervisor's health by its oldest open request, and when it was continued.

    The engine may have been stopped itself, so a supervisor always gets time after SIGCONT.
    """
    if asked is None:
        return Health.WELL
    if continued is None:
        return Health.SILENT if now - asked > SILENT_SECONDS else Health.WAITING
    return Health.HUNG if now - continued > patience else Health.WAITING


def _stream(number: int) -> int:
    """A copy of one of this process's standard streams, or /dev/null if it is closed."""
    try:
        return os.dup(number)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _pool_key(lanes: int, environment: Mapping[str, str] | None) -> tuple[object, ...]:
    return lanes, os.getcwd(), tuple(sorted(seeded(environment).items()))
