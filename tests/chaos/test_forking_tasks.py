"""A process that a task forks ends with the call: it becomes no second worker or engine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = """
import ctypes, multiprocessing, os, signal, sys, threading, time
import runyard as ry

COUNT = 60

def fork_in_c():
    # Python hangs in the child if another thread has asked for the interpreter lock.
    before = sys.getswitchinterval()
    sys.setswitchinterval(600)
    time.sleep(0.02)  # threads that ask already get it
    child = ctypes.PyDLL(None).fork()
    sys.setswitchinterval(before)
    return child

def forks(x, how):
    if x % 20 != 7:
        return x
    found = []
    def fork():
        child = fork_in_c() if how.startswith("C") else os.fork()
        if child == 0:
            print("child of", x)
            if how in ("raises", "C raises"):
                raise ValueError("only in the child")
            if how == "exits":
                sys.exit(7)
            if how == "forks again":
                grandchild = os.fork()
                if grandchild == 0:
                    print("grandchild of", x)
                else:
                    os.waitpid(grandchild, 0)
            if how == "interrupted":
                os.kill(os.getpid(), signal.SIGINT)
            if how == "prints no line":
                print("no line", end="")
            return
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if how == "in a thread":
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    else:
        fork()
    return found[0] if found else None

async def awaits(x, how):
    return forks(x, how)

def shares(x):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(abs, (-x,))

CODES = {
    "returns": 0, "raises": 1, "exits": 7, "forks again": 0, "in a thread": 0, "prints no line": 0,
    "interrupted": 1, "C returns": 0, "C raises": 1,
}

backend, places = sys.argv[1], ("returns", "raises", "in a thread")
with ry.Yard("yard") as yard:
    for function, how in [(forks, how) for how in CODES] + [(awaits, how) for how in places]:
        batch = ry.grid(function, x=range(COUNT), params={"how": how}, seed=7)
        result = yard.run(batch, backend=backend, workers=2, deadline="90s", progress=False)
        values = [CODES[how] if x % 20 == 7 else x for x in range(COUNT)]
        assert list(result.values()) == values, (function, how, list(result.values()))
        if backend == "processes":
            printed = yard.printed(result.name, 27)[0]
            assert "child of 27" in printed.stdout, printed
            assert ("grandchild of 27" in printed.stdout) == (how == "forks again"), printed
            assert ("no line" in printed.stdout) == (how == "prints no line"), printed
            assert ("only in the child" in printed.stderr) == ("raises" in how), printed
    shared = yard.run(ry.grid(shares, x=range(4)), backend=backend, workers=2)
    assert list(shared.values()) == list(range(4))
    assert not list(yard.store.check())
print("the engine's end")
"""


class Done(NamedTuple):
    """A program that ran."""

    code: int
    stdout: str
    stderr: str


def run(folder: Path, program: str, *words: str) -> Done:
    """A program in a process of its own: what it forks must not come back as this test."""
    script = folder / "program.py"
    script.write_text(program)
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", str(script), *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "TMPDIR": str(folder)},
    ) as process:  # fmt: skip
        try:
            return Done(process.wait(60), *process.communicate(timeout=10))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "backend",
    [
        "serial",
        "processes",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("async", "threads")),
    ],
)
def test_a_child_that_a_task_forks_ends_with_the_call(tmp_path: Path, backend: str) -> None:
    done = run(tmp_path, PROGRAM, backend)
    assert done.code == 0, done.stderr
    assert done.stdout.count("the engine's end") == 1


def test_a_child_that_is_forked_while_a_module_is_imported_ends_with_the_import(
    tmp_path: Path,
) -> None:
    (tmp_path / "forking.py").write_text("""
import os
if os.environ.get("FORKS") and os.fork() == 0:
    print("imported")
def double(x):
    return 2 * x
""")
    done = run(
        tmp_path,
        """
import runyard as ry
batch = ry.grid("forking:double", x=range(20))
with ry.Yard("yard") as yard:
    for backend in ("processes", "serial"):
        import os
        os.environ["FORKS"] = "1"
        print(sum(yard.run(batch, backend=backend, workers=2, fresh=True).values()))
""",
    )
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines().count("380") == 2, done.stdout
