"""A cell: the calls of one task, or of one block of code, counted and recorded or replayed."""

from __future__ import annotations

import json
import math
import os
import threading
from collections import Counter
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from runyard import clock
from runyard.attempt import context
from runyard.attempt.context import Context
from runyard.errors import BudgetReached, NotRecorded, TaskError, UsageError
from runyard.llm import tapefile
from runyard.llm.costs import Usage, used
from runyard.llm.nearest import difference
from runyard.llm.prices import Prices
from runyard.llm.request import Call, comparable
from runyard.llm.shared import FILE, Shared
from runyard.llm.tapefile import Entry

Mode = Literal["record", "replay", "live"]

OUTSIDE = "main"
"""The default name of a cell outside a task."""

LONGEST_SHOWN = 300
"""Characters of a request that an error shows."""

_NAMED = 5  # cells that an error lists


class Tape:
    """The calls of one cell; a context manager, also inside coroutines.

    `usage` has what the cell has used so far. A replayed call has the tokens and the latency that
    were recorded.
    """

    def __init__(
        self,
        path: Path | None,
        mode: Mode,
        cell: str | None = None,
        *,
        prices: Prices | None = None,
        budget: float | None = None,
    ) -> None:
        task = context.current()
        self.path = path
        self.mode: Mode = mode
        self.cell = cell or (OUTSIDE if task is None else str(task.task))
        self.usage = Usage()
        self.shared = _process if task is None else Shared(task.folder / FILE)
        self._prices = prices
        self._budget = task.budget.get("usd") if budget is None and task is not None else budget
        self._lock = threading.Lock()
        self._calls: dict[int, tuple[Call, dict[str, Any], float]] = {}  # in the order they began
        self.begun = 0  # calls
        self._recorded: list[Entry] | None = None  # to replay
        self._waits: list[tuple[float, float]] = []  # when calls waited
        self._asked: Counter[str] = Counter()
        self._fatal: TaskError | None = None  # ends the cell, even if it is caught
        self._is_closed = False
        self._before: Tape | None = None

    def __enter__(self) -> Tape:
        from runyard.llm.wire import install

        install()
        if self.mode == "replay" and self.path is not None:
            self._recorded = tapefile.load(self.path, self.cell)
        self._before = _current.get()
        _current.set(self)
        _open.append(self)
        task = context.current()
        if task is not None:
            _of_task.setdefault(task, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what was recorded; raise NotRecorded or BudgetReached, even if it was caught."""
        _current.set(self._before)
        _open.remove(self)
        task = context.current()
        if task is not None and _of_task.get(task) is self:
            del _of_task[task]
        self._is_closed = True
        if error is not None and not isinstance(error, Exception):
            return  # a cell that was interrupted does not replace an earlier recording
        if self._fatal is not None:
            if error is not self._fatal:
                raise self._fatal from error
        elif self.mode == "record" and self.path is not None:
            tapefile.save(self.path, self.cell, self._entries())

    @property
    def prices(self) -> Prices:
        """The price table of this cell."""
        self._prices = self._prices or Prices.load()
        return self._prices

    def begin(self) -> int:
        """A call is about to be made; returns its number."""
        with self._lock:
            if self._is_closed and self.mode != "live":
                raise UsageError(
                    f"a request was sent after the tape of cell {self.cell!r} was closed",
                    hint="wait for all calls before the `with` block ends",
                )
            self.begun += 1
            return self.begun

    def replay(self, call: Call) -> Entry:
        """The recorded answer to a call; raises NotRecorded."""
        with self._lock:
            self._asked[call.key] += 1
            number = self._asked[call.key]
        sent = comparable(call.recorded())
        same = [each for each in self._recorded or () if comparable(each.request) == sent]
        if len(same) < number:
            self._fatal = self._fatal or self._missing(call, len(same))
            raise self._fatal
        return same[number - 1]

    def refuse_beyond_budget(self, call: Call) -> None:
        """Raise if there is no money for one more call."""
        if self._budget is None or call.model is None:
            return
        if self.prices.price(call.model) is None:
            raise UsageError(
                f"a budget in dollars needs the price of {call.model!r}, "
                f"which {self.prices.source} doesn't have",
                hint="add it to a price table, and set RUNYARD_PRICES to the table's path",
            )
        spent = self.shared.spent()
        if spent >= self._budget:
            self._fatal = BudgetReached(f"${spent:.4g} of ${self._budget:.4g} are spent")
            raise self._fatal

    def ended(self, number: int, call: Call, answer: dict[str, Any], seconds: float) -> Usage:
        """A call that was really made has ended; returns what it used."""
        usage = used(call, answer, seconds, self.prices)
        self.shared.spend(usage.usd or 0.0)
        with self._lock:
            self._count(usage)
            if self.mode == "record":
                self._calls[number] = call, answer, seconds
        return usage

    def replayed(self, call: Call, entry: Entry) -> Usage:
        """The same for a recorded call, for which nothing is spent."""
        usage = used(call, entry.answer, entry.seconds, self.prices)
        with self._lock:
            self.usage += usage
        return usage

    def waited(self, seconds: float) -> None:
        """Count a wait for the rate limit, or before a retry."""
        with self._lock:
            self._count(Usage(waited=seconds))

    @property
    def seconds_waited(self) -> float:
        """How long at least one call waited; `usage.waited` is the sum over calls at once.

        A replay waits for nothing.
        """
        with self._lock:
            total, until = 0.0, -math.inf
            for start, end in sorted(self._waits):
                total += max(0.0, end - max(start, until))
                until = max(until, end)
            return total

    def _count(self, usage: Usage) -> None:
        """Add what was used just now."""
        self.usage += usage
        if usage.waited:
            now = clock.monotonic()
            self._waits.append((now - usage.waited, now))

    def _entries(self) -> list[Entry]:
        with self._lock:
            made = [self._calls[number] for number in sorted(self._calls)]
        return [
            Entry(self.cell, number, call.recorded(), answer, round(seconds, 3))
            for number, (call, answer, seconds) in enumerate(made)
        ]

    def _missing(self, call: Call, times: int) -> NotRecorded:
        hint = 'record the cell again, with the mode "record"'
        sent = f"{call.method} {call.path}"
        if self._recorded is None:
            assert self.path is not None
            known = tapefile.cells(self.path)
            listed = ", ".join(map(repr, known[:_NAMED])) + (", …" if len(known) > _NAMED else "")
            has = f"its cells are {listed}" if known else "it is empty"
            return NotRecorded(f"{self.path} has no cell {self.cell!r}; {has}", hint=hint)
        where = f"cell {self.cell!r} of {self.path}"
        if times:
            often = "once" if times == 1 else f"{times} times"
            shown = json.dumps(call.body, ensure_ascii=False)[:LONGEST_SHOWN]
            return NotRecorded(
                f"{where} has this request {often}, and now it was sent again: {sent} {shown}",
                hint=hint,
            )
        requests = [each.request for each in self._recorded if each.request is not None]
        if not requests:
            return NotRecorded(f"{where} made no request, and now sends {sent}", hint=hint)
        changed = difference(call.recorded(), requests)
        return NotRecorded(f"{where} has no answer to this {sent}:\n{changed}", hint=hint)


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

    `budget` is the most dollars for all cells of the batch together on this machine (outside a
    task: for this process), by default the batch's own budget of `usd`. Once it is used up, further
    calls raise BudgetReached.
    """
    if mode not in get_args(Mode):
        raise UsageError(f"{mode!r} is not a mode", hint=f"use {', '.join(get_args(Mode))}")
    if path is None and mode != "live":
        raise UsageError(f'the mode "{mode}" needs the path of a tape')
    place = None if path is None else Path(path)
    return Tape(place, mode, cell, prices=prices, budget=budget)


def usage() -> Usage:
    """What the calls of the current tape have used so far, or else those of the task or process."""
    return (current_tape() or _unrecorded()).usage


def current_tape() -> Tape | None:
    """The tape of the cell that this code belongs to.

    A thread that inherits no context, as those of a pool, belongs to the task that started it, or
    else to the one open tape. Where several are open, it could only guess.
    """
    found = _current.get()
    if found is not None:
        return found
    task = context.current()
    if task is not None and task in _of_task:
        return _of_task[task]
    if len(_open) == 1:
        return _open[0]
    if _open and all(each.mode == "replay" for each in _open):
        raise UsageError(
            "a request came from a thread that belongs to none of the cells that are replayed",
            hint="start threads inside the cell, and pass them the context: "
            "`contextvars.copy_context().run(function)`",
        )
    return None


def tape_for_own_call() -> Tape:
    """The tape for a call of our own client; one that only counts where none is open."""
    from runyard.llm.wire import install

    install()
    return current_tape() or _unrecorded()


def _unrecorded() -> Tape:
    """What counts calls of our own client where no tape is open: one for each task."""
    task = context.current()
    with _making:
        return _outside() if task is None else _counters.setdefault(task, Tape(None, "live"))


@cache
def _outside() -> Tape:
    return Tape(None, "live")


_current: ContextVar[Tape | None] = ContextVar("runyard_tape", default=None)
_open: list[Tape] = []
_of_task: WeakKeyDictionary[Context, Tape] = WeakKeyDictionary()
_counters: WeakKeyDictionary[Context, Tape] = WeakKeyDictionary()
_making = threading.Lock()
_process = Shared()
