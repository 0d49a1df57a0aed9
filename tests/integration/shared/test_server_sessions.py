"""Transactions that take their time between two queries, and tables that are removed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from databases import postgres_url
from psycopg import sql
from store_kit import described

from runyard.errors import StoreGone
from runyard.store import postgres
from runyard.store.postgres import PostgresStore


@pytest.fixture
def url() -> str:
    return postgres_url()


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """One whose transactions may not be idle for long."""
    monkeypatch.setattr(postgres, "LEASE_SECONDS", 1.0)
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
