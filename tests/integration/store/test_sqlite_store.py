"""What only the SQLite store has: a file, several processes, versions, damage."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from polling import eventually
from store_kit import described, listed, outcome, outcomes, task

import runyard as ry
from runyard.errors import (
    NotFound,
    RunyardError,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreGone,
    UsageError,
)
from runyard.spec.outcome import OutcomeRow, Printed
from runyard.spec.status import COMPLETED, FAILED
from runyard.store import open_store
from runyard.store.base import Snapshot, Store
from runyard.store.pieces import IN_ROW
from runyard.store.rows import AttemptRow
from runyard.store.schema import TABLES, VERSION
from runyard.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "yard" / "yard.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def pragma(store: Store, name: str) -> Any:
    with store.transaction() as tx:
        return tx.run(f"PRAGMA {name}").fetchone()[0]  # type: ignore[attr-defined]


# Opening


@pytest.mark.parametrize("size", [0, 3, 8192, None])
def test_a_store_that_is_cut_or_overwritten_in_place_is_not_written_any_more(
    path: Path, size: int | None
) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx).id
        tx.record(batch, outcomes(batch, range(10)))
    if size is None:
        path.write_bytes(b"other text" * (path.stat().st_size // 10))
    else:
        os.truncate(path, size)
    for _ in range(2):
        with pytest.raises(StoreGone, match="while it was in use"), store.transaction() as tx:
            tx.record(batch, outcomes(batch, range(10, 20)))
    store.close()


def test_a_store_that_another_process_compacts_is_written_on(path: Path) -> None:
    store, other = SqliteStore(path), SqliteStore(path)
    with store.transaction() as tx:
        kept, batch = described(tx, name="kept").id, described(tx, name="b").id
        tx.record(batch, outcomes(batch, range(5000)))
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("PRAGMA wal_checkpoint")
    before = path.stat().st_size
    with store.transaction() as tx:
        tx.delete_batch(batch)
    other.compact()
    other.close()
    with store.transaction() as tx:
        tx.record(kept, outcomes(kept, range(5)))
    assert path.stat().st_size < before
    assert not list(store.check())
    store.close()


def test_without_room_for_sqlites_files_a_store_is_read_and_later_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SqliteStore(path)
    with first.transaction() as tx:
        batch = described(tx).id
        tx.record(batch, outcomes(batch, range(10)))
    first.close()

    def fail(place: Path, synchronous: str) -> sqlite3.Connection:
        for end, size in (("-wal", 0), ("-shm", 4096)):  # as SQLite leaves them
            place.with_name(place.name + end).write_bytes(bytes(size))
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("runyard.store.sqlite.connect", fail)
        store = SqliteStore(path)
        for _ in range(2):
            with store.snapshot() as view:
                assert len(list(view.outcomes(batch))) == 10
            with pytest.raises(StoreFull), store.transaction():
                pass
        assert not list(store.check())
    with store.transaction() as tx:
        tx.record(batch, outcomes(batch, range(10, 12)))
    with store.snapshot() as view:
        assert len(list(view.outcomes(batch))) == 12
    store.close()


def test_what_is_recorded_is_there_when_the_store_is_opened_again(path: Path) -> None:
    first = SqliteStore(path)
    with first.transaction() as tx:
        batch = described(tx).id
        tx.record(batch, outcomes(batch, range(10)))
    first.close()
    again = SqliteStore(path)
    with again.snapshot() as view:
        assert list(view.outcomes(batch)) == outcomes(batch, range(10))
    again.close()


def test_commits_wait_for_the_disk_when_the_store_is_durable(tmp_path: Path) -> None:
    for durable, level in ((True, 2), (False, 1)):
        store = open_store(tmp_path / str(durable), durable=durable)
        assert pragma(store, "synchronous") == level
        assert pragma(store, "journal_mode") == "wal"
        store.close()


@pytest.mark.parametrize("name", ["a b", "50%20", "what?mode=ro", "#1", "ünï", "it's", 'q"q'])
def test_a_path_may_hold_any_character(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path / name)
    with store.transaction() as tx:
        described(tx)
    store.close()
    assert (tmp_path / name / "yard.db").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_yard_that_is_not_there_is_made_or_missed(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_store(tmp_path / "none", create=False)
    assert list(tmp_path.iterdir()) == []
    open_store(tmp_path / "deep" / "down").close()
    open_store(tmp_path / "deep" / "down", create=False).close()


def test_what_can_not_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file is a file"):
        open_store(tmp_path / "file")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "pipe")
    no = "is not a folder"
    kinds = {"round": no, "file/x": no, "pipe": "a pipe", "/dev/null": "a device"}
    for name, said in kinds.items():
        with pytest.raises(StoreError, match=said):
            open_store(tmp_path / name)
        with pytest.raises(StoreError, match=said):
            ry.Yard(tmp_path / name)
    (tmp_path / "folder" / "yard.db").mkdir(parents=True)
    with pytest.raises(StoreError):
        open_store(tmp_path / "folder")
    with pytest.raises(UsageError, match="mysql"):
        open_store("mysql://user:secret@host/db")


def test_a_file_that_is_no_database_is_damaged(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StoreDamaged):
        SqliteStore(path)


def test_a_store_of_the_process_alone_is_gone_when_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = open_store("memory:")
    assert store.location == "memory:"
    with store.transaction() as tx:
        described(tx)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    store.close()
    with store.snapshot() as view:
        assert len(view.batches()) == 1
    del store, tx, view
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# Versions


OLDER = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
    INSERT INTO meta VALUES ('schema_version', '3');
    CREATE TABLE batches (id INTEGER PRIMARY KEY, name TEXT);
"""


def altered(path: Path, statements: str) -> dict[str, bytes]:
    """Change a store behind its back; its files."""
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode=WAL")
        raw.executescript(statements)
    return files_of(path)


def files_of(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


def test_an_older_store_is_refused_and_left_as_it_is(path: Path) -> None:
    before = altered(path, OLDER)
    with pytest.raises(StoreError, match=re.escape(f"{path} was made by an older")) as caught:
        SqliteStore(path)
    assert "--yard" in str(caught.value.hint)
    assert files_of(path) == before


def test_a_newer_store_is_refused_and_left_as_it_is(path: Path) -> None:
    SqliteStore(path).close()
    before = altered(path, "UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreError, match="schema version 99") as caught:
        SqliteStore(path)
    assert "upgrade" in str(caught.value.hint).lower()
    assert files_of(path) == before


def test_a_store_of_another_version_that_others_have_open_is_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.executescript(OLDER)
        before = {name: data for name, data in files_of(path).items() if "shm" not in name}
        with pytest.raises(StoreError, match="older"):
            SqliteStore(path)
        assert before.items() <= files_of(path).items()


def test_a_store_whose_last_user_died_is_left_as_it_is_too(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.executescript(OLDER)
        for end in ("", "-wal"):  # what is left of it when the process is killed
            path.with_name(path.name + end).write_bytes((tmp_path / f"other.db{end}").read_bytes())
    before = files_of(path)
    with pytest.raises(StoreError, match="older"):
        SqliteStore(path)
    assert before.items() <= files_of(path).items()


def test_a_file_of_another_program_is_refused(path: Path) -> None:
    before = altered(path, "CREATE TABLE things (name TEXT)")
    with pytest.raises(StoreError, match="older"):
        SqliteStore(path)
    assert files_of(path) == before


def test_a_fresh_store_has_the_present_version(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as raw:
        found = raw.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    assert found == (str(VERSION),)


def test_a_version_that_is_no_number_is_damage_and_not_a_traceback(path: Path) -> None:
    SqliteStore(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE meta SET value = 'x' WHERE key = 'schema'")
    raw.close()
    with pytest.raises(StoreError):
        SqliteStore(path)


# Several processes

WRITER = """
import sys
from pathlib import Path
from runyard.store.sqlite import SqliteStore
sys.path.insert(0, sys.argv[3])
from store_kit import outcome
store = SqliteStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
lane = int(sys.argv[2])
for step in range(200):
    with store.transaction() as tx:
        found = tx.batch("b")
        tx.update_batch(found.id, total=found.total + 1)
        tx.record(found.id, [outcome(found.id, lane * 1000 + step)])
    with store.snapshot() as view:
        found = view.batch("b")
        assert found.total == found.completed, (found.total, found.completed)
store.close()
"""


def test_processes_that_write_at_once_wait_for_each_other(store: Store, path: Path) -> None:
    with store.transaction() as tx:
        batch = described(tx, "b", total=0).id
    helpers = str(Path(__file__).parents[2] / "helpers")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(lane), helpers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for lane in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    ended = [writer.communicate("go\n") for writer in writers]
    assert [(writer.returncode, err) for writer, (_, err) in zip(writers, ended, strict=True)] == [
        (0, "")
    ] * 3
    with store.snapshot() as view:
        found = view.batch_by_id(batch)
        assert found is not None
        assert (found.total, found.completed) == (600, 600)
        assert len(list(view.outcomes(batch))) == 600
    assert list(store.check()) == []


def test_processes_that_open_a_new_yard_at_once_all_succeed(path: Path) -> None:
    script = """
import sys
from pathlib import Path
from runyard.store.sqlite import SqliteStore
print("ready", flush=True)
sys.stdin.readline()
SqliteStore(Path(sys.argv[1])).close()
"""
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    errors = [opener.communicate()[1] for opener in openers]
    assert errors == [""] * 4


HOLDER = """
import sys
from pathlib import Path
from runyard.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
store.acquire_liveness(7)
print("held", flush=True)
sys.stdin.readline()
"""


def test_the_death_of_an_engine_is_known_at_once(store: Store, path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert store.alive(7)
    assert not store.alive(8)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert not store.alive(7)


def test_a_child_of_an_engine_does_not_keep_it_alive(store: Store, path: Path) -> None:
    script = HOLDER.replace(
        "sys.stdin.readline()",
        "import os\nif os.fork() == 0:\n    sys.stdin.readline()\nelse:\n    os._exit(0)",
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert eventually(lambda: not store.alive(7))
    holder.communicate()


def test_the_life_of_one_engine_is_not_ended_by_another_that_closes_the_same_yard(
    path: Path,
) -> None:
    one, other = SqliteStore(path), SqliteStore(path)
    one.acquire_liveness(1)
    other.acquire_liveness(2)
    other.close()
    check = f"""
from pathlib import Path
from runyard.store.sqlite import SqliteStore
store = SqliteStore(Path({str(path)!r}))
print(store.alive(1), store.alive(2), store.alive(3))
"""
    seen = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert seen.stdout.split() == ["True", "True", "False"]
    one.release_liveness(1)
    one.release_liveness(2)
    one.close()


def test_an_engine_of_a_yard_that_was_removed_and_made_anew_is_seen_by_others(path: Path) -> None:
    first = SqliteStore(path)
    first.acquire_liveness(1)
    first.release_liveness(1)
    first.close()
    shutil.rmtree(path.parent)
    second = SqliteStore(path)
    second.acquire_liveness(2)
    check = f"""
from pathlib import Path
from runyard.store.sqlite import SqliteStore
store = SqliteStore(Path({str(path)!r}))
print(store.alive(1), store.alive(2))
"""
    seen = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert seen.stdout.split() == ["False", "True"]
    second.release_liveness(2)
    second.close()


# Damage


@pytest.fixture
def filled(store: Store) -> tuple[Store, int, int]:
    """A store with a row in every table: itself, a listed and a numbered batch."""
    with store.transaction() as tx:
        batch = listed(tx, "listed").id
        tx.add_tasks(batch, [task("a"), task("b"), task("c"), task("d", after=[1])])
        large = (0, COMPLETED, 0, b"large" * IN_ROW, None, 1.0, 1.0, 1)
        tx.record(batch, [OutcomeRow.with_checksum(batch, *large)])
        tx.record(batch, [outcome(batch, 2, FAILED)])
        tx.add_attempts([AttemptRow(batch, 1, 1, 0, b"error", 1.0, 1.0)])
        tx.keep_printed(batch, [Printed(2, 0, b"out", b"err")])
        tx.request_cancel(batch, 1)
        engine = tx.sign_on("host", 1, "serial", 1)
        numbered = described(tx, "numbered").id
        tx.claim(numbered, engine, 3)
    return store, batch, numbered


READS: dict[str, Callable[[Snapshot, int, int], object]] = {
    "batches": lambda view, _, __: view.batches(),
    "tasks": lambda view, batch, _: view.tasks(batch),
    "queue": lambda view, batch, _: view.queue(batch),
    "edges": lambda view, batch, _: view.edges(batch),
    "claims": lambda view, _, numbered: view.claims(numbered),
    "outcomes": lambda view, batch, _: list(view.outcomes(batch)),
    "pieces": lambda view, batch, _: list(view.outcomes(batch)),
    "attempts": lambda view, batch, _: view.attempts(batch),
    "outputs": lambda view, batch, _: [view.printed(batch, n) for n in range(200)],
    "cancels": lambda view, batch, _: view.cancel_requests(batch),
    "engines": lambda view, _, __: view.engines(),
}
COLUMNS = [(table.name, name) for table in TABLES for name in table.names]


def test_every_table_is_read_here() -> None:
    assert READS.keys() == {table for table, _ in COLUMNS}


def flip(path: Path, table: str, column: str) -> None:
    """Change a value as a flipped bit would, behind the store's back."""
    raw = sqlite3.connect(path)
    keys = [row[1] for row in raw.execute(f"PRAGMA table_info({table})") if row[5]]
    where = " AND ".join(f"{key} = :{key}" for key in keys)
    order = ", ".join(f"{key} DESC" for key in keys)
    row = raw.execute(
        f"SELECT {', '.join(keys)}, {column} FROM {table} ORDER BY {order}"
    ).fetchone()
    value = row[-1]
    changed: Any
    if value is None:
        changed = 1
    elif isinstance(value, bytes):
        changed = bytes([value[0] ^ 1]) + value[1:]
    elif isinstance(value, str):
        changed = chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
    elif isinstance(value, float):
        changed = value + 0.5
    else:
        changed = value ^ 64
    names = dict(zip(keys, row[:-1], strict=True))
    raw.execute(f"UPDATE {table} SET {column} = :new WHERE {where}", {"new": changed, **names})
    raw.commit()
    raw.close()


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(pair) for pair in COLUMNS])
def test_a_flipped_bit_in_any_column_is_found_by_a_check(
    filled: tuple[Store, int, int], path: Path, table: str, column: str
) -> None:
    store = filled[0]
    assert list(store.check()) == []
    flip(path, table, column)
    assert list(store.check()) != []


# A row that is found by a column is not found where that column has changed; a check finds it.
SOUGHT_BY = {"before"}
MOVED = [
    pair
    for pair in COLUMNS
    if pair[1] not in SOUGHT_BY and (pair[1] != "batch" or pair[0] in ("engines",))
]


@pytest.mark.parametrize(("table", "column"), MOVED, ids=[".".join(pair) for pair in MOVED])
def test_a_flipped_bit_in_a_row_is_found_when_the_row_is_read(
    filled: tuple[Store, int, int], path: Path, table: str, column: str
) -> None:
    store, batch, numbered = filled
    flip(path, table, column)
    with pytest.raises(StoreDamaged, match="damaged"), store.transaction() as tx:
        READS[table](tx, batch, numbered)


def test_a_row_that_went_missing_is_found_by_a_check(
    filled: tuple[Store, int, int], path: Path
) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("DELETE FROM outcomes")
    raw.close()
    assert any("outcomes were recorded, but 0 (" in line for line in filled[0].check())


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bits_in_the_file_are_found_or_harmless_and_never_a_traceback(
    tmp_path: Path, seed: int
) -> None:
    import random

    path = tmp_path / "yard.db"
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx, total=300).id
        tx.record(batch, outcomes(batch, range(300)))
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)
    for _ in range(10):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    expected = {row.task: row for row in outcomes(batch, range(300))}
    try:
        damaged = SqliteStore(path)
    except RunyardError:
        return
    try:
        with damaged.snapshot() as view:
            for row in view.outcomes(batch):
                assert row == expected[row.task]
    except RunyardError:
        pass
    for line in damaged.check():
        assert isinstance(line, str)
    damaged.close()


def test_closing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    open_store(tmp_path / "warm").close()
    before = opened()
    for number in range(5):
        store = open_store(tmp_path / str(number))
        with store.transaction() as tx:
            described(tx)
        with store.snapshot() as view:
            view.batches()
        store.close()
    assert opened() <= before
