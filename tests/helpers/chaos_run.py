"""Engines in processes of their own, everything they start, and what they leave on record."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_server import HERE, SOURCE, Started, shared_server
from polling import eventually

PROMPTLY = 30.0
"""Seconds within which what the design promises within one second must have happened, on a
machine whose cores are all busy with other things."""

ENGINE = str(HERE / "chaos_engine.py")

Row = tuple[Any, ...]


def full(*values: Any, minutes: float = 30) -> Any:
    """The parameters of a test's full version, which `make chaos` runs."""
    marks = [pytest.mark.slow, pytest.mark.timeout(60 * minutes)]
    return pytest.param(*values, marks=marks, id="full")


def small(*values: Any) -> Any:
    """The parameters of the version that runs in seconds."""
    return pytest.param(*values, id="small")


@dataclass(frozen=True)
class Scene:
    """A yard, a batch, and how it is run."""

    folder: Path
    function: str = "counted"
    tasks: int = 1000
    pace: float = 0.0
    backend: str = "processes"
    workers: int = 2
    name: str = "chaos"
    seed: int = 11
    params: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    place: Path | None = None  # of the yard, where that is not in the folder

    @property
    def yard(self) -> Path:
        return self.place or self.folder / "yard"

    @property
    def side(self) -> Path:
        return self.folder / f"executions-{self.name}"

    def executions(self) -> list[int]:
        """The numbers of the tasks that were started, in order."""
        return [int(line) for line in self.side.read_text().split()] if self.side.exists() else []

    def started(self) -> int:
        """How many executions there were so far."""
        return self.side.read_bytes().count(b"\n") if self.side.exists() else 0

    def slower(self, pace: float) -> Scene:
        return replace(self, pace=pace)

    def command(self, **more: Any) -> list[str]:
        keys = ("function", "tasks", "backend", "workers", "name", "seed", "params", "options")
        spec = {key: getattr(self, key) for key in keys} | {"yard": str(self.yard)} | more
        return [sys.executable, ENGINE, json.dumps(spec)]

    def environment(self, mark: str, **more: str) -> dict[str, str]:
        given = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}", "CHAOS_FAMILY": mark}
        # Without a cluster to join: only a Ray of its own takes over this environment.
        for name in ("RUNYARD_FAULT", "RUNYARD_YARD", "CHAOS_PACE", "CHAOS_SIDE", "RAY_ADDRESS"):
            given.pop(name, None)
        given["CHAOS_SIDE"] = str(self.side)
        given["COLUMNS"] = "100"
        if self.pace:
            given["CHAOS_PACE"] = str(self.pace)
        return {**given, **more}


def start(
    command: list[str], scene: Scene, env: dict[str, str], files: list[int], *, terminal: bool
) -> Started | subprocess.Popen[bytes]:
    """A program in a session of its own; an engine and the command line start without imports."""
    known = {ENGINE: (2, "engine"), "-m": (3, "runyard")}.get(command[1])
    if known is None or scene.backend == "ray":  # which starts processes as it finds its own
        launch = [sys.executable, "-c", _LAUNCH] if terminal else []
        return subprocess.Popen(
            [*launch, *command], env=env, cwd=scene.folder, start_new_session=True,
            stdin=files[0], stdout=files[1], stderr=files[2],
        )  # fmt: skip
    skipped, program = known
    return shared_server().start(
        command[skipped:], files, folder=scene.folder, env=env, program=program,
        is_terminal=terminal,
    )  # fmt: skip


_LAUNCH = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Engine:
    """A running engine and its family: every process that it started, however far removed."""

    def __init__(self, scene: Scene, *, command: list[str] | None = None, fault: str | None = None,
                 **more: Any) -> None:  # fmt: skip
        self.scene = scene
        self.mark = uuid.uuid4().hex
        scene.folder.mkdir(parents=True, exist_ok=True)
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        extra = {"RUNYARD_FAULT": fault} if fault else {}
        with Path(os.devnull).open("rb") as nothing:
            self.process = start(
                command or scene.command(**more), scene, scene.environment(self.mark, **extra),
                [nothing.fileno(), self._out.fileno(), self._err.fileno()], terminal=False,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return _text(self._out) + _text(self._err)

    @property
    def told(self) -> dict[str, Any]:
        """The last JSON document that it printed."""
        lines = [line for line in _text(self._out).splitlines() if line.startswith("{")]
        assert lines, f"the engine said nothing: {self.output}"
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = 100.0) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the engine does not end: {self.output}") from None

    def kill(self) -> float:
        """End it by SIGKILL; seconds until everything that it started was gone."""
        self.process.kill()
        self.process.wait()
        return self.gone()

    def gone(self) -> float:
        """Seconds until nothing of its family runs; an error after the promised time."""
        begin = time.monotonic()
        assert eventually(lambda: not family(self.mark), PROMPTLY), (
            f"left behind: {[describe(pid) for pid in family(self.mark)]}"
        )
        return time.monotonic() - begin

    def until_started(self, count: int, seconds: float = 60.0) -> bool:
        """Wait for so many executions; False when the engine ended before."""
        assert eventually(lambda: self.scene.started() >= count or not self.lives, seconds), (
            f"nothing happens: {self.output}"
        )
        return self.lives

    def guard(self) -> int:
        """The process id of the guard."""
        found: list[int] = []  # of one look: it may end before the next
        assert eventually(lambda: found.extend(_supervisors(self.pid)) or found, 60), self.output
        return found[0]

    def supervisor(self) -> int:
        """The process id of the supervisor."""
        found: list[int] = []
        assert eventually(lambda: found.extend(_grandchildren(self.pid)) or found, 60), self.output
        return found[0]

    def workers(self) -> set[int]:
        """The worker processes that run now."""
        supervisors = _grandchildren(self.pid)
        return {pid for supervisor in supervisors for pid in _children(supervisor) if runs(pid)}

    def close(self) -> None:
        for pid in family(self.mark):
            _signal(pid, signal.SIGKILL)
        if self.lives:
            self.process.kill()
        self.process.wait()
        self._out.close()
        self._err.close()


@contextmanager
def engine(scene: Scene, **more: Any) -> Iterator[Engine]:
    """An engine that is gone afterwards, with everything it started."""
    started = Engine(scene, **more)
    try:
        yield started
    finally:
        started.close()


def finish(scene: Scene, seconds: float = 100.0) -> dict[str, Any]:
    """Run the batch to its end; what the engine told."""
    with engine(scene) as last:
        code = last.wait(seconds)
        assert code == 0, last.output
        last.gone()
        return last.told


@cache
def _digest(function: str, tasks: int, seed: int, params: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(
            Path(folder), function, tasks, seed=seed, params=json.loads(params), name="unbroken"
        )
        return str(finish(scene)["digest"])


def unbroken(scene: Scene) -> str:
    """The digest of the same batch when nothing disturbs it."""
    return _digest(scene.function, scene.tasks, scene.seed, json.dumps(scene.params))


# Processes


def family(mark: str) -> list[int]:
    """Processes that carry this mark in their environment and run."""
    wanted = f"CHAOS_FAMILY={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes() and runs(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def runs(pid: int) -> bool:
    """Whether there is such a process, and more of it than an exit code."""
    try:
        return bool(psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.Error:
        return False


def describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} {process.status()} {process.cmdline()}"
    except psutil.Error:
        return f"{pid} (gone)"


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def _supervisors(pid: int) -> list[int]:
    found = []
    for child in _children(pid):
        try:
            if "runyard.backends.supervisor" in " ".join(psutil.Process(child).cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


def _grandchildren(pid: int) -> list[int]:
    """The supervisors below an engine."""
    return [supervisor for guard in _supervisors(pid) for supervisor in _supervisors(guard)]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


# The record


@dataclass(frozen=True)
class Photograph:
    """A store's content at one moment."""

    outcomes: dict[tuple[int, int], Row]
    claims: list[Row]
    attempts: list[Row]
    engines: list[Row]

    @property
    def tasks(self) -> set[int]:
        """Numbers of the tasks with an outcome; for a yard with one batch."""
        return {task for _, task in self.outcomes}

    def claimed(self) -> set[int]:
        """Numbers that an engine holds, or that nobody has let go."""
        return {n for _, _, low, high, *_ in self.claims for n in range(low, high)}

    def assert_within(self, later: Photograph) -> None:
        """Everything recorded here is recorded there, to the byte."""
        changed = {key for key, row in self.outcomes.items() if later.outcomes.get(key) != row}
        assert not changed, f"lost or changed: {sorted(changed)[:10]}"


def photograph(yard: Path) -> Photograph:
    """What a store without an engine holds, from copies: nothing of it is touched."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("yard.db", "yard.db-wal"):
            if (yard / name).exists():
                shutil.copyfile(yard / name, Path(folder, name))
        return look(Path(folder))


def look(yard: Path, uri: str = "") -> Photograph:
    """What a store holds; with an engine on it too."""
    if not (yard / "yard.db").exists():
        return Photograph({}, [], [], [])
    connection = sqlite3.connect(f"file:{yard / 'yard.db'}?{uri}", uri=True, timeout=30)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "outcomes" not in tables:
            return Photograph({}, [], [], [])
        rows = connection.execute("SELECT * FROM outcomes").fetchall()
        outcomes = {(row[0], row[1]): row for row in rows}
        assert len(outcomes) == len(rows), "an outcome is recorded twice"
        others = [
            connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("claims", "attempts", "engines")
        ]
        return Photograph(outcomes, *others)
    finally:
        connection.close()


def watch(yard: Path) -> Photograph:
    """What a store holds while an engine works on it."""
    return look(yard, "mode=ro")


def assert_sound(scene: Scene) -> None:
    """The store and the audit log hold what was written, and nothing temporary is left."""
    from runyard import Yard
    from runyard.events import verify

    with Yard(scene.yard) as yard:
        assert list(yard.store.check()) == []
        report = verify(yard.batch_folder(scene.name) / "events.jsonl")
    assert report.ok, report
    left = [path.name for path in (scene.yard / "run").glob("*")]
    assert not left, f"left in the yard: {left}"


def doubles(executions: list[int]) -> Counter[int]:
    """Tasks that were started more than once, and how often more."""
    return Counter({task: n - 1 for task, n in Counter(executions).items() if n > 1})


def _text(file: Any) -> str:
    """All of it, without moving the place where the child writes."""
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
