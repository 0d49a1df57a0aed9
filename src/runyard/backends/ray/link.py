"""The engine's end of a bridge: its process, the socket to it, and what it said last.

A bridge stays warm between runs of one process, with its Ray and its stations.
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
import tempfile
import threading
import time
from importlib.util import find_spec
from typing import BinaryIO

from runyard import interrupts
from runyard.backends import tree
from runyard.backends.base import usable_cores
from runyard.backends.ray.frames import FAILED, HELLO, Frame, decode_trouble, take_frames
from runyard.backends.worker_pool import LoadedCode, interpreter_flags, module_path
from runyard.errors import BackendError

START_SECONDS = 120.0
SILENT_SECONDS = 60.0
"""So long may a bridge say nothing at all before it is given up."""

END_SECONDS = 30.0
LAST_LINES = 5

_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from runyard.backends.ray.driver import main; main({fd}, {address!r}, {cores})"
)


class Link:
    """A bridge process, and the way to it."""

    def __init__(self, address: str | None, cores: int) -> None:
        """Start a bridge that joins a cluster, or starts a Ray with so many cores."""
        self.key = _key(address)
        self.cores = cores
        self.is_local = address is None
        self.code = LoadedCode()  # what its stations may have loaded
        self.room = 0  # stations that Ray could hold, a core each
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._heard = time.monotonic()
        self._received = memoryview(bytearray(1 << 18))
        self._socket, theirs = socket.socketpair()
        self._wake_out, self._wake_in = socket.socketpair()
        for end in (self._socket, self._wake_out, self._wake_in):
            end.setblocking(False)
        code = _START.format(path=module_path(), fd=theirs.fileno(), address=address, cores=cores)
        self.process = subprocess.Popen(
            [sys.executable, *interpreter_flags(), "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        _all.append(self)
        try:
            self._wait_for_hello()
        except BaseException:
            self.close()
            raise

    def send(self, frame: Frame) -> None:
        """Queue a message for the bridge, and send what fits."""
        self._outgoing += frame.encode()
        self._pump()

    def receive(self, timeout: float) -> list[Frame]:
        """What has come in; waits so long for something to come."""
        for key, mask in self._selector.select(timeout):
            if key.fileobj is self._wake_out:
                with contextlib.suppress(OSError):
                    self._wake_out.recv(4096)
                continue
            if mask & selectors.EVENT_WRITE:
                self._pump()
            if mask & selectors.EVENT_READ:
                self._read()
        if time.monotonic() - self._heard > SILENT_SECONDS:
            raise BackendError(
                f"the process that speaks to Ray has said nothing for {SILENT_SECONDS:.0f} s",
                hint="see that the cluster is well, then say `runyard resume` to go on",
            )
        found = list(take_frames(self._incoming))
        for frame in found:
            if frame.kind == FAILED:
                trouble = decode_trouble(frame.content)
                raise BackendError(trouble.message, hint=trouble.hint)
        return found

    def wake(self) -> None:
        """Let a `receive` that waits return."""
        with contextlib.suppress(OSError):
            self._wake_in.send(b"w")

    def close(self, *, abandon: bool = False) -> None:
        """Close the socket, after which the bridge ends everything; wait for that."""
        if self in _all:
            _all.remove(self)
        self._selector.close()
        for end in (self._socket, self._wake_out, self._wake_in):
            end.close()
        if abandon:
            return
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            tree.kill_tree(self.process.pid)
            self.process.wait()
        self._log.close()

    def _wait_for_hello(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for frame in self.receive(0.5):
                if frame.kind == HELLO:
                    self.room = frame.number
                    return
        raise BackendError(
            f"Ray did not start within {START_SECONDS:.0f} s", hint="see what `ray status` says"
        )

    def _pump(self) -> None:
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            raise self._broken() from error
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if self._selector.get_key(self._socket).events != wanted:
            self._selector.modify(self._socket, wanted)

    def _read(self) -> None:
        try:
            size = self._socket.recv_into(self._received)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            raise self._broken()
        self._heard = time.monotonic()
        self._incoming += self._received[:size]

    def _broken(self) -> BackendError:
        last = self.last_lines()
        return BackendError(
            "the process that speaks to Ray is gone"
            + (f"; its last words:\n{last}" if last else ""),
            hint="see that the cluster's head is up, then say `runyard resume` to go on",
        )

    def last_lines(self) -> str:
        """The end of what the bridge printed."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
        return "\n".join(line.rstrip() for line in text.splitlines()[-LAST_LINES:])


def address_of(given: str | None) -> str | None:
    """The cluster to join: the one given, else `$RAY_ADDRESS`, else this process's own."""
    found = given or os.environ.get("RAY_ADDRESS") or None
    if found is not None:
        return None if found == "local" else found
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    return None


def check_installed() -> None:
    """Raise where Ray is not installed."""
    try:
        found = find_spec("ray")
    except ValueError:
        found = None
    if found is None:
        raise BackendError("Ray is not installed", hint="pip install 'runyard[ray]'")


# Warm bridges of this process, waiting for their next batch.
_taking = threading.Lock()
_idle: list[Link] = []
_all: list[Link] = []


def _key(address: str | None) -> tuple[object, ...]:
    return os.getpid(), address


def take_link(address: str | None, workers: int | None) -> Link:
    """A bridge to the cluster, warm if there is one."""
    cores = max(usable_cores(), workers or 0)
    with _taking:
        key = _key(address)
        found = next(
            (
                link
                for link in _idle
                if link.key == key
                and link.process.poll() is None
                and (link.cores >= cores or not link.is_local)
            ),
            None,
        )
        others = [link for link in _idle if link is not found]
        _idle.clear()
    for link in others:
        link.close()
    return found or Link(address, cores)


def keep_link(link: Link) -> None:
    """Let a bridge wait for the next batch."""
    with _taking:
        _idle.append(link)


def close_links() -> None:
    """End every warm bridge of this process, with the Ray that it started."""
    with interrupts.handled(signal.SIG_IGN):
        while _idle:
            _idle.pop().close()


def _forget_after_fork() -> None:
    """A forked child must not hold the sockets by which a bridge knows that we live."""
    _idle.clear()
    while _all:
        with contextlib.suppress(OSError):
            _all.pop().close(abandon=True)


atexit.register(close_links)
os.register_at_fork(after_in_child=_forget_after_fork)
