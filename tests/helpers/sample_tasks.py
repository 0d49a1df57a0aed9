"""Functions that tests run as tasks; worker processes find them here by import.

Where a task and its test have to wait for each other they do so through files in a folder: a task
says `started-3`, the test says `release`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import runyard as ry
from runyard.errors import CommandFailed

PATIENCE = 60.0
"""No task waits longer than this for its test."""


def double(x: int) -> int:
    return 2 * x


def tossed(ctx: ry.Context, coins: int) -> dict[str, Any]:
    return {"heads": int(ctx.rng.integers(0, 2, coins).sum())}


def in_the_order_of_a_set(x: int) -> str:
    return " ".join({f"word-{x}-{i}" for i in range(30)})


def either_way(x: int) -> str:
    return f"{x} called"


async def _awaited(x: int) -> str:
    await asyncio.sleep(0)
    return f"{x} awaited"


either_way.as_coroutine = lambda x: _awaited(x) if x % 2 else None  # type: ignore[attr-defined]


# Waiting


def say(folder: str, what: str) -> None:
    Path(folder, what).touch()


def wait_for(folder: str, what: str) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not Path(folder, what).exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def note(folder: str, line: object) -> None:
    """Append a line; what several processes append at once is not mixed."""
    file = os.open(Path(folder, "notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def notes(folder: str | Path) -> list[str]:
    """What tasks have noted so far."""
    path = Path(folder, "notes")
    return path.read_text().split() if path.exists() else []


def noted(folder: str, x: Any) -> Any:
    note(folder, x)
    return x


def held(folder: str, x: int) -> int:
    """Says that it has started, then waits to be released."""
    note(folder, x)
    say(folder, f"started-{x}")
    wait_for(folder, "release")
    say(folder, f"ended-{x}")
    return x


def first_held(folder: str, x: int) -> int:
    """Only the first task waits."""
    if x == 0:
        return held(folder, x)
    note(folder, x)
    return x


def seeded_first_held(ctx: ry.Context, folder: str, x: int, y: int = 0) -> list[int]:
    """Its parameters and its seed; only the first task waits."""
    if ctx.task == 0:
        held(folder, 0)
    return [x, y, ctx.seed]


def paced(folder: str, x: int) -> int:
    """Takes its time until somebody says `hurry`."""
    note(folder, x)
    if not Path(folder, "hurry").exists():
        time.sleep(0.02)
    return x


def told_to_cancel(ctx: ry.Context, folder: str) -> str:
    """Ends when it is told to, through `on_cancel`."""
    told: list[bool] = []
    ctx.on_cancel(lambda: told.append(True))
    ctx.on_cancel(lambda: say(folder, "told"))
    say(folder, "started")
    deadline = time.monotonic() + PATIENCE
    while not told and time.monotonic() < deadline:
        time.sleep(0.002)
    say(folder, "ended")
    return "late"


async def held_coroutine(folder: str, x: int) -> int:
    note(folder, x)
    say(folder, f"started-{x}")
    deadline = time.monotonic() + PATIENCE
    while not Path(folder, "release").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
    return x


# Failing


class Unlucky(OSError):
    pass


def fails(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x


def fails_in_a_library(text: str) -> Any:
    return json.loads(text)


def fails_until(ctx: ry.Context, attempts: int) -> int:
    if ctx.attempt < attempts:
        raise Unlucky(f"attempt {ctx.attempt}")
    return ctx.attempt


def raises(kind: str) -> None:
    if kind == "Unlucky":
        raise Unlucky("bad luck")
    if kind == "FileNotFoundError":
        raise FileNotFoundError("nothing there")
    raise KeyError(kind)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raises_strangely(how: str) -> None:
    if how == "exit":
        sys.exit(3)
    if how == "exit text":
        raise SystemExit("goodbye")
    if how == "unprintable":
        raise Unprintable
    if how == "surrogate":
        raise ValueError("\ud800 bad")
    if how == "group":
        raise ExceptionGroup("several", [ValueError("1"), KeyError("2")])
    if how == "cancelled":
        raise asyncio.CancelledError
    if how == "generator":
        raise GeneratorExit
    if how == "stop":
        raise StopIteration
    if how == "interrupt":
        raise KeyboardInterrupt
    raise ValueError("x" * 100_000)


async def raises_strangely_later(how: str) -> None:
    await asyncio.sleep(0)
    raises_strangely(how)


def returns(what: str) -> Any:
    return {"set": {1}, "nested": {"a": [1, object()]}, "function": len, "fine": [1]}[what]


# Telling


def emits(ctx: ry.Context, x: int) -> int:
    for step in range(5):
        ctx.emit("step", number=step, x=x, array=[step] * 2)
    return x


def emits_and_waits(ctx: ry.Context, folder: str, x: int) -> bool:
    """The early ones emit; the last ones wait until somebody has heard that."""
    ctx.emit("hello", x=x)
    return wait_for(folder, "heard") if x >= 30 else True


def knows_itself(ctx: ry.Context, x: int) -> dict[str, Any]:
    same = deep_inside()
    ctx.workspace.joinpath("mine").write_text(str(x))
    return {
        "seed": ctx.seed,
        "numbers": ctx.rng.integers(0, 1000, 5).tolist(),
        "attempt": ctx.attempt,
        "task": ctx.task,
        "batch": ctx.batch,
        "params": ctx.params["x"],
        "same": same is ctx,
        "same_rng": ctx.rng is same.rng,
        "alone": [path.name for path in ctx.workspace.iterdir()],
        "workspace": str(ctx.workspace),
        "folder": str(ctx.folder),
        "shown": repr(ctx),
    }


def deep_inside() -> ry.Context:
    return [ry.context() for _ in range(1)][0]


def without_context(x: int) -> int:
    return int(ry.context().rng.integers(0, 2**40)) + x * 0


def logs(ctx: ry.Context, x: int) -> None:
    ctx.log.info("at %d", x)
    ctx.log.warning("careful")


async def later(ctx: ry.Context, x: int) -> dict[str, Any]:
    await asyncio.sleep(0.001)
    print(f"coroutine {x}")
    ctx.emit("slept", x=x)
    if x % 5 == 4:
        raise ValueError(f"{x} is bad")
    return {"x": x, "number": int(ctx.rng.integers(0, 2**40)), "same": ry.context() is ctx}


class Adder:
    """A task may be any callable, this one a coroutine function in disguise."""

    def __init__(self, more: int) -> None:
        self.more = more

    async def __call__(self, x: int) -> int:
        await asyncio.sleep(0)
        return x + self.more


def fails_with_a_value(ctx: ry.Context, x: int) -> None:
    value = object() if x else {"timeout": ctx.timeout}
    raise CommandFailed("no", value=value, trace="line 3 of something else")


# Printing


def prints(x: int) -> None:
    print(f"out {x}")
    print("more")
    print(f"err {x}", file=sys.stderr)


def prints_on_each_attempt(ctx: ry.Context) -> None:
    print(f"attempt {ctx.attempt}")
    if ctx.attempt < 2:
        raise Unlucky


def prints_strangely(x: int) -> int:
    sys.stdout.buffer.write(b"\xff\x00\xfe")
    sys.stdout.flush()
    print("\ud800 lone")
    sys.stdout.write("no newline")
    return x


def prints_past_python(x: int) -> None:
    os.write(1, f"descriptor {x}\n".encode())


def prints_from_a_child(x: int) -> None:
    os.system(f"echo child {x}")


def prints_much(size: int) -> None:
    for _ in range(size // 1000):
        sys.stdout.write("x" * 999 + "\n")


def closes_stdout(x: int) -> int:
    if x == 0:
        sys.stdout.close()
    else:
        print(f"still here {x}")
    return x


# Files


def writes_a_file(ctx: ry.Context, x: int) -> list[str]:
    (ctx.workspace / "made").write_text("x")
    if x % 2:
        raise ValueError("odd")
    return sorted(path.name for path in ctx.workspace.iterdir())


def where_am_i(ctx: ry.Context) -> dict[str, str]:
    Path("made-here").write_text("x")
    return {"cwd": str(Path.cwd()), "workspace": str(ctx.workspace)}


def cwd() -> str:
    return str(Path.cwd())


# Harm


def kills_its_worker(folder: str, x: int) -> int:
    note(folder, x)
    if x == 3:
        os._exit(7)
    return x


def hangs_with_children(folder: str, x: int) -> int:
    """Ignores SIGTERM and leaves a daemonised child behind."""
    import signal
    import subprocess

    if x != 2:
        return x
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    double_fork = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    print(os.getpid(), flush=True)\n    time.sleep(300)"
    )
    script = subprocess.Popen(
        [sys.executable, "-c", double_fork], stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None
    Path(folder, "pids").write_text(f"{os.getpid()} {child.pid} {script.stdout.readline().strip()}")
    while True:
        time.sleep(1)


def allocates(megabytes: int) -> int:
    block = np.ones(megabytes * 131_072)
    return int(block.nbytes)


def sleeps(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


# Parity


def mixed(ctx: ry.Context, folder: str, x: int) -> Any:
    """Numbers, failures, retries, events, arrays and NaN, as the task's number has it.

    Takes its time unless somebody said `hurry`.
    """
    if not Path(folder, "hurry").exists():
        time.sleep(0.003)
    kind = x % 8
    number = float(ctx.rng.normal())
    if kind == 0:
        return {"number": number, "nan": float("nan"), "inf": float("-inf")}
    if kind == 1:
        return ctx.rng.random((3, 2))
    if kind == 2:
        ctx.emit("seen", number=number, x=x)
        return [x, number, (x, "text")]
    if kind == 3:
        raise (ValueError if number > 0 else KeyError)(f"{x}: {number}")
    if kind == 4:
        if ctx.attempt < 1 + x % 2:
            raise Unlucky(str(ctx.attempt))
        return {"attempt": ctx.attempt, "number": number}
    if kind == 5:
        return np.array([number, np.nan], dtype=np.float32)
    if kind == 6:
        return ctx.seed
    print(x, number)
    return None if x % 3 else {"big": 2**80 + x, 3: b"bytes", "int": np.int16(x % 100)}


def slow_pid(x: int) -> int:
    time.sleep(0.005)
    return os.getpid()
