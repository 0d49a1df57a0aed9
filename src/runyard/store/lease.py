"""Liveness of engines on a shared store: leases on the database's own clock.

Each engine has a lease, renewed by a thread, and its session holds a lock that the server releases
when the process dies. An engine is dead if its lease has expired (its machine is gone, or it was
paused), or at once if its lock is free although the server has not been restarted since the lease
was last renewed. Clocks of clients play no part.

A process that was paused in the middle of a transaction still holds locks on the server. So others
end the sessions of an engine whose lease has expired, and sessions without an engine that were
silent for as long; a paused process opens new ones if it continues.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import psycopg
from psycopg import errors

from runyard.errors import UsageError
from runyard.store.sessions import OURS


def lease_seconds() -> float:
    """What `$RUNYARD_LEASE` says, otherwise 15."""
    text = os.environ.get("RUNYARD_LEASE") or "15"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"RUNYARD_LEASE is {text!r}", hint="use a number of seconds above zero")
    return seconds


LEASE_SECONDS = lease_seconds()
BEATS = 5
"""How many times a lease is renewed within its duration."""

_SPACE = "hashtext('runyard.engine.' || current_schema())"
_CREATE = """
    CREATE TABLE IF NOT EXISTS leases (
        engine BIGINT PRIMARY KEY, until TIMESTAMPTZ NOT NULL, renewed TIMESTAMPTZ NOT NULL,
        owner TEXT NOT NULL
    )
"""
_RENEW = """
    INSERT INTO leases
    SELECT engine, clock_timestamp() + make_interval(secs => %s), clock_timestamp(), %s
    FROM unnest(%s::bigint[]) AS engine
    ON CONFLICT (engine) DO UPDATE SET
        until = excluded.until, renewed = excluded.renewed, owner = excluded.owner
"""
_LIVE = f"""
    SELECT until > clock_timestamp() AND NOT (
        renewed > pg_postmaster_start_time() AND CASE
            WHEN pg_try_advisory_lock_shared({_SPACE}, engine::int)
            THEN pg_advisory_unlock_shared({_SPACE}, engine::int) ELSE false END
    ) FROM leases WHERE engine = %s
"""

_END_OVERDUE = """
    SELECT pg_terminate_backend(session.pid) FROM (
        SELECT DISTINCT pid FROM pg_stat_activity LEFT JOIN leases
        ON right(application_name, length(owner)) = owner
        WHERE datname = current_database() AND xact_start IS NOT NULL AND (
            owner <> %(owner)s AND until < clock_timestamp()
            OR application_name ~ %(ours)s AND state = 'active' AND wait_event = 'ClientRead'
            AND state_change < clock_timestamp() - make_interval(secs => %(lease)s)
        )
    ) AS session
"""
"""End sessions that hold locks: those of engines whose leases have expired, and those of any
process that has been silent for as long inside a pipeline, which the server counts as active and
not as idle. `xact_start` is hidden if this role may not end the session.
"""

Connect = Callable[[], "psycopg.Connection[Any]"]


class Leases:
    """The leases of one store."""

    def __init__(
        self,
        connect: Connect,
        translated: Callable[[], AbstractContextManager[None]],
        owner: str,
    ) -> None:
        self._connect = connect
        self._translated = translated
        self._owner = owner  # suffix of the names of this store's sessions
        self._lock = threading.RLock()
        self._held: set[int] = set()
        self._session: psycopg.Connection[Any] | None = None  # holds the locks
        self._locked: set[int] = set()  # in this session
        self._asking: psycopg.Connection[Any] | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table, in the caller's transaction."""
        connection.execute(_CREATE)

    def hold(self, engine: int) -> None:
        """Keep this engine's lease while the process is alive and not paused."""
        with self._lock, self._translated():
            self._held.add(engine)
            self._renew()
        self.watch()

    def watch(self) -> None:
        """Start renewing leases, and ending sessions of engines whose leases have expired."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat, name="runyard-lease", daemon=True
                )
                self._thread.start()

    def drop(self, engine: int) -> None:
        """Give up this engine's lease."""
        with self._lock:
            self._held.discard(engine)
            if engine in self._locked and self._session is not None:
                self._locked.discard(engine)
                with suppress(psycopg.Error):  # the server is unreachable, or the tables are gone
                    self._session.execute("DELETE FROM leases WHERE engine = %s", [engine])
                    self._session.execute(f"SELECT pg_advisory_unlock({_SPACE}, %s)", [engine])

    def live(self, engine: int) -> bool:
        """Whether an engine's lease is valid."""
        with self._lock, self._translated():
            if engine in self._held:
                return True
            try:
                return self._ask(engine)
            except psycopg.OperationalError:  # the connection may have been lost meanwhile
                self._asking = None
                return self._ask(engine)

    def close(self) -> None:
        """Give up all leases and close the sessions."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        for connection in (self._session, self._asking):
            if connection is not None:
                connection.close()
        self._session = self._asking = None
        self._held.clear()

    def _ask(self, engine: int) -> bool:
        found = self._asked(_LIVE, [engine]).fetchone()
        if found is None or found[0]:
            return found is not None
        self._end_overdue()  # before its claims are taken over
        return False

    def _asked(self, query: str, values: Any) -> psycopg.Cursor[Any]:
        if self._asking is None or self._asking.closed:
            self._asking = self._autocommitting()
        return self._asking.execute(query, values)

    def _end_overdue(self) -> None:
        with suppress(errors.InsufficientPrivilege):
            values = {"owner": self._owner, "ours": OURS, "lease": LEASE_SECONDS}
            self._asked(_END_OVERDUE, values)

    def _beat(self) -> None:
        while not self._closing.wait(LEASE_SECONDS / BEATS):
            with self._lock, suppress(psycopg.Error):
                if self._held:
                    self._renew()
                self._end_overdue()

    def _renew(self) -> None:
        """Renew all leases in the session that holds the locks; a lost session is reopened."""
        try:
            self._renew_in_session()
        except psycopg.OperationalError:
            self._session = None
            self._renew_in_session()

    def _renew_in_session(self) -> None:
        if self._session is None:
            self._session = self._autocommitting()
            self._locked = set()
        for engine in self._held - self._locked:
            self._session.execute(f"SELECT pg_advisory_lock({_SPACE}, %s)", [engine])
            self._locked.add(engine)
        self._session.execute(_RENEW, [LEASE_SECONDS, self._owner, sorted(self._held)])

    def _autocommitting(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.autocommit = True
        return connection
