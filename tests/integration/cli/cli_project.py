"""A project folder with a few functions, and the command line as a real process in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from command_server import PATIENCE, CommandServer, Started

import runyard

FUNCTIONS = '''
"""Functions that the tests run."""
import sys
import time
from pathlib import Path

import runyard as ry


def square(x):
    return x * x


def toss(ctx, coins):
    return {"heads": int(ctx.rng.integers(0, 2, coins).sum())}


def picky(x):
    if x % 4 == 3:
        raise ValueError(f"{x} is no good")
    return x


def gated(x):
    """Ends when there is a file named go."""
    Path("marks").mkdir(exist_ok=True)
    Path("marks", str(x)).touch()
    until = time.monotonic() + 60
    while not Path("go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return x


def dawdle(x):
    Path("marks").mkdir(exist_ok=True)
    Path("marks", str(x % 5)).touch()
    time.sleep(0.02)
    return x


def unencodable(x):
    return {"fields": {x}}


def chatty(ctx, x):
    print("out", x)
    print("err", x, file=sys.stderr)
    ctx.emit("step", number=x)
    return x


def flaky(ctx, x):
    print("attempt", ctx.attempt)
    if ctx.attempt < 1:
        raise RuntimeError("not yet")
    return ctx.attempt


@ry.task(retries=2)
def stubborn(ctx):
    if ctx.attempt < 2:
        raise RuntimeError("not yet")
    return ctx.attempt


def named(name, seed, params):
    return [name, seed, params]


def spacious(ctx, x):
    (ctx.workspace / "note.txt").write_text(str(x))
    return x


def from_file():
    return int(Path("answer.txt").read_text())


async def later(x):
    raise LookupError(f"{x} is not there")
'''


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> dict[str, Any]:
        """The last JSON line."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Every JSON line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Project:
    """A folder in which `runyard` is called."""

    def __init__(self, folder: Path, server: CommandServer) -> None:
        self.folder = folder
        (folder / "jobs.py").write_text(FUNCTIONS)
        self.env = project_env()
        self._server = server
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *words: str, stdin: str | None = None, **env: str) -> Answer:
        """Run a command to its end."""
        return Answer(
            *self._server.run(words, folder=self.folder, env=self.env | env, stdin=stdin or "")
        )

    def shown(self, *words: str, stdin: int, stdout: int, stderr: int, **env: str) -> Started:
        """Start a command on these descriptors, as wide and as colourful as they are."""
        own = {k: v for k, v in self.env.items() if k not in ("COLUMNS", "NO_COLOR")}
        return self._server.start(
            words, [stdin, stdout, stderr], folder=self.folder,
            env=own | {"TERM": "xterm-256color"} | env,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Run a command on the side, its stderr in a file of its own."""
        with (self.folder / "stderr").open("w") as errors:
            process = subprocess.Popen(
                self.command(*words), cwd=self.folder, env=self.env, text=True,
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        self._started.append(process)
        return process

    @staticmethod
    def command(*words: str) -> list[str]:
        """The words as a process gets them."""
        return [sys.executable, "-m", "runyard", *words]

    def batch(self, name: str) -> Path:
        """A batch's folder."""
        return self.folder / ".runyard" / "batches" / name

    def marks(self) -> int:
        """How many gated tasks have started."""
        return len(list((self.folder / "marks").glob("*")))

    def open_gate(self) -> None:
        """Let the gated tasks end."""
        (self.folder / "go").touch()

    def said(self, text: str) -> bool:
        """Whether the process on the side has said this on stderr."""
        return text in (self.folder / "stderr").read_text()

    def close(self) -> None:
        """Leave no process behind."""
        self.open_gate()
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)


def project_env() -> dict[str, str]:
    """The environment of a project's commands."""
    source = str(Path(runyard.__file__).parents[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RUNYARD")}
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)
    return kept | {"PYTHONPATH": path, "PYTHONWARNINGS": "error", "COLUMNS": "100"}


def until(condition: Callable[[], Any]) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
