"""Free space in a SQLite file goes back to the disk, and nothing else changes."""

from __future__ import annotations

import re
import resource
import shutil
import sqlite3
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Call
from running import meanwhile
from sample_tasks import double
from store_kit import described, outcomes

import runyard as ry
from runyard.errors import StoreError, StoreFull
from runyard.store import compact
from runyard.store.base import Store
from runyard.store.sqlite import SqliteStore

ROWS = 4000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "yard" / "yard.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A store from which most of what it held was cleared."""
    opened = SqliteStore(path)
    with opened.transaction() as tx:
        for name in ("gone", "kept", "gone too"):
            batch = described(tx, name, total=ROWS)
            tx.record(batch.id, outcomes(batch.id, range(ROWS)))
    with opened.transaction() as tx:
        for name in ("gone", "gone too"):
            found = tx.batch(name)
            assert found is not None
            tx.delete_batch(found.id)
    yield opened
    opened.close()


def size(path: Path) -> int:
    """Of the file, once the log is written back."""
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    raw.close()
    return path.stat().st_size


def assert_whole(store: Store) -> None:
    assert list(store.check()) == []
    with store.snapshot() as view:
        kept = view.batch("kept")
        assert kept is not None
        assert list(view.outcomes(kept.id)) == outcomes(kept.id, range(ROWS))


def test_a_file_shrinks_by_what_it_spares(store: Store, path: Path) -> None:
    before, spare = size(path), store.spare()
    assert spare > before / 2
    assert store.compact() >= spare
    assert path.stat().st_size <= before - spare
    assert store.spare() == 0
    assert_whole(store)


def test_a_file_that_is_nearly_full_is_left_alone(path: Path) -> None:
    store = SqliteStore(path)
    with store.transaction() as tx:
        batch = described(tx, "kept", total=ROWS)
        tx.record(batch.id, outcomes(batch.id, range(ROWS)))
        small = described(tx, "small", total=1)
        tx.delete_batch(small.id)
    assert store.spare() == 0
    store.close()


def test_others_read_on_while_a_file_is_compacted(store: Store, path: Path) -> None:
    before = size(path)
    reader = SqliteStore(path)
    with reader.snapshot() as view:
        kept = view.batch("kept")
        assert kept is not None
        assert store.compact() > 0
        assert list(view.outcomes(kept.id)) == outcomes(kept.id, range(ROWS))
    assert size(path) < before / 2
    assert_whole(reader)
    reader.close()


def test_a_file_that_another_process_is_writing_is_left_alone(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "PATIENCE_MS", 20)
    before = size(path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        store.compact()
    raw.execute("ROLLBACK")
    raw.close()
    assert size(path) == before
    assert_whole(store)


def test_a_file_is_left_alone_where_its_copy_has_no_room(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = size(path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(StoreFull, match="of room"):
        store.compact()
    assert size(path) == before


def test_a_disk_that_fills_up_meanwhile_harms_nothing(store: Store, path: Path) -> None:
    before = size(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StoreFull):
            store.compact()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_whole(store)
    assert size(path) == before
    assert store.compact() > 0
    assert_whole(store)


def test_an_engine_that_starts_meanwhile_is_not_disturbed(store: Store, path: Path) -> None:
    with ry.Yard(path.parent) as yard, meanwhile(lambda: [store.compact() for _ in range(10)]):
        result = yard.run(ry.grid(double, x=range(5000), name="new"), backend="threads")
        assert result.stats.completed == 5000
    assert_whole(store)


# On the command line


def test_gc_compacts_what_clear_left_and_not_while_an_engine_lives(
    cli: Call, tmp_path: Path
) -> None:
    with ry.Yard(".runyard") as yard:
        yard.run(ry.grid(double, x=range(ROWS), name="b"), backend="serial")
        yard.clear("b")
        before = size(tmp_path / ".runyard/yard.db")
        with yard.store.transaction() as tx:
            engine = tx.sign_on("host", 1, "serial", 1)
        yard.store.acquire_liveness(engine)
        skipped = cli("gc", "--json").last["store"]
        assert (skipped["bytes"], skipped["skipped"]) == (0, "an engine is using it")
        assert "an engine is using it" in cli("gc").err
        yard.store.release_liveness(engine)
    would = cli("gc", "--dry-run", "--json").last["store"]
    assert size(tmp_path / ".runyard/yard.db") == before
    said = cli("gc", "--dry-run").out
    assert re.search(
        r"0 items would be removed, 0 B; [\d.]+ [kM]B of free space in the store$", said.strip()
    )
    done = cli("gc", "--json").last["store"]
    assert done["bytes"] >= would["bytes"] > before / 2
    assert size(tmp_path / ".runyard/yard.db") <= before - would["bytes"]
    assert cli("gc", "--json").last["store"] == {"bytes": 0, "skipped": None}
    assert cli("doctor").code == 0
