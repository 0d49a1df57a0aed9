"""The command line as a process of its own, forked from one that has it loaded already.

    test ── words, folder, environment, descriptors ──▶ server ─fork─▶ keeper ─fork─▶ runyard
     ◀──────────────────── pid, then exit code ─────────────────────────┘

A fork costs a few milliseconds; starting an interpreter and importing the package half a second.
The engines of the chaos tests are started in the same way, each in a session of its own and with
the mark of its family where `/proc` shows it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

PATIENCE = 100.0
CONTENT = 1 << 20
HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"
MARK = "CHAOS_FAMILY"
NO_MARK = "0" * 32

LOADED = [
    *(f"runyard.cli.{name}" for name in ("main", "run", "resume", "results", "status", "logs",
      "check", "compare", "export", "upkeep", "control")),
    *(f"runyard.backends.{name}" for name in ("serial", "threads", "asynchronous", "processes")),
    "runyard.yard", "runyard.worker", "runyard.reports.metrics", "runyard.reports.export",
    "runyard.reports.versions", "runyard.reports.html", "runyard.stats.summary",
    "runyard.store.sqlite", "runyard.store.check", "runyard.store.compact", "numpy.random",
]  # fmt: skip
"""What commands import sooner or later."""


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Started:
    """A program that the server started; like `Popen`, as far as tests need it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, if it did."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._hear()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _hear(self) -> None:
        self.returncode = int(self._answers.readline())
        self._answers.close()
        self._connection.close()


class CommandServer:
    """Runs commands; the test's side."""

    def __init__(self, address: str) -> None:
        self._address = address

    def start(
        self, words: Sequence[str], descriptors: Sequence[int], *, folder: Path,
        env: Mapping[str, str], program: str = "runyard", is_terminal: bool = False,
    ) -> Started:  # fmt: skip
        """Start a program in a session of its own: `runyard`, or the chaos tests' engine."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        asked = {"words": list(words), "folder": str(folder), "env": dict(env), "program": program,
                 "session": True, "terminal": is_terminal}  # fmt: skip
        socket.send_fds(connection, [json.dumps(asked).encode()], list(descriptors))
        connection.shutdown(socket.SHUT_WR)
        return Started(connection)

    def run(
        self, words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str = ""
    ) -> Ended:
        """Run a command to its end."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(PATIENCE)
            connection.connect(self._address)
            asked = {"words": list(words), "folder": str(folder), "env": dict(env)}
            descriptors = [file.fileno() for file in files]
            socket.send_fds(connection, [json.dumps(asked).encode()], descriptors)
            connection.shutdown(socket.SHUT_WR)
            answers = connection.makefile()
            pid = int(answers.readline())
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), PATIENCE) from None
            return Ended(code, *(_text(file.fileno()) for file in files[1:]))


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode().replace("\r\n", "\n")


@contextlib.contextmanager
def command_server(env: Mapping[str, str]) -> Iterator[CommandServer]:
    """A server whose interpreter was started in this environment; gone with the block."""
    with tempfile.TemporaryDirectory(prefix="cli-") as folder:
        address = str(Path(folder, "socket"))
        # With the hash seed that commands want: else they would start again with it.
        process = subprocess.Popen(
            [sys.executable, __file__, address],
            env={**env, "PYTHONHASHSEED": "0", MARK: NO_MARK},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield CommandServer(address)
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait(PATIENCE)


_shared = contextlib.ExitStack()
_servers: list[CommandServer] = []


def shared_server() -> CommandServer:
    """The server that engines of this test session come from."""
    if not _servers:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RUNYARD", "CHAOS"))}
        kept["PYTHONPATH"] = f"{HERE}{os.pathsep}{SOURCE}"
        _servers.append(_shared.enter_context(command_server(kept)))
    return _servers[0]


def close_servers() -> None:
    """End the server of this session, if there is one."""
    _servers.clear()
    _shared.close()


def _serve(address: str) -> None:
    """Accept commands until the test session closes our stdin."""
    import selectors

    for module in LOADED:
        __import__(module)
    gc.collect()
    gc.freeze()  # so that children need not copy what they share with us
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    while True:
        with contextlib.suppress(ChildProcessError):  # keepers end by themselves
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for key, _ in selector.select(1.0):
            if key.fileobj == 0:
                listener.close()
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                selector.close()
                listener.close()
                _keep(connection)
            connection.close()


def _keep(connection: socket.socket) -> NoReturn:
    """Start one command, and tell its pid and how it ended."""
    content, descriptors, _, _ = socket.recv_fds(connection, CONTENT, 3)
    while part := connection.recv(CONTENT):
        content += part
    asked = json.loads(content)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(asked, descriptors)
    for descriptor in [0, 1, 2, *descriptors]:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """What a program of its own with these words would be in that folder."""
    words, folder, env = asked["words"], asked["folder"], asked["env"]
    if asked.get("session"):
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if asked.get("terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    if MARK in env:
        _show_mark(env[MARK])
    os.environ.clear()
    os.environ.update(env)
    if asked.get("program") == "engine":
        import chaos_engine

        from runyard import faults

        faults._arm_from_environment()
        sys.exit(chaos_engine.main(json.loads(words[0])))
    if env.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    sys.path[0] = folder
    sys.argv = ["runyard", *words]
    from runyard.cli.main import main

    sys.exit(main())


def _show_mark(mark: str) -> None:
    """Write over the mark that this process was started with: `/proc` shows that very memory."""
    assert len(mark) == len(NO_MARK)
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    ctypes.memmove(getenv(MARK.encode()), mark.encode(), len(mark))


if __name__ == "__main__":
    _serve(sys.argv[1])
