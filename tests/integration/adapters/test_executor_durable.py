"""An executor with a name: the next run of a script goes on where the last one ended."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from polling import eventually
from sample_calls import die_once, noted_square, raise_special
from sample_tasks import noted, notes, say, wait_for

import runyard as ry
from runyard.errors import SpecChanged, StoreDamaged, UsageError

HELPERS = str(Path(__file__).parents[2] / "helpers")


def squares(yard: ry.Yard, folder: Path, numbers: range, name: str = "squares") -> list[Any]:
    with ry.Executor(2, name=name, yard=yard) as pool:
        return list(pool.map(noted_square, [str(folder)] * len(numbers), numbers))


def test_the_same_calls_are_not_made_again(yard: ry.Yard, tmp_path: Path) -> None:
    first = squares(yard, tmp_path, range(10))
    assert squares(yard, tmp_path, range(12)) == [*first, 100, 121]
    assert sorted(map(int, notes(tmp_path))) == list(range(12))
    squares(yard, tmp_path, range(3), name="another")
    assert len(notes(tmp_path)) == 15


def test_equal_calls_count_as_calls_of_their_own(yard: ry.Yard, tmp_path: Path) -> None:
    for times in (2, 3):
        with ry.Executor(2, name="equal", yard=yard) as pool:
            futures = [pool.submit(noted, str(tmp_path), "x") for _ in range(times)]
            assert [future.result() for future in futures] == ["x"] * times
    assert notes(tmp_path) == ["x"] * 3


def test_calls_differ_by_function_code_and_arguments(yard: ry.Yard, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def make(step: int) -> Any:
        return lambda x: noted(folder, x) + step

    calls = [(make(1), 1), (make(2), 1), (make(1), 2), (make(1), 1.0), (lambda x: x, 1)]
    for _ in range(2):
        with ry.Executor(1, name="differ", yard=yard) as pool:
            assert [pool.submit(f, x).result() for f, x in calls] == [2, 3, 3, 2.0, 1]
    assert len(notes(tmp_path)) == 4


def test_what_a_function_holds_on_to_counts(yard: ry.Yard) -> None:
    def by_day(day: datetime.date) -> Any:
        return lambda: day.isoformat()

    def found(*calls: Any) -> list[Any]:
        with ry.Executor(1, name="held", yard=yard) as pool:
            return [future.result() for future in [pool.submit(*call) for call in calls]]

    days = [datetime.date(2024, 1, day) for day in (1, 2)]
    assert found((by_day(days[0]),), ([1, 1].count, 1)) == ["2024-01-01", 2]
    assert found((by_day(days[1]),), ([1, 2].count, 1)) == ["2024-01-02", 1]
    assert yard.results("held").stats.total == 4


class Setting:
    """An argument that has no canonical form."""

    def __init__(self, folder: str, depth: int) -> None:
        self.folder, self.depth = folder, depth


def test_arguments_of_any_class_are_found_again(yard: ry.Yard, tmp_path: Path) -> None:
    for _ in range(2):
        with ry.Executor(1, name="objects", yard=yard) as pool:
            found = pool.map(
                lambda s: noted(s.folder, s.depth), [Setting(str(tmp_path), d) for d in (1, 2)]
            )
            assert list(found) == [1, 2]
    assert sorted(notes(tmp_path)) == ["1", "2"]


def test_a_call_that_failed_is_made_again(yard: ry.Yard, tmp_path: Path) -> None:
    def once_only(folder: str) -> int:
        noted(folder, "tried")
        if not Path(folder, "ready").exists():
            raise ValueError("not ready")
        return 1

    with ry.Executor(1, name="again", yard=yard) as pool:
        with pytest.raises(ValueError, match="not ready"):
            pool.submit(once_only, str(tmp_path)).result()
    say(str(tmp_path), "ready")
    for _ in range(2):
        with ry.Executor(1, name="again", yard=yard) as pool:
            assert pool.submit(once_only, str(tmp_path)).result() == 1
    assert len(notes(tmp_path)) == 2
    stats = yard.results("again").stats
    assert (stats.total, stats.completed, stats.failed) == (1, 1, 0)


def test_what_was_cancelled_or_aborted_runs_the_next_time(yard: ry.Yard, tmp_path: Path) -> None:
    pool = ry.Executor(1, name="aborted", yard=yard)
    futures = [pool.submit(wait_for, str(tmp_path), str(n)) for n in range(3)]
    assert eventually(futures[0].running)
    pool.kill_workers()
    assert all(future.done() for future in futures)
    for n in range(3):
        say(str(tmp_path), str(n))
    with ry.Executor(1, name="aborted", yard=yard) as pool:
        assert all(pool.map(wait_for, [str(tmp_path)] * 3, "012"))
    assert yard.results("aborted").stats.completed == 3


def test_function_bytes_and_arguments_are_never_stored(yard: ry.Yard, tmp_path: Path) -> None:
    secret = "a-word-that-must-not-be-stored"
    with ry.Executor(1, name="private", yard=yard) as pool:
        assert pool.submit(lambda text: len(text + secret), secret).result() == 2 * len(secret)
        with pytest.raises(Exception, match="text"):
            pool.submit(raise_special).result()
    yard.close()
    for path in yard.folder.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes(), path
    assert list((yard.folder / "run").iterdir()) == []


def test_values_are_unpickled_for_the_executor_only(yard: ry.Yard) -> None:
    with ry.Executor(1, name="pickled", yard=yard) as pool:
        pool.submit(abs, -4).result()
    with pytest.raises(UsageError, match="unpickling can run any code"):
        list(yard.results("pickled").values())
    assert list(yard.results("pickled", codec="pickle").values()) == [4]
    with pytest.raises(UsageError, match="travels by value"):
        yard.refuse_by_value("pickled")


def test_damage_is_found_and_never_delivered(yard: ry.Yard) -> None:
    import sqlite3

    with ry.Executor(1, name="damaged", yard=yard) as pool:
        pool.submit(abs, -4).result()
    yard.close()
    with sqlite3.connect(yard.folder / "yard.db") as database:
        database.execute("UPDATE outcomes SET value = x'80054b052e'")
    database.close()
    with ry.Executor(1, name="damaged", yard=yard) as pool, pytest.raises(StoreDamaged):
        pool.submit(abs, -4)


def test_a_name_is_one_executors_at_a_time(yard: ry.Yard) -> None:
    with ry.Executor(1, name="mine", yard=yard):
        with pytest.raises(UsageError, match="another executor is running"):
            ry.Executor(1, name="mine", yard=yard)
    yard.run(ry.grid(abs_of, x=[1], name="grid"), backend="serial", progress=False)
    with pytest.raises(SpecChanged, match="not an executor's"):
        ry.Executor(1, name="grid", yard=yard)


def abs_of(x: int) -> int:
    return abs(x)


def test_a_name_keeps_its_seed(yard: ry.Yard) -> None:
    def draw(x: int) -> int:
        return int(ry.context().rng.integers(1 << 30)) + x

    with ry.Executor(1, name="seeded", yard=yard, seed=3) as pool:
        first = list(pool.map(draw, range(3)))
    with ry.Executor(2, name="elsewhere", yard=yard, seed=3) as pool:
        assert list(pool.map(draw, range(3))) == first
    with pytest.raises(SpecChanged, match="with the seed 3, now 4"):
        ry.Executor(1, name="seeded", yard=yard, seed=4)


SCRIPT = """
import os, sys, time
from pathlib import Path
import runyard as ry

folder = sys.argv[1]

def work(x):
    with open(Path(folder, "notes"), "a") as file:
        file.write(f"{x}\\n")
    while not Path(folder, "hurry").exists() and x >= 6:
        time.sleep(0.01)
    return {x}

with ry.Executor(2, name="killed", yard=folder + "/yard") as pool:
    print(sorted(x for found in pool.map(work, range(12)) for x in found))
"""


def test_after_kill_9_only_what_was_under_way_runs_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), str(tmp_path)]
    first = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    yard = ry.Yard(tmp_path / "yard")
    try:
        assert eventually(lambda: len(notes(tmp_path)) == 8)  # two of them hang
        assert eventually(lambda: yard.results("killed").stats.completed == 6)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    hung = {x for x in map(int, notes(tmp_path)) if x >= 6}
    assert len(hung) == 2
    say(str(tmp_path), "hurry")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{list(range(12))}\n", "")
    times = Counter(map(int, notes(tmp_path)))
    assert set(times) == set(range(12))
    assert {x for x, n in times.items() if n > 1} == hung
    assert list((yard.folder / "run").iterdir()) == []
    yard.close()


def test_a_killed_worker_changes_nothing_on_record(yard: ry.Yard, tmp_path: Path) -> None:
    with ry.Executor(2, name="survives", yard=yard) as pool:
        assert list(pool.map(die_once, [str(tmp_path)] * 2, (1, 2))) == [1, 2]
    stats = yard.results("survives").stats
    assert (stats.completed, stats.failed) == (2, 0)
