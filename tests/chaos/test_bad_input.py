"""Names, functions and stores made by somebody who means harm, or just made a mistake."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos_run import Scene, engine
from chaos_tasks import steady

import runyard as ry
from runyard.backends import NAMES
from runyard.errors import BadName, BadTarget, UsageError
from runyard.spec.codec import checksum, decode, encode
from runyard.spec.outcome import OutcomeRow

HOSTILE = ["../x", "/tmp/x", "a/b", "a\0b", "x" * 300, "-rf", ".git", "..", ".", "", "a\nb", "CON",
           "~", "a b", "$(x)", "x.", "é"]  # fmt: skip


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with ry.Yard(tmp_path / "outer" / "yard") as yard:
        yard.run(ry.grid(steady, x=[1], name="good", seed=1), backend="serial")
        before = everything(tmp_path)
        makers: list[Callable[[], Any]] = [
            lambda: yard.run(ry.grid(steady, x=[1], name=name, seed=1), backend="serial"),
            lambda: ry.batch(steady, cases=[{"x": 1}], name=name),
            lambda: yard.batch_folder(name),
        ]
        if name:  # an empty one is no name at all
            makers.append(lambda: ry.tasks([ry.Task(steady, {"x": 1})], name=name))
        for make in makers:
            with pytest.raises(BadName) as caught:
                make()
            assert caught.value.hint
            assert caught.value.exit_code == 2
        users: list[Callable[[], Any]] = [
            lambda: yard.results(name),
            lambda: yard.clear(name),
            lambda: yard.resume(name),
            lambda: list(yard.events(name)),
            lambda: yard.cancel(name),
        ]
        for use in users:
            with pytest.raises(ry.RunyardError) as refused:
                use()
            assert refused.value.exit_code in (2, 5)
        assert everything(tmp_path) == before


@pytest.mark.parametrize("name", [n for n in HOSTILE if "\0" not in n and n], ids=ascii)
def test_a_hostile_name_on_the_command_line_is_a_usage_error(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path / "folder")
    words = ["run", "chaos_tasks:steady", "--grid", "x=1", f"--name={name}", "--yard", "yard"]
    with engine(scene, command=[sys.executable, "-m", "runyard", *words]) as refused:
        assert refused.wait() == 2, refused.output
        assert "Traceback" not in refused.output
    assert everything(tmp_path) == {scene.folder}


class Bomb:
    """What a planted pickle does: it leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def plant(yard: Path, table: str, column: str, content: bytes, where: str = "") -> None:
    """Put bytes into a column and make the row's checksum fit."""
    connection = sqlite3.connect(yard / "yard.db")
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    columns = ", ".join(f'"{n}"' for n in names)
    query = f"SELECT {columns} FROM {table} {where} LIMIT 1"
    row = dict(zip(names, connection.execute(query).fetchone(), strict=True))
    row[column] = content
    values = tuple(row.values())[:-1]
    if table == "outcomes":
        with_checksum = OutcomeRow.with_checksum(*values).checksum
    else:
        with_checksum = checksum((table, *values))
    keys = [n for n in ("id", "batch", "task", "number") if n in names]
    match = " AND ".join(f"{n} = ?" for n in keys)
    connection.execute(
        f"UPDATE {table} SET {column} = ?, checksum = ? WHERE {match}",
        (content, with_checksum, *(row[n] for n in keys)),
    )
    connection.commit()
    connection.close()


def reads(yard: ry.Yard, name: str) -> list[Callable[[], Any]]:
    result = ry.Result(yard.store, name)
    return [
        lambda: list(result.outcomes()),
        lambda: list(result.values()),
        lambda: result.outcome(0),
        lambda: result.failures(),
        lambda: result.summary(),
        lambda: result.digest,
        lambda: result.stats,
        lambda: list(yard.store.check()),
    ]


def read_all(place: Path) -> tuple[list[str], list[str]]:
    """Read and run everything: what was refused in our own words, and what by a bare error."""
    refused, bare = [], []
    with ry.Yard(place) as yard:
        for name in ("b", "listed"):
            uses = [
                *reads(yard, name),
                lambda: yard.retry(name, "completed"),  # noqa: B023
                lambda: yard.resume(name, backend="serial"),  # noqa: B023
            ]
            for use in uses:
                try:
                    use()
                except ry.RunyardError as error:
                    refused.append(str(error))
                except Exception as error:
                    bare.append(f"{type(error).__name__}: {error}")
    return refused, bare


@pytest.fixture
def small_yard(tmp_path: Path) -> Path:
    """A yard with a described batch, a failure in it, and a listed one."""
    with ry.Yard(tmp_path / "yard") as yard:
        yard.run(ry.grid("chaos_tasks:counted", x=range(10), seed=1, name="b"), backend="serial")
        listed = [ry.Task("chaos_tasks:steady", {"x": 1}, name="first")]
        yard.run(ry.tasks(listed, name="listed", seed=1), backend="serial")
    return tmp_path / "yard"


PLACES = [
    pytest.param(table, column, where, id=f"{table}-{column}")
    for table, column, where in (
        ("outcomes", "value", "WHERE batch = 1 AND task = 0"),
        ("outcomes", "error", "WHERE error IS NOT NULL"),
        ("batches", "identity", "WHERE name = 'b'"),
        ("batches", "plan", "WHERE name = 'b'"),
        ("batches", "options", "WHERE name = 'b'"),
        ("batches", "code", "WHERE name = 'b'"),
        ("tasks", "content", ""),
    )
]


@pytest.mark.parametrize(("table", "column", "where"), PLACES)
def test_a_planted_pickle_is_never_unpickled(
    small_yard: Path, table: str, column: str, where: str
) -> None:
    trace = small_yard / "trace"
    plant(small_yard, table, column, pickle.dumps(Bomb(trace)), where)
    refused, bare = read_all(small_yard)
    assert not trace.exists()
    assert refused or bare, "nobody noticed"
    assert not bare


def test_a_batch_switched_to_pickle_is_refused_without_the_word(small_yard: Path) -> None:
    trace = small_yard / "trace"
    connection = sqlite3.connect(small_yard / "yard.db")
    (identity,) = connection.execute("SELECT identity FROM batches WHERE name = 'b'").fetchone()
    connection.close()
    switched = encode({**decode(identity), "codec": "pickle"})
    plant(small_yard, "batches", "identity", switched, "WHERE name = 'b'")
    plant(small_yard, "outcomes", "value", pickle.dumps(Bomb(trace)), "WHERE batch=1 AND task=0")
    with ry.Yard(small_yard) as yard:
        result = yard.results("b")
        for read in (lambda: list(result.outcomes()), lambda: result.outcome(0)):
            with pytest.raises(UsageError) as caught:
                read()
            assert "pickle" in str(caught.value)
            assert caught.value.hint
        again = ry.grid("chaos_tasks:counted", x=range(10), seed=1, name="b")
        with pytest.raises(ry.RunyardError):
            yard.run(again, backend="serial")
        assert not trace.exists()
        list(yard.results("b", codec="pickle").outcomes(limit=1))
    assert trace.exists(), "the bomb is a dud, and the test shows nothing"


NONSENSE = [b"", bytes(9), b"\xc1", encode([1, 2]), encode("text"), encode({"a": 1}),
            b"\xc7\x10\x04\x92\xa1O\xc4\x08" + bytes(8)]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "where"), PLACES)
def test_planted_nonsense_is_an_error_of_our_own(
    small_yard: Path, table: str, column: str, where: str
) -> None:
    whole = (small_yard / "yard.db").read_bytes()
    found = []
    for content in NONSENSE:
        (small_yard / "yard.db").write_bytes(whole)
        plant(small_yard, table, column, content, where)
        found += sorted({f"{content!r}: {error}" for error in read_all(small_yard)[1]})
    assert not found, "\n".join(found)


@pytest.mark.parametrize("backend", NAMES)
def test_a_function_that_can_not_travel_is_refused_with_a_hint(
    tmp_path: Path, backend: str
) -> None:
    lock = threading.Lock()

    def holds(x: int) -> int:
        with lock:
            return x

    with ry.Yard(tmp_path / "yard") as yard, pytest.raises(UsageError) as caught:
        yard.run(ry.grid(holds, x=[1, 2], seed=1), backend=backend, workers=1)
    assert "lock" in str(caught.value)
    assert caught.value.hint


def test_a_refused_function_leaves_no_worker_behind(tmp_path: Path) -> None:
    script = (
        "import psutil, threading, runyard as ry\n"
        "lock = threading.Lock()\n"
        "def holds(x):\n    return lock\n"
        "try:\n    ry.run(ry.grid(holds, x=[1, 2], seed=1), workers=1)\n"
        "except ry.RunyardError as error:\n    print(type(error).__name__)\n"
        "from runyard.backends.processes import close_pools\n"
        "close_pools()\n"
        "print(len(psutil.Process().children(recursive=True)), 'left')\n"
    )
    scene = Scene(tmp_path)
    (tmp_path / "script.py").write_text(script)
    with engine(scene, command=[sys.executable, "script.py"]) as refused:
        assert refused.wait() == 0, refused.output
        assert refused.output.split() == ["UsageError", "0", "left"]


@pytest.mark.parametrize("target", [
    "no_such_module:f", "chaos_tasks:absent", "chaos_tasks:BAD", "missing/file.py:f",
    "broken.py:f", "loud.py:f", "chaos_tasks", ":f", "chaos_tasks:", "os.path:..:f", "a b:c",
])  # fmt: skip
def test_a_function_that_can_not_be_imported_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "loud.py").write_text("raise RuntimeError('at import')\n")
    with ry.Yard(tmp_path / "yard") as yard, pytest.raises(BadTarget) as caught:
        yard.run(ry.grid(target, x=[1], seed=1), backend="serial")
    assert caught.value.hint
    assert not list((tmp_path / "yard").glob("batches/*"))


def test_a_store_that_is_no_store_is_an_error_in_words(tmp_path: Path) -> None:
    for number, content in enumerate([b"hello" * 2000, b"SQLite format 3\0" + bytes(5000)]):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "yard.db").write_bytes(content)
        with pytest.raises(ry.RunyardError) as caught:
            ry.Yard(place).status()
        assert str(place) in str(caught.value)
        assert (place / "yard.db").read_bytes() == content, "it was written over"


def test_a_yard_that_can_not_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "yard", Path("/proc/yard")):
        with pytest.raises(ry.RunyardError) as caught:
            ry.run(ry.grid(steady, x=[1], seed=1), yard=place, backend="serial")
        assert str(place) in str(caught.value)


def test_a_task_can_not_write_outside_the_yard_by_its_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with ry.Yard(tmp_path / "yard") as yard:
        batch = ry.grid(steady, x=[1, 2], seed=1, name="b")
        yard.submit(batch)
        tasks = yard.batch_folder("b") / "tasks"
        tasks.mkdir(parents=True)
        (tasks / "0").symlink_to(outside)
        result = yard.run(ry.grid(workspace, x=[1, 2], seed=1, name="w"), backend="serial")
        assert result.stats.completed == 2
        folder = yard.batch_folder("w2") / "tasks"
        folder.mkdir(parents=True)
        (folder / "0").symlink_to(outside)
        result = yard.run(ry.grid(workspace, x=[1, 2], seed=1, name="w2"), backend="serial")
        assert (result.stats.completed, result.stats.failed) == (1, 1)
    assert list(outside.iterdir()) == []


def workspace(ctx: ry.Context, x: int) -> int:
    (ctx.workspace / "file").write_text("here")
    return x


def test_the_command_line_says_what_is_wrong_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[batch\n")
    (tmp_path / "odd.toml").write_text("[batch]\nfunction = 'chaos_tasks:steady'\nodd = 1\n")
    for words, code in (
        (["run", "bad.toml"], 2),
        (["run", "odd.toml"], 2),
        (["run", "no_module:f", "--grid", "x=1"], 2),
        (["run", "chaos_tasks:steady", "--grid", "y=1"], 2),
        (["run", "chaos_tasks:steady", "--grid", "x=1", "--workers", "0"], 2),
        (["resume", "absent"], 5),
        (["results", "absent"], 5),
    ):
        told = subprocess.run(
            [sys.executable, "-m", "runyard", *words],
            cwd=tmp_path, env=Scene(tmp_path).environment("none"), capture_output=True, text=True,
        )  # fmt: skip
        assert told.returncode == code, (words, told)
        assert "Traceback" not in told.stderr
        assert told.stderr.strip()
