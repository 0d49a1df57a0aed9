"""Values that are too large for a row: recorded whole, read one at a time, gone with their task."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_kit import KINDS, described, listed, outcome, store_of, task

from runyard.errors import StoreDamaged
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED, FAILED
from runyard.store import pieces
from runyard.store.base import Store
from runyard.store.sqlite import SqliteStore

SQL = [kind for kind in KINDS if kind != "memory"]


@pytest.fixture(params=KINDS)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    monkeypatch.setattr(pieces, "IN_ROW", 10)
    monkeypatch.setattr(pieces, "PIECE", 7)
    opened = store_of(request.param, tmp_path)
    yield opened
    opened.close()


def row_with(batch: int, number: int, value: bytes, status: int = COMPLETED) -> OutcomeRow:
    return OutcomeRow.with_checksum(batch, number, status, 0, value, None, 5.0, 0.5, 1)


def rows_of(batch: int) -> list[OutcomeRow]:
    sizes = [1, 10, 11, 14, 15, 700, 3, 0]
    return [row_with(batch, n, bytes([n + 1]) * size) for n, size in enumerate(sizes) if size]


def count_of_pieces(store: Store) -> int:
    if not isinstance(store, SqliteStore):
        return 0
    with store.snapshot() as view:
        found = view.run("SELECT count(*) FROM pieces").fetchone()[0]
        return int(found or 0)


def test_values_of_every_size_are_read_as_they_were_recorded(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx, total=20).id
        rows = rows_of(batch)
        assert tx.record(batch, rows).count == len(rows)
    with store.snapshot() as view:
        assert list(view.outcomes(batch)) == rows
        assert [view.outcome(batch, row.task) for row in rows] == rows
        assert view.latest(batch, 3) == rows[::-1][:3]
        assert sorted(view.by_end(batch, 100)) == rows
        assert list(view.outcomes(batch, after=2, limit=2)) == rows[3:5]
    assert list(store.check()) == []


def test_a_value_that_comes_twice_is_kept_once(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx, total=20).id
        rows = rows_of(batch)
        others = [row_with(batch, row.task, b"another value" * 50, FAILED) for row in rows]
        assert tx.record(batch, rows[:4]).count == 4
        tx.record(batch, rows)
        assert tx.record(batch, others).count == 0
    with store.snapshot() as view:
        assert list(view.outcomes(batch)) == rows
    before = count_of_pieces(store)
    with store.transaction() as tx:
        tx.record(batch, [*rows, *others])
    assert count_of_pieces(store) == before
    assert list(store.check()) == []


def test_large_and_small_rows_of_one_task_in_one_report_do_not_mix(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx, total=20).id
        small, large = row_with(batch, 3, b"x"), row_with(batch, 3, b"y" * 50)
        tx.record(batch, [small, large])
        assert tx.outcome(batch, 3) == small
        tx.requeue(batch, [3])
        tx.record(batch, [large, small])
        assert tx.outcome(batch, 3) == large


def test_pieces_are_gone_with_their_outcome(store: Store) -> None:
    with store.transaction() as tx:
        batch, other = described(tx, total=20).id, described(tx, "other", total=20).id
        for each in (batch, other):
            tx.record(each, rows_of(each))
        tx.requeue(batch, [5])
        again = row_with(batch, 5, b"shorter than before")
        tx.record(batch, [again])
        assert tx.outcome(batch, 5) == again
        tx.delete_batch(batch)
        assert list(tx.outcomes(other)) == rows_of(other)
        tx.delete_batch(other)
    assert count_of_pieces(store) == 0


def test_pieces_are_gone_with_listed_tasks_that_are_forgotten(store: Store) -> None:
    with store.transaction() as tx:
        batch = listed(tx).id
        tx.add_tasks(batch, [task(), task()])
        tx.record(batch, [row_with(batch, 0, b"z" * 100)])
        assert tx.forget(batch) == 1
        assert tx.outcome(batch, 0) is None
    assert count_of_pieces(store) == 0


def test_a_transaction_that_fails_leaves_no_piece(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx, total=20).id
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.record(batch, rows_of(batch))
        raise ZeroDivisionError
    assert count_of_pieces(store) == 0
    with store.snapshot() as view:
        assert list(view.outcomes(batch)) == []


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM pieces WHERE task = 5 AND number = 3",
        "DELETE FROM pieces WHERE task = 5",
        "UPDATE pieces SET data = 'another' WHERE task = 5 AND number = 3",
        "UPDATE pieces SET task = 6 WHERE task = 5",
        "UPDATE outcomes SET value = 'xxxxxx' WHERE task = 5",
    ],
)
def test_damaged_pieces_are_found_and_never_reported_as_data(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "IN_ROW", 10)
    monkeypatch.setattr(pieces, "PIECE", 7)
    store = store_of("sqlite", tmp_path)
    with store.transaction() as tx:
        batch = described(tx, total=7).id
        tx.record(batch, rows_of(batch))
        tx.run(harm)
    with store.snapshot() as view, pytest.raises(StoreDamaged):
        list(view.outcomes(batch))
    assert list(store.check())
    store.close()


@pytest.mark.parametrize("kind", SQL)
def test_reading_holds_one_large_value_at_a_time(kind: str, tmp_path: Path) -> None:
    store, size, count = store_of(kind, tmp_path), 300_000, 200
    with store.transaction() as tx:
        batch = described(tx, total=count + 300).id
        tx.record(batch, [outcome(batch, n) for n in range(300)])
    for start in range(300, 300 + count, 20):
        with store.transaction() as tx:
            rows = [row_with(batch, n, bytes([n % 256]) * size) for n in range(start, start + 20)]
            tx.record(batch, rows)
    tracemalloc.start()
    try:
        with store.snapshot() as view:
            assert sum(len(row.value or b"") > 1000 for row in view.outcomes(batch)) == count
        assert tracemalloc.get_traced_memory()[1] < 10 * size
    finally:
        tracemalloc.stop()
        store.close()
