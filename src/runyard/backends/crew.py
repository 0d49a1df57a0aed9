"""A crew: the warden and its workers, as the engine sees them. Kept warm between runs."""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.attempt.slots import Note
from runyard.attempt.wire import Report
from runyard.backends import tree
from runyard.backends.warden import ENDED, FORK, KILL, MESSAGE, STARTED
from runyard.backends.worker import LENGTH
from runyard.errors import BackendError

_START = "import sys; sys.path[:] = {path!r}; from runyard.backends.warden import main; main({fd})"


class Lane:
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

    def frames(self, decode: Callable[[memoryview], Report]) -> list[Report]:
        """Whole reports that have come in."""
        found, at, buffer = [], 0, self.incoming
        while len(buffer) - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(buffer, at)
            end = at + LENGTH.size + size
            if len(buffer) < end:
                break
            found.append(decode(memoryview(buffer)[at + LENGTH.size : end]))
            at = end
        del buffer[:at]
        return found


class Crew:
    """A warden and its workers."""

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        self.key = _crew_key(lanes, environment)
        self._code = LoadedCode()  # what these workers may have loaded
        self.lanes = [Lane(number) for number in range(lanes)]
        self.selector = selectors.DefaultSelector()
        self.received = memoryview(bytearray(1 << 18))
        self.control, theirs = socket.socketpair()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        code = _START.format(path=module_path(), fd=theirs.fileno())
        self.warden = subprocess.Popen(
            [sys.executable, *interpreter_flags(), "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        theirs.close()
        self.selector.register(self.control, selectors.EVENT_READ, None)
        self.selector.register(self._wake_out, selectors.EVENT_READ, None)
        _all.append(self)
        for lane in self.lanes:
            self.fork(lane)

    def is_outdated(self, code: Mapping[str, str]) -> bool:
        """Whether workers may have loaded other code than this, the functions of a batch."""
        return self._code.has_changed(code)

    def fork(self, lane: Lane) -> None:
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

    def write(self, lane: Lane, kind: bytes, content: bytes = b"") -> None:
        """Queue a message for the lane's worker, and send what fits."""
        lane.outgoing += LENGTH.pack(len(content) + 1) + kind + content
        self.pump(lane)

    def pump(self, lane: Lane) -> None:
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

    def kill(self, lane: Lane) -> None:
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


def module_path() -> list[str]:
    """Where this process finds its modules, in words that hold in any directory."""
    return [place or os.getcwd() for place in sys.path]


def interpreter_flags() -> list[str]:
    """The flags of this interpreter that change what code does."""
    flags = ["-O" * bool(sys.flags.optimize == 1), "-OO" * bool(sys.flags.optimize > 1)]
    flags += ["-B" * bool(sys.flags.dont_write_bytecode), "-s" * bool(sys.flags.no_user_site)]
    flags += [f"-W{option}" for option in sys.warnoptions if option != "error"]
    return [flag for flag in flags if flag]


# Warm crews of this process, waiting for their next batch.
_taking = threading.Lock()
_idle: list[Crew] = []
_all: list[Crew] = []


_LIBRARIES = tuple(
    {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class LoadedCode:
    """What workers may have loaded: functions they ran, and this process's own modules."""

    def __init__(self) -> None:
        self._versions: dict[str, int | str] = {**_module_files()}

    def has_changed(self, code: Mapping[str, str]) -> bool:
        """Whether a module's file, or one of these functions, has changed since the last time.

        A function may import modules that only workers have loaded; its fingerprint covers them.
        """
        before = self._versions
        now: dict[str, int | str] = {**_module_files(), **code}
        self._versions = before | now
        return any(before.get(place, version) != version for place, version in now.items())


def _module_files() -> dict[str, int]:
    """The loaded modules that are no library's, by file, with the time of their last change."""
    found = {}
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if place and not place.startswith(_LIBRARIES):
            with contextlib.suppress(OSError):
                found[place] = Path(place).stat().st_mtime_ns
    return found


def _crew_key(lanes: int, environment: Mapping[str, str] | None) -> tuple[object, ...]:
    variables = {**os.environ, **(environment or {})}
    return lanes, os.getpid(), os.getcwd(), tuple(sorted(variables.items()))


def take_crew(lanes: int, environment: Mapping[str, str] | None = None) -> Crew:
    key = _crew_key(lanes, environment)
    with _taking:
        found = next((c for c in _idle if c.key == key and c.warden.poll() is None), None)
        others = [crew for crew in _idle if crew is not found]
        _idle.clear()
    for crew in others:
        crew.release()
    return found or Crew(lanes, environment)


def keep_crew(crew: Crew) -> None:
    """Let a crew wait for the next batch."""
    with _taking:
        _idle.append(crew)


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
