"""Helper processes of the engine, and what is kept warm between the runs of one process."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar

from runyard import interrupts
from runyard.attempt.raised import LIBRARIES
from runyard.backends import tree
from runyard.backends.channel import Poller

_KNOWN = (*LIBRARIES, str(Path(__file__).parent.parent) + os.sep)
"""Folders of code that doesn't change while this process runs: libraries, and Runyard itself."""

_START = "import sys; sys.path[:] = {path!r}; from {module} import main; main({fd}, *{args!r})"

R = TypeVar("R", bound="HelperProcess")


class WarmCache(Generic[R]):
    """Helper processes of one kind, of which some wait idle for the next run of this process.

    All idle ones are closed at exit. A forked child closes its copies of the descriptors of all:
    they see by them whether the engine lives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[R] = []
        self._idle: list[R] = []
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._abandon)

    def opened(self, resource: R) -> None:
        """A resource was opened."""
        self._open.append(resource)

    def closed(self, resource: R) -> None:
        """A resource was closed."""
        with contextlib.suppress(ValueError):
            self._open.remove(resource)

    def take(self, fits: Callable[[R], bool]) -> R | None:
        """An idle resource that fits; all other idle ones are closed."""
        with self._lock:
            found = next(filter(fits, self._idle), None)
            others = [each for each in self._idle if each is not found]
            self._idle.clear()
        for each in others:
            each.close()
        return found

    def keep(self, resource: R) -> None:
        """Let a resource wait for the next run."""
        with self._lock:
            self._idle.append(resource)

    def close(self) -> None:
        """Close all idle resources."""
        with interrupts.handled(signal.SIG_IGN):  # closing takes a moment, and must complete
            while self._idle:
                self._idle.pop().close()

    def _abandon(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it at the fork
        self._idle.clear()
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().abandon()


class HelperProcess:
    """A fresh interpreter that serves this process over a socket, and ends when it closes.

    It holds none of this process's streams: it may live a moment longer, and must not keep the
    readers of those streams waiting.
    """

    warm: ClassVar[WarmCache[Any]]
    end_seconds: ClassVar[float]
    """How long it may take to end everything that it started."""

    def __init__(
        self, module: str, *args: object, environment: Mapping[str, str] | None = None
    ) -> None:
        self.code = LoadedCode()  # what it, or a process that it started, may have loaded
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        self.poller = Poller()
        self.socket, theirs = socket.socketpair()
        code = _START.format(path=_module_path(), module=module, fd=theirs.fileno(), args=args)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *_interpreter_flags(), "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )
            self.warm.opened(self)
        except BaseException:
            self.abandon()
            raise
        finally:
            theirs.close()

    @property
    def lives(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def resume(self) -> None:
        """Continue it and its process group, if they are stopped."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGCONT)

    def last_lines(self, most: int = 5) -> str:
        """The end of what it printed."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
        return "\n".join(line.rstrip() for line in text.splitlines()[-most:])

    def close(self) -> None:
        """Close every descriptor, after which it ends everything; wait for that."""
        self.abandon()
        self.resume()
        try:
            self.process.wait(self.end_seconds)
        except subprocess.TimeoutExpired:
            tree.kill_tree(self.process.pid)
            self.process.wait()

    def abandon(self) -> None:
        """Close every descriptor."""
        self.warm.closed(self)
        self.poller.close()  # first: a forked child must not unregister what its parent waits for
        self.socket.close()
        self._log.close()


def _module_path() -> list[str]:
    """This process's module path, valid in any directory."""
    return [place or os.getcwd() for place in sys.path]


def _interpreter_flags() -> list[str]:
    """The flags of this interpreter that change what code does."""
    flags = ["-O" * bool(sys.flags.optimize == 1), "-OO" * bool(sys.flags.optimize > 1)]
    flags += ["-B" * bool(sys.flags.dont_write_bytecode), "-s" * bool(sys.flags.no_user_site)]
    flags += [f"-W{option}" for option in sys.warnoptions if option != "error"]
    return [flag for flag in flags if flag]


class LoadedCode:
    """The code that helpers may have loaded: functions they ran, and this process's own modules."""

    def __init__(self) -> None:
        self._versions: dict[str, int | str] = {**_module_files()}

    def has_changed(self, code: Mapping[str, str]) -> bool:
        """Whether a module's file, or one of these functions, has changed since the last call.

        A function may import modules that only workers have loaded; its fingerprint covers them.
        """
        before = self._versions
        now: dict[str, int | str] = {**_module_files(), **code}
        self._versions = before | now
        return any(before.get(place, version) != version for place, version in now.items())


def _module_files() -> dict[str, int]:
    """Files of the loaded modules outside the libraries, with their modification times."""
    found = {}
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if place and not place.startswith(_KNOWN):
            with contextlib.suppress(OSError):
                found[place] = os.stat(place).st_mtime_ns  # noqa: PTH116 - a third of the time
    return found
