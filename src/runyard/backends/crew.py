"""A crew: the warden and its workers, as the engine sees them. Kept warm between runs."""

from __future__ import annotations

import atexit
import contextlib
import enum
import os
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from runyard import interrupts
from runyard.backends import tree
from runyard.backends.lane import Lane
from runyard.backends.warden import ENDED, FORK, KILL, MESSAGE, STARTED
from runyard.backends.worker import LENGTH
from runyard.spec.hash_seed import seeded

LOOK_SECONDS = 0.5
SILENT_SECONDS = 2.0
"""A warden that has not done what it was asked for so long may be stopped."""

ANSWER_SECONDS = 10.0
"""So long it has after it was continued before another one takes its place,"""

START_SECONDS = 60.0
"""and so long the first time, since its interpreter may still be starting."""

_START = "import sys; sys.path[:] = {path!r}; from runyard.backends.warden import main; main({fd})"


class Crew:
    """A warden and its workers."""

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        self.key = _crew_key(lanes, environment)
        self._code = LoadedCode()  # what these workers may have loaded
        self.lanes = [Lane(number) for number in range(lanes)]
        self.selector = selectors.DefaultSelector()
        self.received = memoryview(bytearray(1 << 18))
        self.is_lost = False  # the warden is gone
        self._has_answered = False
        self._nudged: float | None = None
        self._looked = 0.0
        self.control, theirs = socket.socketpair()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        self.warden: subprocess.Popen[bytes] | None = None
        try:
            self._start(theirs, environment)
            for lane in self.lanes:
                self.fork(lane)
        except BaseException:
            self.release()
            raise
        finally:
            theirs.close()

    def _start(self, theirs: socket.socket, environment: Mapping[str, str] | None) -> None:
        _all.append(self)
        self.selector.register(self.control, selectors.EVENT_READ, None)
        self.selector.register(self._wake_out, selectors.EVENT_READ, None)
        # Of our own streams it keeps none: it may outlive us by a moment, and must not keep whoever
        # reads them waiting. Workers get them when they are forked.
        self.warden = subprocess.Popen(
            [
                sys.executable,
                *interpreter_flags(),
                "-c",
                _START.format(path=module_path(), fd=theirs.fileno()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=seeded(environment),
        )

    def is_outdated(self, code: Mapping[str, str]) -> bool:
        """Whether workers may have loaded other code than this, the functions of a batch."""
        return self._code.has_changed(code)

    @property
    def lives(self) -> bool:
        """Whether there is a warden."""
        return not self.is_lost and self.warden is not None and self.warden.poll() is None

    def fork(self, lane: Lane) -> None:
        """Have the warden start a worker for this lane."""
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        lane.__init__(lane.number)  # type: ignore[misc]
        lane.channel = mine
        lane.asked = time.monotonic()
        streams = [_stream(number) for number in (1, 2)]
        try:
            message = MESSAGE.pack(FORK, lane.number, 0)
            socket.send_fds(self.control, [message], [theirs.fileno(), *streams])
        except OSError:
            self.is_lost = True
        finally:
            theirs.close()
            for stream in streams:
                os.close(stream)
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
        lane.asked = lane.asked or time.monotonic()
        try:
            self.control.sendall(MESSAGE.pack(KILL, lane.number, 0))
        except OSError:
            self.is_lost = True

    def news(self) -> list[tuple[int, int]]:
        """Workers that ended: lane and exit status."""
        data = b""
        try:
            while len(data) % MESSAGE.size or not data:
                part = self.control.recv(MESSAGE.size * 64)
                if not part:
                    self.is_lost = True
                    break
                data += part
        except OSError:
            self.is_lost = True
        self._has_answered = True
        ended = []
        whole = len(data) // MESSAGE.size * MESSAGE.size
        for kind, number, value in MESSAGE.iter_unpack(data[:whole]):
            lane = self.lanes[number]
            if kind == STARTED:
                lane.pid = value
                if lane.ending is None and not lane.renewing:
                    lane.asked = None
            elif kind == ENDED:
                lane.pid = lane.asked = None
                ended.append((number, value >> 32))
        return ended

    def is_without_warden(self) -> bool:
        """Whether the warden is gone, or does not answer; one that is stopped is continued."""
        now = time.monotonic()
        if self.is_lost or now - self._looked < LOOK_SECONDS:
            return self.is_lost
        self._looked = now
        asked = min((lane.asked for lane in self.lanes if lane.asked is not None), default=None)
        patience = ANSWER_SECONDS if self._has_answered else START_SECONDS
        verdict = judged(now, asked, self._nudged, patience)
        if verdict is Verdict.WELL:
            self._nudged = None
        elif verdict is Verdict.SILENT:
            self._nudged = now
            self._continue()
        self.is_lost = verdict is Verdict.HUNG
        return self.is_lost

    def _continue(self) -> None:
        """Let the warden and its guard go on, if they are stopped."""
        if self.warden is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.warden.pid, signal.SIGCONT)

    def end(self) -> None:
        """End everything at once, whatever the warden does; return when nothing runs any more."""
        pids = [lane.pid for lane in self.lanes if lane.pid is not None]
        if self.warden is not None and self.warden.poll() is None:
            pids.insert(0, self.warden.pid)
        tree.end_trees(pids)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_in.send(b"w")

    def calm(self) -> None:
        """Forget that somebody called `wake`."""
        with contextlib.suppress(OSError):
            self._wake_out.recv(4096)

    def last_words(self) -> str:
        """The end of what the warden printed, if it did."""
        return last_lines(self._log)

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
        self._log.close()
        if abandon or self.warden is None:
            return
        self._continue()
        try:
            self.warden.wait(timeout=10)
        except subprocess.TimeoutExpired:
            tree.kill_tree(self.warden.pid)
            self.warden.wait()


class Verdict(enum.Enum):
    """What the engine thinks of a warden."""

    WELL = "well"
    WAITING = "waiting"  # for an answer
    SILENT = "silent"  # for too long: it may be stopped
    HUNG = "hung"  # it did not answer when it was continued


def judged(now: float, asked: float | None, nudged: float | None, patience: float) -> Verdict:
    """What to think of a warden by its oldest order that is not done, and when it was continued.

    The engine may have been stopped itself: so a warden always has time after it was continued.
    """
    if asked is None:
        return Verdict.WELL
    if nudged is None:
        return Verdict.SILENT if now - asked > SILENT_SECONDS else Verdict.WAITING
    return Verdict.HUNG if now - nudged > patience else Verdict.WAITING


def last_lines(log: BinaryIO, most: int = 5) -> str:
    """The last lines of a log that is open."""
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
    return "\n".join(line.rstrip() for line in text.splitlines()[-most:])


def _stream(number: int) -> int:
    """A copy of one of this process's standard streams, or of nowhere if it is closed."""
    try:
        return os.dup(number)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


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
    return lanes, os.getpid(), os.getcwd(), tuple(sorted(seeded(environment).items()))


def take_crew(lanes: int, environment: Mapping[str, str] | None = None) -> Crew:
    key = _crew_key(lanes, environment)
    with _taking:
        found = next((c for c in _idle if c.key == key and c.lives), None)
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
    with interrupts.handled(signal.SIG_IGN):  # it takes a moment, and then the process ends
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
