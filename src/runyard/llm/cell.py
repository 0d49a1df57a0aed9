"""A cell: the calls of one task, or of one block of code, counted and recorded or replayed."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Literal

from runyard.llm.prices import Prices
from runyard.llm.usage import Usage

Mode = Literal["record", "replay", "live"]


class Tape:
    """The calls of one cell; a context manager, also inside coroutines.

    After the block, `usage` has what the cell used. A replayed call has the tokens and the latency
    that were recorded.
    """

    cell: str
    mode: Mode
    usage: Usage

    def __enter__(self) -> Tape:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what was recorded; raise NotRecorded if a call wasn't, even if that was caught."""
        raise NotImplementedError


def tape(
    path: str | os.PathLike[str] | None = None,
    mode: Mode = "replay",
    cell: str | None = None,
    *,
    prices: Prices | None = None,
    budget: float | None = None,
) -> Tape:
    """Record or replay every request that httpx and httpx2 send inside the block.

    `cell` names the block in the tape; by default it is the number of the task that runs. Cells
    with other names don't affect it, and recording a cell again replaces what it had. With "live"
    nothing is recorded, only counted, and the path may be left out.

    `budget` is the most dollars for all cells of the batch together on this machine; once it is
    used up, further calls raise BudgetReached.
    """
    raise NotImplementedError


def usage() -> Usage:
    """What the calls of the current tape or task have used so far."""
    raise NotImplementedError
