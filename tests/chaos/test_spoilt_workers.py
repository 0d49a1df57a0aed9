"""A task that changes what all tasks of its worker share changes no neighbour's outcome."""

from __future__ import annotations

import contextlib
import decimal
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import runyard as ry
from runyard.backends.channel import framed
from runyard.events import Event, Notice

TASKS, SPOILER = 200, 33


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[ry.Yard]:
    with ry.Yard(tmp_path / "yard") as yard:
        yield yard


def lower_open_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def clear_environment() -> None:
    os.environ.clear()  # itself pickled, `os.environ` would be a copy


def end_soon() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def write_elsewhere() -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)


def change_locale() -> None:
    import locale

    locale.setlocale(locale.LC_CTYPE, "C")


def look(folder: str, x: int) -> list[object]:
    """What a task notices of its process."""
    print("task", x)
    warnings.warn("odd", stacklevel=1)
    if x % 20 == 0:
        subprocess.run(["true"], check=True)
    path = Path(folder, str(x))
    with path.open("w") as file:
        assert file.fileno() > 2
    mode = path.stat().st_mode & 0o777
    path.unlink()

    def deep(n: int) -> int:
        return n and deep(n - 1)

    if SPOILER < x < SPOILER + 5:
        time.sleep(0.005)
    third = str(decimal.Decimal(1) / 3)
    infinite = float(np.float64(1) / np.float64(0))
    return ["HOME" in os.environ, mode, deep(200), third, infinite, signal.getitimer(0)]


def spoil(how: Callable[[], object], folder: str) -> Callable[..., list[object]]:
    def task(x: int) -> list[object]:
        if x == SPOILER:
            how()
        return look(folder, x)

    return task


# How it is done, and what the batch says about it; nothing where it is put right as always.
WAYS: dict[str, tuple[Callable[[], object], str | None]] = {
    "no open files": (lower_open_files, "its resource limits"),
    "recursion limit": (lambda: sys.setrecursionlimit(60), "the recursion limit"),
    "SIGCHLD ignored": (
        lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        "the signal handlers",
    ),
    "stdout closed": (lambda: os.close(1), "its open files"),
    "stdin closed": (lambda: os.close(0), "its open files"),
    "stdout elsewhere": (write_elsewhere, "its open files"),
    "no environment": (clear_environment, "the environment"),
    "an alarm": (end_soon, "its timers"),
    "umask": (lambda: os.umask(0o777), "the umask"),
    "locale": (change_locale, "the locale"),
    "warnings are errors": (lambda: warnings.simplefilter("error"), "the warning filters"),
    "stdout replaced": (lambda: setattr(sys, "stdout", None), None),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 2), "the decimal context"),
    "numpy": (lambda: np.seterr(all="raise"), "numpy's settings"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_spoils_its_worker_costs_no_neighbour(
    yard: ry.Yard, tmp_path: Path, way: str
) -> None:
    how, told = WAYS[way]
    expected = [True, 0o644, 0, "0.3333333333333333333333333333", float("inf"), (0.0, 0.0)]
    old = os.umask(0o22)
    events: list[Event] = []
    options = {"backend": "processes", "workers": 2, "on_event": events.append}
    try:
        spoilt = yard.run(ry.grid(spoil(how, str(tmp_path)), x=range(TASKS)), **options)
        next_one = yard.run(ry.grid(spoil(bool, str(tmp_path)), x=range(50)), **options)
    finally:
        os.umask(old)
    for result in (spoilt, next_one):
        for outcome in result.outcomes():
            if result is not spoilt or outcome.task != SPOILER:
                assert outcome.value == expected, (outcome.task, outcome.error)
                printed = yard.printed(result.name, outcome.task)
                assert [each.stdout for each in printed.values()] == [f"task {outcome.task}\n"]
    assert spoilt.stats.completed + spoilt.stats.failed == TASKS
    notices = [event.text for event in events if isinstance(event, Notice)]
    if told is None:
        assert notices == []
    else:
        (notice,) = notices
        assert notice.startswith(f"task {SPOILER} changed state that all tasks of a worker share")
        assert told in notice


def assert_costs_itself_alone(yard: ry.Yard, task: Callable[..., object], reason: str) -> None:
    """The spoiler dies with its worker, for this reason, and all others complete."""
    result = yard.run(ry.grid(task, x=range(TASKS)), backend="processes", workers=2)
    (failed,) = result.outcomes("failed")
    assert failed.task == SPOILER
    assert failed.error is not None
    assert failed.error.kind == "WorkerDied"
    assert reason in failed.error.message
    assert result.stats.completed == TASKS - 1


def test_a_task_that_cuts_its_worker_off_costs_itself_alone(yard: ry.Yard) -> None:
    def task(x: int) -> int:
        if x == SPOILER:
            os.closerange(3, 4096)
        return x

    assert_costs_itself_alone(yard, task, "closed the connection to the engine")


@pytest.mark.parametrize("text", ["no report", "\0\0\0\0", "a" * 1_000_000])
def test_what_a_task_writes_into_its_workers_channel_is_dropped(yard: ry.Yard, text: str) -> None:
    def task(x: int) -> int:
        if x == SPOILER:
            for descriptor in range(3, 4096):
                if socket_at(descriptor):
                    os.write(descriptor, text.encode())
        return x

    events: list[Event] = []
    result = yard.run(
        ry.grid(task, x=range(TASKS)), backend="processes", workers=2, on_event=events.append
    )
    assert list(result.values()) == list(range(TASKS))
    (notice,) = [event.text for event in events if isinstance(event, Notice)]
    assert "a file descriptor that it did not open" in notice


def socket_at(descriptor: int) -> bool:
    """Whether this is a descriptor of a socket."""
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def test_a_task_that_tries_or_closes_all_usual_descriptors_changes_nothing(yard: ry.Yard) -> None:
    def task(x: int) -> int:
        if x == SPOILER:
            for descriptor in range(3, 256):
                with contextlib.suppress(OSError):
                    os.write(descriptor, b"text")
            os.closerange(3, 256)
        print("task", x)
        return x

    events: list[Event] = []
    result = yard.run(
        ry.grid(task, x=range(TASKS)), backend="processes", workers=2, on_event=events.append
    )
    assert list(result.values()) == list(range(TASKS))
    assert [event for event in events if isinstance(event, Notice)] == []
    for x in range(TASKS):
        assert [each.stdout for each in yard.printed(result.name, x).values()] == [f"task {x}\n"]


def test_a_task_that_writes_into_a_report_costs_itself_alone(yard: ry.Yard) -> None:
    def task(x: int) -> int:
        if x == SPOILER:
            import gc

            worker = next(o for o in gc.get_objects() if type(o).__name__ == "WorkerProcess")
            worker._channel.sendall(framed(b"\xc1", key=worker._key))
            while True:
                time.sleep(1)
        return x

    assert_costs_itself_alone(yard, task, "sent a garbled report")


def test_tasks_that_all_change_their_worker_see_nothing_of_each_other(yard: ry.Yard) -> None:
    def task(x: int) -> str | None:
        before = os.environ.get("MODEL")
        os.environ["MODEL"] = str(x)
        warnings.simplefilter("ignore")
        return before

    events: list[Event] = []
    result = yard.run(
        ry.grid(task, x=range(3000)), backend="processes", workers=2, on_event=events.append
    )
    assert set(result.values()) == {None}
    assert len([event for event in events if isinstance(event, Notice)]) == 1
    pids = {outcome.worker for outcome in result.outcomes()}
    assert len(pids) <= 2


def test_what_short_tasks_brought_is_reported_while_a_long_one_changes_its_worker(
    yard: ry.Yard, tmp_path: Path
) -> None:
    def task(x: int) -> int:
        if x == 5:
            os.environ["MODEL"] = "large"  # for a while
            while not Path(tmp_path, "go").exists():
                time.sleep(0.01)
            del os.environ["MODEL"]
        time.sleep(0.006)
        ry.context().emit("seen", x=x)
        return x

    def go(event: Event) -> None:
        if getattr(event, "kind", "") == "seen":
            Path(tmp_path, "go").touch()

    result = yard.run(ry.grid(task, x=range(10)), backend="processes", workers=1, on_event=go)
    assert list(result.values()) == list(range(10))
    told = [e["data"]["x"] for e in yard.events(result.name) if e.get("kind") == "seen"]
    assert told == list(range(10))


def test_modules_that_tasks_import_may_set_what_they_need(yard: ry.Yard, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "import os, sys\nos.environ['BACKEND'] = 'agg'\nsys.setrecursionlimit(5000)\n"
    )

    def task(x: int) -> list[object]:
        sys.path.insert(0, str(tmp_path))
        import settings  # type: ignore[import-not-found]

        del settings
        return [os.environ["BACKEND"], sys.getrecursionlimit(), x]

    events: list[Event] = []
    result = yard.run(
        ry.grid(task, x=range(100)), backend="processes", workers=2, on_event=events.append
    )
    assert list(result.values()) == [["agg", 5000, x] for x in range(100)]
    assert [event for event in events if isinstance(event, Notice)] == []


def test_what_a_task_changes_before_an_import_reaches_no_neighbour(yard: ry.Yard) -> None:
    def task(x: int) -> list[object]:
        if x == SPOILER:
            os.environ["MODE"] = "fast"
            sys.setrecursionlimit(7777)
            import wave

            del wave
        return [os.environ.get("MODE"), sys.getrecursionlimit() == 7777]

    result = yard.run(ry.grid(task, x=range(TASKS)), backend="processes", workers=2)
    changed = [o.task for o in result.outcomes() if o.value != [None, False]]
    assert changed in ([], [SPOILER])


def test_a_thread_that_a_task_leaves_behind_changes_no_neighbour(yard: ry.Yard) -> None:
    def task(x: int) -> str | None:
        def change() -> None:
            while True:
                os.environ["MODE"] = "fast"
                time.sleep(0.003)

        if x == SPOILER:
            threading.Thread(target=change, daemon=True).start()
        time.sleep(0.002)
        return os.environ.get("MODE")

    result = yard.run(ry.grid(task, x=range(TASKS)), backend="processes", workers=2)
    assert {o.task for o in result.outcomes() if o.value is not None} <= {SPOILER}


def test_files_that_tasks_leave_open_cost_no_neighbour(yard: ry.Yard) -> None:
    def task(x: int) -> int:
        for _ in range(100 if x % 10 == 3 else 1):
            os.open(os.devnull, os.O_RDONLY)
        return x

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        result = yard.run(ry.grid(task, x=range(700)), backend="processes", workers=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(result.values()) == list(range(700))
