"""Sessions with a PostgreSQL server: all have the same settings, and no wait is endless.

A frozen server neither answers nor closes connections. So a session that receives nothing for a
while opens another connection: if that is not answered either, the server counts as unreachable.
A store in a hurry skips this check: silence is enough.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Generator
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import conninfo, errors, waiting
from psycopg.adapt import Dumper
from psycopg.pq import Format, TransactionStatus

from runyard.store.arrays import Packed

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # its errors are raised anyway

CONNECT_SECONDS = 10
"""How long to wait for a server that does not answer."""

SILENCE_SECONDS = 10.0
"""How long a statement may take before checking whether the server still answers."""

AWAY_SECONDS = 10.0
"""How long a server that was given up in a hurry is not tried again."""

INTERVAL = 0.1
"""Seconds between checks for signals and for waits that last too long."""

NAME_LENGTH = 63
"""The longest session name that PostgreSQL keeps."""

OURS = " [0-9a-f]{16}$"
"""The end of the names of all stores' sessions: the store's owner."""

R = TypeVar("R")

_SETTINGS = {
    "lock_timeout": "0",
    "default_transaction_isolation": "'read committed'",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "DateStyle": "ISO",
    "TimeZone": "'UTC'",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
}
"""Settings that sessions rely on and that a role or database may have changed."""

_LATER = {"idle_session_timeout": (140000, "0"), "transaction_timeout": (170000, "0")}
"""More such settings, with the server version that introduced each."""

_TIMED_OUT = (errors.QueryCanceled, errors.IdleSessionTimeout)
"""Errors that a role's timeouts may cause before the session has disabled them."""


class DatabaseSession(psycopg.Connection[Any]):
    """A connection that never waits forever."""

    sessions: Sessions

    def wait(
        self,
        gen: Any,
        interval: float = INTERVAL,
        timeout: float | None = None,
    ) -> Any:
        """Run a generator of the driver until it ends, is interrupted or is given up."""
        more = {} if timeout is None else {"timeout": timeout}
        try:
            return waiting.wait(self._watched(gen), self.pgconn.socket, interval=interval, **more)
        except BaseException as error:
            left = isinstance(error, _GivenUp) or not isinstance(error, Exception)
            if left and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # the server rolls back
            raise

    def rollback(self) -> None:
        """Roll back the open transaction; for a lost session, the server does it."""
        if not self.closed:
            super().rollback()

    def _watched(self, gen: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
        """The same generator, which checks the server if a wait lasts too long."""
        heard, ready = time.monotonic(), None
        try:
            while True:
                ready = yield gen.send(ready)
                now = time.monotonic()
                if ready:
                    heard = now
                elif now - heard > self.sessions.patience:
                    self.sessions.check_server()
                    heard = time.monotonic()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class _GivenUp(psycopg.OperationalError):
    """A wait was given up; whether the statement took effect is unknown."""

    def __init__(self) -> None:
        super().__init__("the server does not answer")


class _PackedDumper(Dumper):
    """Passes on arrays already in the server's format; the statement states their type."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Any) -> bytes:
        return bytes(obj)


class Sessions:
    """Opens the sessions of one store."""

    def __init__(self, url: str, idle_seconds: float) -> None:
        given = conninfo.conninfo_to_dict(url)
        self.owner = secrets.token_hex(8)
        """Identifies the sessions of this store in this process to others."""
        name = str(given.get("application_name") or "runyard")
        name = f"{name[: NAME_LENGTH - len(self.owner) - 1]} {self.owner}"
        self._settings: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "keepalives_idle": 10,
            **given,
            "application_name": name,
            "client_encoding": "utf8",
        }
        # An engine that is paused between two statements must not block the others.
        idle = str(int(1000 * idle_seconds))
        self._set = _SETTINGS | {"idle_in_transaction_session_timeout": idle}
        self._hurry: float | None = None
        self._away_until = 0.0

    @property
    def is_hurried(self) -> bool:
        """Whether silence is enough to give up on the server."""
        return self._hurry is not None

    @property
    def patience(self) -> float:
        """Seconds of silence before `check_server` is called."""
        if time.monotonic() < self._away_until:
            return 0.0
        return SILENCE_SECONDS if self._hurry is None else self._hurry

    def hurry(self, seconds: float) -> None:
        """Give up on the server once it is silent for `seconds`."""
        self._hurry = seconds

    def relax(self) -> None:
        """Undo `hurry`."""
        self._hurry = None

    def connect(self) -> DatabaseSession:
        """Open a new session."""
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            session = self._connected()
            try:
                self._prepare(session)
            except _TIMED_OUT:
                session.close()
                if time.monotonic() > until:
                    raise
            except BaseException:
                session.close()
                raise
            else:
                return session

    def check_server(self) -> None:
        """Raise if a server that has been silent does not answer a new connection either."""
        if self._hurry is not None:
            self._give_up()
        try:
            self._connected().close()
        except errors.ConnectionTimeout as error:
            raise _GivenUp from error
        except _GivenUp:
            raise
        except psycopg.OperationalError:
            return  # the server answered, even if it refused

    def _give_up(self) -> NoReturn:
        self._away_until = max(self._away_until, time.monotonic() + AWAY_SECONDS)
        raise _GivenUp

    def _connected(self) -> DatabaseSession:
        if time.monotonic() < self._away_until:
            raise _GivenUp
        settings = dict(self._settings)
        if self._hurry is not None:
            settings["connect_timeout"] = math.ceil(self._hurry)
        try:
            session = DatabaseSession.connect(**settings, autocommit=True)
        except errors.ConnectionTimeout:
            if self._hurry is not None:
                self._give_up()
            raise
        session.sessions = self
        return session

    def _prepare(self, session: DatabaseSession) -> None:
        session.execute("SET statement_timeout = 0")  # alone: the next one may take longer
        version = session.info.server_version
        later = {name: value for name, (since, value) in _LATER.items() if version >= since}
        wanted = {**self._set, **later}.items()
        session.execute("; ".join(f"SET {name} = {value}" for name, value in wanted))
        session.autocommit = False
        session.adapters.register_dumper(Packed, _PackedDumper)
