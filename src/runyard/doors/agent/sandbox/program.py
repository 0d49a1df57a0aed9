"""Run an untrusted program: limited, isolated and monitored.

The levels, and what each restricts (docs/agent.md says what it does not):

    process      CPU, memory, processes, file size, disk and output; its own user where this process
                 is root; its own process namespace where the kernel allows
    bubblewrap   in addition, its own view of the file system, and no network
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil

from runyard.attempt.context import Context
from runyard.doors.agent.inputs.arguments import BadCall
from runyard.doors.agent.inputs.settings import CodeLimits, Settings
from runyard.doors.agent.sandbox.cgroups import cgroups
from runyard.doors.agent.sandbox.footprint import excess, family, let_in, parked
from runyard.doors.agent.sandbox.jail import FIRST_UID
from runyard.spaces import OutOfReach, remove_tree, walk

TICK = 0.05
LOOK_TICKS = 10
"""Ticks between two checks of the program's resource use."""

PARKED_LOOKS = 4
"""Checks in a row after which open files in transit between processes count as hidden."""

SCRATCH = ".tmp"
"""The workspace folder that the program sees as /tmp, so that one limit covers both."""

DUMP_SECONDS = 1.0
"""How long a program may take to print its traceback."""

LATE = "timed out"

_JAIL = Path(__file__).with_name("jail.py")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives",
           "/etc/ld.so.cache", "/etc/ssl")  # fmt: skip


class ProgramResult(NamedTuple):
    """How a program ended."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    ended: str | None  # why it was killed, if it was; LATE: time limit
    isolation: dict[str, Any]  # the level, and which protections are in force


def level_of(settings: Settings) -> str:
    """The isolation level in force; an unavailable level is refused."""
    chosen = settings.isolation or ("bubblewrap" if shutil.which("bwrap") else "process")
    if chosen == "bubblewrap" and not shutil.which("bwrap"):
        raise BadCall(
            "isolation level bubblewrap: bwrap is not installed",
            hint="install bubblewrap, or set isolation in agent.toml",
        )
    if chosen == "none":
        raise BadCall(
            "code is not run at isolation level none",
            hint='set isolation = "process" or "bubblewrap" in the yard\'s agent.toml',
        )
    return chosen


def run(
    argv: Sequence[str],
    ctx: Context,
    settings: Settings,
    *,
    seconds: float | None = None,
    address_space: bool = True,
    reach: Sequence[str] = (),
    dumps: bool = False,
) -> ProgramResult:
    """Run a program in the task's workspace until it ends or exceeds a limit.

    A program that `dumps` prints its traceback on SIGABRT, which it gets when it times out.
    """
    level, limits = level_of(settings), settings.limits
    workspace = ctx.workspace
    places = [str(workspace), *reach]
    command = list(argv)
    if level == "bubblewrap":
        command = [*_bubblewrap(workspace, reach), *argv]
    (workspace / SCRATCH).mkdir()
    report, theirs = os.pipe()
    with cgroups(limits) as groups, contextlib.ExitStack() as stack:
        stack.callback(os.close, report)
        order = {
            "argv": command, "cwd": str(workspace), "env": _environment(settings, workspace),
            "limits": _rlimits(limits, address_space=address_space), "reach": places,
            "scratch": SCRATCH, "cgroups": groups, "report": theirs,
            "closes_namespaces": level != "bubblewrap",  # bwrap does so itself, and needs one
        }  # fmt: skip
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_JAIL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs],
            env={},  # the code must find nothing but what is in the order
            start_new_session=True,
        )
        os.close(theirs)
        stack.callback(_clean_up, process, workspace)
        ctx.on_cancel(lambda: _end(process))
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(order).encode())
        streams = [_Stream(process.stdout, limits.output), _Stream(process.stderr, limits.output)]
        facts = json.loads(os.read(report, 4096) or b"{}")
        until = math.inf if seconds is None else began + seconds
        ended = _watch(process, streams, workspace, limits, until)
        if ended is not None:
            if ended == LATE and dumps:
                _dump(process, argv)
            _end(process)
            process.wait()
        texts = [stream.text() for stream in streams]
    isolation = {"level": level, **facts}
    took = time.monotonic() - began
    return ProgramResult(process.returncode, texts[0], texts[1], took, ended, isolation)


def _watch(
    process: subprocess.Popen[bytes],
    streams: Sequence[_Stream],
    workspace: Path,
    limits: CodeLimits,
    until: float,
) -> str | None:
    """Wait until it ends or exceeds a limit that the kernel doesn't enforce; return which."""
    ticks = looks = 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(TICK, until - time.monotonic())))
            return excess((), workspace, limits)
        ticks += 1
        if any(stream.is_over for stream in streams):
            return f"printed more than {limits.output:,} bytes"
        if ticks % LOOK_TICKS == 0:
            here = family(process.pid)
            sent = parked(here)
            looks = looks + 1 if sent else 0
            out_of_sight = sent if looks >= PARKED_LOOKS else 0
            if found := excess(here, workspace, limits, parked=out_of_sight):
                return found
        if time.monotonic() >= until:
            return LATE


def _dump(process: subprocess.Popen[bytes], argv: Sequence[str]) -> None:
    """Make the program print its traceback."""
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True):
            if each.cmdline() == list(argv):
                each.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(DUMP_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it with all that it started. Also called from a signal handler: it must not block."""
    if process.returncode is not None:
        return
    try:
        found = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        found = []
    process.kill()
    for each in found:
        with contextlib.suppress(psutil.Error):
            each.kill()


def _clean_up(process: subprocess.Popen[bytes], workspace: Path) -> None:
    """Leave nothing running, and give the workspace back to this user."""
    _end(process)
    process.wait()
    let_in(workspace)
    remove_tree(workspace / SCRATCH)
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(workspace, 0, 0)
    try:
        for found in walk(workspace):
            # Only what the code made: the target of a link keeps its owner.
            if is_root and found.status.st_uid >= FIRST_UID:
                os.chown(found.name, 0, 0, dir_fd=found.folder, follow_symlinks=False)
    except OutOfReach:  # what can't be inspected is not kept
        remove_tree(workspace)
        workspace.mkdir()


class _Stream:
    """Reads what a program prints on one stream, and keeps it up to a limit."""

    def __init__(self, pipe: IO[bytes] | None, most: int) -> None:
        assert pipe is not None
        self._pipe = pipe
        self._most = most
        self._kept = bytearray()
        self.is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True, name="runyard-output")
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._pipe:
            while data := os.read(self._pipe.fileno(), 1 << 16):
                room = self._most - len(self._kept)
                self._kept += data[:room]
                self.is_over |= len(data) > room

    def text(self) -> str:
        self._thread.join()
        return self._kept.decode(errors="replace")


def _rlimits(limits: CodeLimits, *, address_space: bool) -> dict[str, int]:
    memory = "AS" if address_space else "DATA"
    cpu = max(1, round(limits.cpu))
    return {
        "CPU": cpu, memory: limits.memory, "NPROC": limits.processes, "FSIZE": limits.file_size,
        "CORE": 0, "NOFILE": 256,
    }  # fmt: skip


def _environment(settings: Settings, workspace: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in settings.environment if name in os.environ}
    own = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(workspace), "TMPDIR": str(workspace),
        "LANG": "C.UTF-8",
    }  # fmt: skip
    return {**own, **kept}


def _bubblewrap(workspace: Path, reach: Sequence[str]) -> list[str]:
    """The command prefix that gives a program its own file system view and no network.

    It can only write to its workspace: all other writable places are mounted from there.
    """
    scratch = str(workspace / SCRATCH)
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    if _closes_namespaces():
        words += ["--unshare-user", "--disable-userns"]
    # Before the mounts below: the interpreter itself may be below /tmp.
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108
        words += ["--bind", scratch, place]
    for place in dict.fromkeys([*_SYSTEM, *reach]):
        path = Path(place)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), place]
        elif path.exists():
            words += ["--ro-bind", place, place]
    words += ["--bind", str(workspace), str(workspace), "--chdir", str(workspace)]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--"]


@functools.cache
def _closes_namespaces() -> bool:
    """Whether this bubblewrap can keep the program from mounting file systems."""
    said = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in said.stdout + said.stderr
