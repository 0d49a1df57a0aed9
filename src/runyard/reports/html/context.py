"""The data of a report, gathered once, and how to add a section to reports.

from runyard.reports.html import Section, register, table

def hands(context):
    return Section("Hands", table(["hand", "wins"], rows), order=45)

register(lambda recorded: recorded.target.ref.startswith("casino"), hands)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.addresses import command
from runyard.errors import UsageError
from runyard.reports.coordinates import REPLICATE, coordinate
from runyard.reports.html.blocks import Html
from runyard.reports.html.history import RunHistory, read_history
from runyard.store.stored_batch import StoredBatch

if TYPE_CHECKING:
    from runyard.reports.metrics import Group
    from runyard.reports.result import Result, Stats

MOST_METRICS = 8
MOST_GROUPS = 12
MOST_CELLS = 24
MOST_ASKED = 100


@dataclass(frozen=True)
class Section:
    """A part of a report; lower `order` comes first, those of the report itself are 10 to 85."""

    title: str
    html: Html
    order: int = 50


class ReportContext:
    """A batch and its figures, each read on first use."""

    def __init__(
        self,
        result: Result,
        folder: Path,
        *,
        metrics: Sequence[str] = (),
        by: Sequence[str] = (),
        yard: str | None = None,
        level: float = 0.95,
    ) -> None:
        self.result = result
        self.folder = folder  # of the batch
        self.level = level
        self._metrics = tuple(metrics)
        self._by = tuple(by)
        self._yard = yard
        for name in self._by:
            coordinate(result.coordinates, name)
        result.columns.chosen(self._metrics)

    @cached_property
    def recorded(self) -> StoredBatch:
        """The batch as it is recorded."""
        return self.result.recorded

    @cached_property
    def stats(self) -> Stats:
        """Counts, rate, time."""
        return self.result.stats

    @cached_property
    def history(self) -> RunHistory:
        """Runs, retries, lost workers and alerts."""
        return read_history(self.folder / "events.jsonl")

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics that are shown: as requested, or the first few."""
        return self.result.columns.chosen(self._metrics)[: None if self._metrics else MOST_METRICS]

    @property
    def other_metrics(self) -> int:
        """The number of metrics that are not shown."""
        return len(self.result.columns.names) - len(self.metrics)

    @cached_property
    def axes(self) -> list[str]:
        """What tasks are grouped by: as requested, or with 2 to 12 values."""
        if self._by:
            return list(self._by)
        known = self.result.coordinates
        found = [
            n for n, c in known.items() if n != REPLICATE and 2 <= len(c.values) <= MOST_GROUPS
        ]
        # A variant's own parameters say the same again.
        roles = [name for name in ("variant", "case") if name in found]
        plan = self.recorded.plan
        own = {a.name for a in plan.axes} if plan is not None else set(found)
        return roles + [name for name in found if name not in roles and name in own]

    @cached_property
    def groups(self) -> list[Group]:
        """Summaries by everything that tasks differ by, where that gives a table one can read."""
        cells, chosen = 1, []
        for name in self.axes:
            cells *= len(self.result.coordinates[name].values)
            # A group of one task has nothing to summarise.
            if self._by or (cells <= MOST_CELLS and 2 * cells <= self.stats.completed):
                chosen.append(name)
        if self._by and cells > MOST_ASKED:
            raise UsageError(
                f"--by gives {cells:,} groups, but a report shows at most {MOST_ASKED}",
                hint="choose parameters with fewer values; `runyard results --by` lists any number",
            )
        return self.result.summaries(self.metrics, chosen)

    @cached_property
    def whole(self) -> Group:
        """Summaries over all tasks."""
        return self.result.summaries(self.metrics)[0]

    def by_value(self, task: int | None = None) -> bool:
        """Whether a function travels by value, so that no command can call it again."""
        target = self.recorded.target
        if target is None and task is not None:
            target = self.result.target_of(task)
        return target is not None and target.kind == "value"

    def near(self, text: str) -> str:
        """Text with paths relative to the project's folder."""
        return text.replace(f"{self.recorded.row.root}/", "")

    def command(self, *words: str) -> str:
        """A command for this batch's yard, as a person types it in the project's folder."""
        return command(*words, location=self._yard)

    def repro(self, task: int) -> str:
        """The command that runs one task again."""
        return self.command("repro", f"{self.result.name}/{task}")


Maker = Callable[[ReportContext], Section | None]


_REGISTERED: list[tuple[Callable[[StoredBatch], bool], Maker]] = []


def register(matches: Callable[[StoredBatch], bool], maker: Maker) -> None:
    """Add a section to the reports of every batch that matches; adding it twice has no effect."""
    if (matches, maker) not in _REGISTERED:
        _REGISTERED.append((matches, maker))


def unregister(maker: Maker) -> None:
    """The inverse of `register`."""
    _REGISTERED[:] = [each for each in _REGISTERED if each[1] is not maker]


def registered(recorded: StoredBatch) -> Iterable[Maker]:
    """What was registered for a batch like this one."""
    return [maker for matches, maker in _REGISTERED if matches(recorded)]
