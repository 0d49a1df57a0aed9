"""The command line as a process of its own, forked from one that has it loaded already.

    test ── words, folder, environment, descriptors ──▶ server ─fork─▶ keeper ─fork─▶ runyard
     ◀──────────────────── pid, then exit code ─────────────────────────┘

A fork costs a few milliseconds; starting an interpreter and importing the package half a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

PATIENCE = 60.0
CONTENT = 1 << 20


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class CommandServer:
    """Runs commands; the test's side."""

    def __init__(self, address: str) -> None:
        self._address = address

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
            [sys.executable, __file__, address], env={**env, "PYTHONHASHSEED": "0"},
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


def _serve(address: str) -> None:
    """Accept commands until the test session closes our stdin."""
    import selectors

    for module in ("main", "run", "resume", "results", "status", "logs", "verify", "repro"):
        __import__(f"runyard.cli.{module}")
    for module in ("runyard.yard", "runyard.worker", "runyard.reports.metrics"):
        __import__(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers end by themselves
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    print("ready", flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
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
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, descriptors, _, _ = socket.recv_fds(connection, CONTENT, 3)
    while part := connection.recv(CONTENT):
        content += part
    asked = json.loads(content)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(asked["words"], asked["folder"], asked["env"], descriptors)
    for descriptor in [0, 1, 2, *descriptors]:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(words: list[str], folder: str, env: dict[str, str], descriptors: list[int]) -> NoReturn:
    """What `python -m runyard WORDS` would be in that folder."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = folder
    sys.argv = ["runyard", *words]
    from runyard.cli.main import main

    sys.exit(main())


if __name__ == "__main__":
    _serve(sys.argv[1])
