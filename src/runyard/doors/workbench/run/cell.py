"""One cell as a task of a batch.

    parameters ──▶ CellProgram ──▶ graph of the variant ──▶ Drive ──▶ value: status, output, state
                                       └──▶ TapeSaver, CellWatch ──▶ the worker's files

The value is what the digest covers. The tape is flushed before the value is returned, and so before
the outcome is recorded. LangGraph is loaded with this module and not later, since what its import
changes in a process would be taken for the doing of the first cell.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, update_wrapper
from typing import Any

from runyard.attempt.context import Context
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.run.program import CellProgram, Local
from runyard.doors.workbench.run.session import CellSession
from runyard.spec.codec import decode, encode


def cell(ctx: Context, **params: Any) -> dict[str, Any]:
    """Run a variant of a graph on a case; everything is found by name."""
    return _run(_by_name(encode(params["settings"])), ctx, params)


def as_coroutine(ctx: Context, **params: Any) -> Coroutine[Any, Any, Any] | None:
    """The same on an event loop, if the graph has to be awaited."""
    return _coroutine(_by_name(encode(params["settings"])), ctx, params)


cell.as_coroutine = as_coroutine  # type: ignore[attr-defined]


class Cells:
    """The same for graphs and cases that can't be found by name: they travel with it."""

    def __init__(self, program: CellProgram | Local) -> None:
        self._program = program
        update_wrapper(self, cell)
        vars(self).pop("as_coroutine", None)
        self.__qualname__ = "cell (with the graph and its nodes)"  # for an error if it can't travel

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any]]:
        return Cells, (self._program,)

    def __call__(self, ctx: Context, **params: Any) -> dict[str, Any]:
        """Run a cell."""
        return _run(self.program, ctx, params)

    def as_coroutine(self, ctx: Context, **params: Any) -> Coroutine[Any, Any, Any] | None:
        """The same on an event loop, if the graph has to be awaited."""
        return _coroutine(self.program, ctx, params)

    @property
    def program(self) -> CellProgram:
        """What it runs."""
        found = self._program
        return found.program if isinstance(found, Local) else found


@lru_cache(8)
def _by_name(settings: bytes) -> CellProgram:
    return CellProgram({}, CellSettings(**decode(settings)))


def _run(program: CellProgram, ctx: Context, params: Mapping[str, Any]) -> dict[str, Any]:
    session = CellSession(program, ctx, params)
    if not session.is_async:
        return session.run()
    if not _on_loop():
        return asyncio.run(session.arun())
    # A notebook's loop, or that of another task: the graph gets its own beside it.
    here = contextvars.copy_context()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(here.run, asyncio.run, session.arun()).result()


def _coroutine(
    program: CellProgram, ctx: Context, params: Mapping[str, Any]
) -> Coroutine[Any, Any, Any] | None:
    session = CellSession(program, ctx, params)
    return session.arun() if session.is_async else None


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
