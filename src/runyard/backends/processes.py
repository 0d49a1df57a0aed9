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

import atexit
import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from runyard import clock
from runyard.attempt.output import salvage
from runyard.attempt.slots import Note, Slots
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
from runyard.backends.base import Backend, Capabilities
from runyard.backends.warden import ENDED, FORK, KILL, MESSAGE, STARTED
from runyard.backends.worker import CHUNK, JOB, LENGTH, REST
from runyard.errors import BackendError
from runyard.spaces import task_folder

STILLBORN_LIMIT = 10
"""So many workers in a row may die before one of them gets anything done."""

_START = "import sys; sys.path[:] = {path!r}; from runyard.backends.warden import main; main({fd})"


class _Lane:
    """The engine's end of one worker."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.channel: socket.socket | None = None
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.sent: list[int] = []  # chunks under way, oldest first
        self.tasks = 0  # since the worker started
        self.ending: tuple[Note, str, str] | None = None  # asked to end, and why

    def frames(self) -> list[Report]:
        """Whole reports that have come in."""
        found, at, buffer = [], 0, self.incoming
        while len(buffer) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(buffer, at)
            end = at + LENGTH.size + size
            if len(buffer) < end:
                break
            found.append(decode_report(memoryview(buffer)[at + LENGTH.size : end]))
            at = end
        del buffer[:at]
        return found


class Crew:
    """A warden and its workers."""

    def __init__(self, lanes: int) -> None:
        self.key = _crew_key(lanes)
        self.code: dict[str, str] = {}  # what these workers have loaded, and which version of it
        self.lanes = [_Lane(number) for number in range(lanes)]
        self.selector = selectors.DefaultSelector()
        self.received = memoryview(bytearray(1 << 18))
        self.control, theirs = socket.socketpair()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        path = [place or os.getcwd() for place in sys.path]
        code = _START.format(path=path, fd=theirs.fileno())
        self.warden = subprocess.Popen(
            [sys.executable, *_interpreter_flags(), "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self.selector.register(self.control, selectors.EVENT_READ, None)
        self.selector.register(self._wake_out, selectors.EVENT_READ, None)
        _all.append(self)
        for lane in self.lanes:
            self.fork(lane)

    def fork(self, lane: _Lane) -> None:
        """Have the warden start a worker for this lane."""
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        lane.__init__(lane.number)  # type: ignore[misc]
        lane.channel = mine
        try:
            message = MESSAGE.pack(FORK, lane.number, 0)
            socket.send_fds(self.control, [message], [theirs.fileno()])
        except OSError as error:
            raise self.broken() from error
        finally:
            theirs.close()
        self.selector.register(mine, selectors.EVENT_READ, lane)

    def write(self, lane: _Lane, kind: bytes, content: bytes = b"") -> None:
        """Queue a message for the lane's worker, and send what fits."""
        lane.outgoing += LENGTH.pack(len(content) + 1) + kind + content
        self.pump(lane)

    def pump(self, lane: _Lane) -> None:
        """Send what waits; ask to be told when there is room for the rest."""
        assert lane.channel is not None
        try:
            while lane.outgoing:
                sent = lane.channel.send(lane.outgoing)
                del lane.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:  # it died; the warden will say so
            lane.outgoing.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.outgoing else 0)
        with contextlib.suppress(KeyError):
            if self.selector.get_key(lane.channel).events != wanted:
                self.selector.modify(lane.channel, wanted, lane)

    def kill(self, lane: _Lane) -> None:
        """Have the warden end the lane's worker and everything below it."""
        deadline = time.monotonic() + 10
        while lane.pid is None and time.monotonic() < deadline:
            for _ in self.news():
                pass
        with contextlib.suppress(OSError):
            self.control.sendall(MESSAGE.pack(KILL, lane.number, lane.pid or 0))

    def news(self) -> list[tuple[int, int]]:
        """Workers that ended: lane and exit status."""
        ended = []
        data = b""
        try:
            while len(data) % MESSAGE.size or not data:
                part = self.control.recv(MESSAGE.size * 64)
                if not part:
                    raise self.broken()
                data += part
        except OSError as error:
            raise self.broken() from error
        for kind, number, value in MESSAGE.iter_unpack(data):
            if kind == STARTED:
                self.lanes[number].pid = value
            elif kind == ENDED:
                ended.append((number, value >> 32))
        return ended

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_in.send(b"w")

    def calm(self) -> None:
        """Forget that somebody called `wake`."""
        with contextlib.suppress(OSError):
            self._wake_out.recv(4096)

    def broken(self) -> BackendError:
        """The warden is gone: end the workers in its place."""
        for lane in self.lanes:
            if lane.pid is not None:
                tree.kill_tree(lane.pid)
        return BackendError(
            "the process that looks after the workers is gone",
            hint="something killed it; say `runyard resume` to go on",
        )

    def release(self, *, abandon: bool = False) -> None:
        """Close every descriptor, after which the warden ends everything; wait for that."""
        if self in _all:
            _all.remove(self)
        for lane in self.lanes:
            if lane.channel is not None:
                lane.channel.close()
        self.selector.close()
        self.control.close()
        self._wake_in.close()
        self._wake_out.close()
        if abandon:
            return
        try:
            self.warden.wait(timeout=10)
        except subprocess.TimeoutExpired:
            tree.kill_tree(self.warden.pid)
            self.warden.wait()


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

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._crew = _take_crew(lanes)
        self._job: Job | None = None
        self._frame = b""
        self._ready: list[Report | Loss] = []
        self._stillborn = 0
        self._closed = False

    def open(self, job: Job, slots: Slots) -> None:
        if any(self._crew.code.get(k, v) != v for k, v in job.code.items()):
            self._crew.release()  # these workers have an older version of the code loaded
            self._crew = Crew(self.lanes)
        self._crew.code |= job.code
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

    def takes(self, lane: int) -> bool:
        state = self._crew.lanes[lane]
        if state.ending is not None:
            return False
        limit = self._job.recycle if self._job else None
        if limit is None or state.tasks < limit:
            return True
        if not state.sent:
            self._renew(state)
            return True
        return False

    def poll(self, timeout: float) -> list[Report | Loss]:
        crew = self._crew
        ended: list[tuple[int, int]] = []
        for key, mask in crew.selector.select(0 if self._ready else timeout):
            if key.fileobj is crew.control:
                ended += crew.news()
            elif key.data is None:
                crew.calm()
            else:
                lane: _Lane = key.data
                if mask & selectors.EVENT_WRITE:
                    crew.pump(lane)
                if mask & selectors.EVENT_READ:
                    self._read(lane)
        for number, status in ended:
            self._bury(crew.lanes[number], status)
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
        if any(lane.sent or lane.ending for lane in self._crew.lanes):
            self._crew.release()
        else:
            for lane in self._crew.lanes:
                self._crew.write(lane, REST)
            _idle.append(self._crew)
        if self._job is not None:
            for lane in self._crew.lanes:
                salvage(self._spool(lane.number), None)

    @property
    def pids(self) -> list[int]:
        return [lane.pid for lane in self._crew.lanes if lane.pid is not None]

    def _read(self, lane: _Lane) -> bool:
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
            return False
        lane.incoming += self._crew.received[:size]
        for report in lane.frames():
            self._stillborn = 0
            if report.finished and report.chunk in lane.sent:
                lane.sent.remove(report.chunk)
            self._ready.append(report)
        return True

    def _bury(self, lane: _Lane, status: int) -> None:
        """A worker has ended: take its last words, say what it cost, start the next one."""
        while self._read(lane):
            pass
        note = self._slots.read(lane.number)
        error, reason = "WorkerDied", _death(status)
        if lane.ending is not None:
            if lane.ending[0] == note:
                error, reason = lane.ending[1:]
            else:
                note = note._replace(task=-1)
        running = note.task >= 0
        if self._job is not None:
            folder = task_folder(Path(self._job.folder), note.task, note.attempt)
            salvage(self._spool(lane.number), folder if running else None)
        self._stillborn = 0 if running else self._stillborn + 1
        if self._stillborn > STILLBORN_LIMIT:
            raise BackendError(
                f"workers die as soon as they start: {reason}",
                hint="try `python -c 'import runyard'` with the same interpreter",
            )
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
            )
        )
        self._restart(lane)

    def _renew(self, lane: _Lane) -> None:
        """A fresh worker in place of one that has done its share."""
        self._crew.kill(lane)
        ended: list[tuple[int, int]] = []
        while not any(number == lane.number for number, _ in ended):
            ended += self._crew.news()
        for number, status in ended:
            if number == lane.number:
                self._restart(lane)
            else:
                self._bury(self._crew.lanes[number], status)

    def _restart(self, lane: _Lane) -> None:
        if lane.channel is not None:
            with contextlib.suppress(KeyError):
                self._crew.selector.unregister(lane.channel)
            lane.channel.close()
        self._slots.clear(lane.number)
        self._crew.fork(lane)
        self._crew.write(lane, JOB, self._frame)

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
    return f"exited with code {os.WEXITSTATUS(status)}"


def _interpreter_flags() -> list[str]:
    """The flags of this interpreter that change what code does."""
    flags = ["-O" * bool(sys.flags.optimize == 1), "-OO" * bool(sys.flags.optimize > 1)]
    flags += ["-B" * bool(sys.flags.dont_write_bytecode), "-s" * bool(sys.flags.no_user_site)]
    flags += [f"-W{option}" for option in sys.warnoptions if option != "error"]
    return [flag for flag in flags if flag]


# Warm crews of this process, waiting for their next batch.
_taking = threading.Lock()
_idle: list[Crew] = []
_all: list[Crew] = []


def _crew_key(lanes: int) -> tuple[object, ...]:
    return lanes, os.getpid(), os.getcwd(), tuple(sorted(os.environ.items()))


def _take_crew(lanes: int) -> Crew:
    key = _crew_key(lanes)
    with _taking:
        found = next((c for c in _idle if c.key == key and c.warden.poll() is None), None)
        others = [crew for crew in _idle if crew is not found]
        _idle.clear()
    for crew in others:
        crew.release()
    return found or Crew(lanes)


def close_crews() -> None:
    """End every warm worker of this process."""
    while _idle:
        _idle.pop().release()


def _forget_after_fork() -> None:
    """A forked child must not hold the sockets by which the warden knows that we live."""
    for crew in _all:
        with contextlib.suppress(OSError):
            crew.release(abandon=True)
    _all.clear()
    _idle.clear()


atexit.register(close_crews)
os.register_at_fork(after_in_child=_forget_after_fork)
