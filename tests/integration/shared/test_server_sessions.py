"""Transactions that take their time between two queries, and tables that are removed meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from databases import postgres_url
from psycopg import sql
from store_kit import described

from runyard.errors import StoreAway, StoreGone
from runyard.store import lease, postgres
from runyard.store.postgres import PostgresStore, PostgresTransaction


@pytest.fixture
def url() -> str:
    return postgres_url()


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """One whose transactions may not be idle for long."""
    for module in (postgres, lease):
        monkeypatch.setattr(module, "LEASE_SECONDS", 1.0)
    opened = PostgresStore(url)
    yield opened
    opened.close()


def test_whoever_reads_may_take_time_between_two_rows(store: PostgresStore) -> None:
    with store.transaction() as tx:
        described(tx, total=5)
    with store.snapshot() as view:
        before = view.batches()
        time.sleep(2.0)
        assert view.batches() == before


@pytest.mark.parametrize("waits_for_result", [True, False], ids=["answered", "sent"])
def test_a_silent_writer_holds_its_locks_no_longer_than_a_lease(
    store: PostgresStore, url: str, waits_for_result: bool
) -> None:
    def write_slowly() -> None:
        with store.transaction() as tx:
            batch = described(tx, total=5)
            if waits_for_result:
                tx.batch_by_id(batch.id)
            else:
                tx.update_batch(batch.id, priority=1)
            written.set()
            assert overtaken.wait(20.0)
            tx.batches()

    def overtake() -> None:
        assert written.wait(20.0)
        with contextlib.closing(PostgresStore(url)) as other:
            other.write(lambda tx: described(tx, total=6))
        overtaken.set()

    written, overtaken = threading.Event(), threading.Event()
    thread = threading.Thread(target=overtake)
    thread.start()
    with pytest.raises(StoreAway):
        write_slowly()
    thread.join()
    with store.snapshot() as view:
        assert [batch.total for batch in view.batches()] == [6]


def test_a_write_goes_through_after_its_session_was_ended(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the process was paused before it could notice."""
    monkeypatch.setattr(StoreAway, "patience", 0.5)
    tries = []

    def work(tx: PostgresTransaction) -> int:
        tries.append(1)
        batch = described(tx, total=5)
        if len(tries) == 1:
            time.sleep(3.0)
        return batch.total

    assert store.write(work) == 5
    assert len(tries) == 2


def test_tables_that_are_removed_while_they_are_in_use_are_told(
    store: PostgresStore, url: str
) -> None:
    store.acquire_liveness(1)
    with psycopg.connect(url, autocommit=True) as session:
        tables = session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall()
        for (name,) in tables:
            session.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))
    with pytest.raises(StoreGone, match="removed while they were in use"), store.snapshot() as view:
        view.batches()
    store.release_liveness(1)
