"""Programs as people write them, run as programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from polling import eventually

OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("async", "threads")]
BACKENDS = ["serial", "processes", *OTHERS]

PLAIN = """
import runyard as ry

OFFSET = 10

def helper(x):
    return x + OFFSET

def walk(ctx, x):
    return [helper(x), int(ctx.rng.integers(0, 1000))]

for backend in ("serial", "async", "threads", "processes"):
    result = ry.run(ry.grid(walk, x=range(20), seed=7), backend=backend, workers=2, fresh=True)
    print(backend, result.stats.completed, result.digest)
    print(backend, ry.map(lambda x: x * 2, [3, 1, 2], backend=backend, workers=2))
"""


def run(folder: Path, *command: str, stdin: str | None = None) -> list[str]:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def typed(folder: Path, program: str) -> list[str]:
    """What a program from standard input prints."""
    return run(folder, "-", stdin=program)


def check_plain(lines: list[str]) -> None:
    assert len(lines) == 8
    digests = {line.split()[2] for line in lines[::2]}
    assert len(digests) == 1
    assert [line.split()[1] for line in lines[::2]] == ["20"] * 4
    assert [line.partition(" ")[2] for line in lines[1::2]] == ["[6, 2, 4]"] * 4


def test_a_script_without_a_main_guard_runs_on_every_backend(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PLAIN)
    check_plain(run(tmp_path, "script.py"))
    assert {entry.name for entry in tmp_path.iterdir()} == {"script.py", ".runyard"}


def test_a_program_from_standard_input_runs_on_every_backend(tmp_path: Path) -> None:
    check_plain(typed(tmp_path, PLAIN))


def test_a_module_that_is_run_as_a_program_runs_on_every_backend(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(PLAIN)
    check_plain(run(tmp_path, "-m", "package.program"))


def test_running_a_script_again_goes_on_with_its_functions_by_value(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("""
import sys
import runyard as ry

def chosen(x):
    with open("ran", "a") as file:
        file.write(f"{x}\\n")
    return x in {"a", "b", "c"}

result = ry.run(ry.grid(chosen, x=["a", "x"], seed=7), backend=sys.argv[1], workers=1)
print(list(result.values()))
""")
    for backend in ("serial", "processes", "threads"):
        done = subprocess.run(
            [sys.executable, "script.py", backend],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        assert done.stdout == "[True, False]\n"
    assert (tmp_path / "ran").read_text().split() == ["a", "x"]


def test_a_yard_in_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    lines = typed(
        tmp_path,
        """
import runyard as ry
for backend in ("serial", "processes"):
    result = ry.run(ry.grid(lambda x: x, x=[1, 2]), backend=backend, workers=1, yard="memory:")
    print(list(result.values()))
""",
    )
    assert lines == ["[1, 2]"] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["async", "threads"])
def test_a_task_that_hangs_for_ever_does_not_keep_the_program_from_ending(
    tmp_path: Path, backend: str
) -> None:
    lines = typed(
        tmp_path,
        f"""
import time
import runyard as ry

def hangs(x):
    if x == 1:
        time.sleep(600)
    return x

result = ry.run(ry.grid(hangs, x=range(5)), backend={backend!r}, workers=2, timeout=0.3)
print(result.stats.completed, result.stats.failed)
""",
    )
    assert lines == ["4 1"]


@pytest.fixture
def marker() -> Iterator[str]:
    """A length of sleep that no other process on this machine has asked for."""
    text = f"300.{os.getpid()}"
    yield text
    for process in sleepers(text):
        process.kill()


def sleepers(marker: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline", "status"])
    return [
        process
        for process in found
        if marker in (process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_shell_command_out_of_time_leaves_no_process(
    tmp_path: Path, backend: str, marker: str
) -> None:
    lines = typed(
        tmp_path,
        f"""
import runyard as ry

batch = ry.grid(ry.shell("sleep {marker} & exec sleep {marker} {{x}}"), x=[1])
result = ry.run(batch, backend={backend!r}, workers=1, timeout=0.5)
print([outcome.error.kind for outcome in result.outcomes()])
""",
    )
    assert lines == ["['TaskTimeout']"]
    assert eventually(lambda: not sleepers(marker), seconds=60)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_task_that_closes_its_stdout_hurts_nobody(tmp_path: Path, backend: str) -> None:
    lines = typed(
        tmp_path,
        f"""
import sys
import runyard as ry

def closes(x):
    if x == 0:
        sys.stdout.close()
    print("still here", x)
    return x

result = ry.run(ry.grid(closes, x=range(6)), backend={backend!r}, workers=1, deadline="90s")
print(result.end, sorted(result.values())[-5:])
""",
    )
    assert lines == ["finished [1, 2, 3, 4, 5]"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_task_may_do_to_its_streams_whatever_it_likes(tmp_path: Path, backend: str) -> None:
    lines = typed(
        tmp_path,
        f"""
import io, sys
import runyard as ry

def change(name, how):
    if how == "none":
        setattr(sys, name, None)
    elif how == "replaced":
        setattr(sys, name, io.StringIO())
    elif how == "broken":
        setattr(sys, name, object())
    elif how == "closed":
        getattr(sys, name).close()
    elif how == "gone":
        delattr(sys, name)
    elif {backend!r} == "processes":  # elsewhere it is the engine's own
        getattr(sys, name).buffer.close() if how == "closed below" else getattr(sys, name).detach()

def task(name, how, x):
    if x == 3:
        print("before", flush=True)
        change(name, how)
    return x

def prints(x):
    print("still here", x)
    return x

command = ry.shell("echo {{x}}")
for name in ("stdout", "stderr"):
    for how in ("none", "replaced", "broken", "closed", "gone", "closed below", "detached"):
        before = sys.stdout, sys.stderr
        with ry.Yard("memory:") as yard:
            options = dict(backend={backend!r}, workers=1, deadline="90s", progress=False)
            params = dict(name=name, how=how)
            result = yard.run(ry.grid(task, params=params, x=range(6)), **options)
            assert list(result.values()) == list(range(6)), (name, how)
            assert yard.printed(result.name, 3)[0].stdout == "before\\n", (name, how)
            result = yard.run(ry.grid(prints, x=range(6)), **options)
            assert list(result.values()) == list(range(6)), (name, how)
            assert yard.printed(result.name, 5)[0].stdout == "still here 5\\n", (name, how)
            result = yard.run(ry.grid(command, x=[1]), **options)
            assert result.stats.completed == 1
        assert before == (sys.stdout, sys.stderr)
print("done")
""",
    )
    assert lines == ["done"]


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_a_program_without_streams_runs_tasks(tmp_path: Path, backend: str) -> None:
    lines = typed(
        tmp_path,
        f"""
import sys
import runyard as ry
out, sys.stdout, sys.stderr = sys.stdout, None, None
found = ry.map(lambda x: print(x) or x, [1, 2], backend={backend!r}, workers=1)
print(found, file=out)
""",
    )
    assert lines == ["[1, 2]"]


def test_cached_functions_of_a_script_travel_by_value(tmp_path: Path) -> None:
    lines = typed(
        tmp_path,
        """
import functools
import runyard as ry

@functools.cache
def helper(x):
    return x * 10

@functools.lru_cache(maxsize=5, typed=True)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

class Thing:
    @functools.lru_cache
    def twice(self):
        return 2
    @functools.cached_property
    def five(self):
        return 5

def task(x):
    parameters = sorted(fib.cache_parameters().items())
    return [helper(x), fib(x + 10), Thing().twice(), Thing().five, parameters]

fib(20)
for backend in ("serial", "processes"):
    for function in (task, fib, functools.partial(fib)):
        axes = {"x" if function is task else "n": [1, 2]}
        batch = ry.grid(function, **axes)
        print(list(ry.run(batch, backend=backend, workers=1, fresh=True).values()))
with ry.Executor(1) as executor:
    print([executor.submit(helper, 7).result(), executor.submit(lambda f: f(8), helper).result()])
""",
    )
    assert lines[:3] == lines[3:6]
    assert lines[1:3] == ["[1, 1]"] * 2
    assert lines[6] == "[70, 80]"


def test_a_task_that_starts_a_run_of_its_own_gets_an_answer(tmp_path: Path) -> None:
    lines = typed(
        tmp_path,
        """
import runyard as ry

def outer(x):
    return ry.map(lambda y: y + 1, [x, x + 1], backend="serial", yard="memory:")

for backend in ("serial", "threads", "processes"):
    print(ry.map(outer, [1, 2], backend=backend, workers=2))
""",
    )
    assert lines == ["[[2, 3], [3, 4]]"] * 3


def test_a_forked_child_of_the_program_does_not_disturb_its_workers(tmp_path: Path) -> None:
    lines = typed(
        tmp_path,
        """
import os, warnings
import runyard as ry
warnings.simplefilter("ignore")
print(ry.map(lambda x: x + 1, [1], workers=2), flush=True)
child = os.fork()
if child == 0:
    print(ry.map(lambda x: x + 2, [1], workers=2), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(ry.map(lambda x: x + 3, [1], workers=2), flush=True)
""",
    )
    assert lines == ["[2]", "[3]", "[4]"]


def test_large_values_pass_through_without_being_gathered(tmp_path: Path) -> None:
    """Eight hundred values of a megabyte, written and read again with a fraction of that."""
    lines = typed(
        tmp_path,
        """
import resource
import runyard as ry

def blob(ctx, n):
    return ctx.rng.bytes(1000) * 1000

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = peak()
result = ry.run(ry.grid(blob, n=range(800), seed=7), workers=2, progress=False)
print(sum(len(value) for value in result.values()), peak() - before)
""",
    )
    total, megabytes = map(int, lines[0].split())
    assert total == 800_000_000
    assert megabytes < 300
