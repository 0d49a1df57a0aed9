"""The result of a batch, read from the store on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard import clock
from runyard.errors import NotFound, StoreDamaged, UsageError
from runyard.plaintext import plain
from runyard.reports.failures import FailureGroup, group_failures
from runyard.spec.codec import decode_as
from runyard.spec.digest import digest
from runyard.spec.outcome import ErrorInfo, OutcomeRow, decoding_stored, digest_content
from runyard.spec.plan import Plan
from runyard.spec.status import FINAL_STATES, Status
from runyard.spec.task import Target
from runyard.store.base import Snapshot, Store
from runyard.store.stored_batch import StoredBatch, known, lost

if TYPE_CHECKING:
    import polars

    from runyard.reports.columns import Columns
    from runyard.reports.coordinates import Coordinate
    from runyard.reports.metrics import Group
    from runyard.store.rows import EngineRow
    from runyard.store.versions import MixedCode

By = Sequence[str] | str | None
MOST_GROUPS, MOST_METRICS = 20, 6
"""The most groups and metrics that a summary shows by default."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one task ended."""

    batch: str
    task: int
    status: Status
    params: dict[str, Any]
    labels: dict[str, Any]  # its coordinates in words: parameters, variant, case, replicate
    value: Any  # what it returned; for a failed task, the value of its error, if any
    error: ErrorInfo | None
    attempt: int  # number of earlier errors of the task
    started: float  # when its last attempt started, in Unix time
    seconds: float  # how long its last attempt took
    wait: float  # seconds from the batch's start to its own
    worker: int

    @property
    def id(self) -> str:
        """How the command line names the task."""
        return f"{self.batch}/{self.task}"


@dataclass(frozen=True, slots=True)
class Stats:
    """Progress of a batch in numbers."""

    total: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    seconds: float  # during which at least one engine ran it, over all resumes
    rate: float  # outcomes per second: the current rate while an engine runs it, else the mean
    eta: float | None  # seconds until the rest is done, while an engine runs it
    workers: int

    @property
    def done(self) -> int:
        """How many tasks have an outcome."""
        return self.completed + self.failed + self.cancelled


class Result:
    """The outcomes of one batch; streams them from the store."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        codec: str = "msgpack",
        end: str = "",
        ran: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._store = store
        self.folder = folder  # where the batch's files are
        self._codec = codec  # "pickle" only if the caller allows it
        self.name = name
        self.end = end
        self._ran = ran  # False if the run found everything done
        self._digest: str | None = None

    @property
    def recorded(self) -> StoredBatch:
        """The batch as it is recorded now."""
        with self._reading() as (_, recorded):
            return recorded

    @property
    def stats(self) -> Stats:
        """Counts, rate and what is left."""
        with self._reading() as (view, recorded):
            row = recorded.row
            engines = self._engines(view, row.id)
        running = min(row.pending, sum(e.running for e in engines))
        rate = sum(e.rate for e in engines)
        at_work = bool(engines and row.pending)  # else they wait for more
        row = row.ran_until(clock.now()) if at_work else row
        return Stats(
            total=row.total, queued=row.pending - running, running=running,
            completed=row.completed, failed=row.failed, cancelled=row.cancelled,
            seconds=row.seconds, rate=rate if at_work else row.mean_rate,
            eta=row.pending / rate if rate else None, workers=sum(e.workers for e in engines),
        )  # fmt: skip

    def engines_alive(self) -> set[int]:
        """The numbers of the engines that run the batch now."""
        with self._reading() as (view, recorded):
            return {engine.id for engine in self._engines(view, recorded.id)}

    @property
    def digest(self) -> str | None:
        """A hash of all outcomes; None while any task is unfinished."""
        if self._digest is None:
            with self._reading() as (view, recorded):
                if recorded.row.pending:
                    return None
                self._digest = digest(self._digest_contents(view, recorded))
        return self._digest

    @property
    def seed(self) -> int:
        """The batch's root seed."""
        return self.recorded.seed

    def outcomes(
        self, status: Status | str | None = None, *, offset: int = 0, limit: int | None = None
    ) -> Iterator[Outcome]:
        """Outcomes in task order, optionally of one status, a page of them."""
        with self._reading() as (view, recorded):
            stop = None if limit is None else offset + limit
            if not offset and limit is None:
                rows = _all_rows(view, recorded, status)
            elif status is None and _has_all(recorded):
                # Every number has an outcome, so that a page is found without counting.
                rows = view.outcomes(recorded.id, after=offset - 1, limit=limit)
            else:
                found = view.outcomes(recorded.id, limit=stop, statuses=codes_of(status))
                rows = islice(found, offset, stop)
            for row in rows:
                yield self._outcome(view, recorded, row)

    def outcome(self, task: int) -> Outcome:
        """One task's outcome."""
        with self._reading() as (view, recorded):
            row = recorded.outcome(view, task)
            if row is None:
                raise NotFound(f"task {self.name}/{task} has no outcome")
            return self._outcome(view, recorded, row)

    def target_of(self, task: int) -> Target:
        """What a task calls."""
        with self._reading() as (view, recorded):
            return recorded.target or recorded.task(view, task).target

    def rows(self) -> Iterator[OutcomeRow]:
        """Outcomes as they are stored, in task order."""
        with self._reading() as (view, recorded):
            yield from _all_rows(view, recorded, None)

    def codec_of_values(self) -> str:
        """How values are encoded; refuses pickled ones unless the caller allows it."""
        codec = self.recorded.codec
        self._refuse_pickle(codec)
        return codec

    @property
    def mixed_code(self) -> MixedCode:
        """Functions with outcomes from several versions, and the number from each."""
        from runyard.store.versions import mixed_code

        with self._reading() as (view, recorded):
            return mixed_code(view, recorded)

    @cached_property
    def columns(self) -> Columns:
        """The outcomes as arrays, as of the first access."""
        from runyard.reports.columns import read_columns

        return read_columns(self)

    @cached_property
    def coordinates(self) -> dict[str, Coordinate]:
        """The parameters and labels by which its tasks differ."""
        from runyard.reports.coordinates import coordinates

        with self._reading() as (view, recorded):
            return coordinates(view, recorded)

    def summaries(
        self, metrics: Iterable[str] | str | None = None, by: Sequence[str] | str = ()
    ) -> list[Group]:
        """Each metric's summary, by parameters, variant or case."""
        from runyard.reports.metrics import summarise

        wanted = [metrics] if isinstance(metrics, str) else metrics
        return summarise(self, wanted, [by] if isinstance(by, str) else by)

    def to_polars(self) -> polars.DataFrame:
        """A row for each task with an outcome; a column for each parameter and each metric."""
        from runyard.reports.tables import to_polars

        return to_polars(self)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report, by default among the batch's files; return its path."""
        from runyard.reports.html import write_report

        if self.folder is None:
            raise UsageError("this result has no folder", hint="get it from a Yard")
        place = None if path is None else Path(path)
        return write_report(self, self.folder, place, yard=str(self.folder.parent.parent))

    def values(self) -> Iterator[Any]:
        """What the completed tasks returned, in task order."""
        return (outcome.value for outcome in self.outcomes(Status.COMPLETED))

    def failures(self) -> list[FailureGroup]:
        """Failures grouped by error and line, the most frequent first."""
        with self._reading() as (view, recorded):
            if not recorded.row.failed:
                return []
            return group_failures(_all_rows(view, recorded, Status.FAILED))

    def headline(self) -> str:
        """Progress on one line."""
        stats = self.stats
        parts = [f"{stats.completed:,} of {stats.total:,} completed"]
        parts += [
            f"{count:,} {name}"
            for name in ("failed", "cancelled", "queued", "running")
            if (count := getattr(stats, name))
        ]
        if not self._ran:
            return f"{self.name}: already complete, {', '.join(parts)}"
        return f"{self.name}: {', '.join(parts)} in {stats.seconds:.2f} s"

    def summary(self, metrics: Iterable[str] | str | None = None, by: By = None) -> str:
        """The batch in a few lines, for people: counts, failures, and each metric's mean.

        `by` names what to group by; by default, parameters that give a table of screen size.
        """
        from runyard.reports.text import aligned, summary_rows
        from runyard.reports.versions import mixed_lines

        lines = [self.headline(), *(f"  {line}" for line in mixed_lines(self.mixed_code))]
        lines += [f"  {group.line()}" for group in self.failures()[:5]]
        groups = self._shown_groups(metrics, by)
        if groups and groups[0].summaries:
            rows = summary_rows(groups)
            lines += [f"  {line}" for line in aligned(rows.heads, rows.cells, rows.numbers)]
        digest = self.digest
        if digest is not None:
            lines.append(f"  seed {self.seed}, digest {digest[:16]}")
        return plain("\n".join(lines))

    def _shown_groups(self, metrics: Iterable[str] | str | None, by: By) -> list[Group]:
        if metrics is None and by is None and not self.columns.names:
            return []
        if by is None:
            from runyard.reports.coordinates import shown_coordinates

            by = shown_coordinates(self.coordinates, self.recorded.plan, MOST_GROUPS)
            metrics = self.columns.names[:MOST_METRICS] if metrics is None else metrics
        return self.summaries(metrics, by)

    def _repr_html_(self) -> str:
        """The batch as a notebook shows it."""
        from runyard.reports.text import notebook_html

        lines = [self.headline(), *(group.line() for group in self.failures()[:5])]
        return notebook_html(lines, self._shown_groups(None, None), self.seed, self.digest)

    def __repr__(self) -> str:
        return f"<Result of {self.name}: {self.stats.done} of {self.stats.total} done>"

    @contextmanager
    def _reading(self) -> Iterator[tuple[Snapshot, StoredBatch]]:
        """A snapshot of the store, and the batch in it."""
        with self._store.snapshot() as view:
            yield view, StoredBatch(known(view, self.name))

    def _engines(self, view: Snapshot, batch: int) -> list[EngineRow]:
        return [e for e in view.engines() if e.batch == batch and self._store.alive(e.id)]

    def _outcome(self, view: Snapshot, recorded: StoredBatch, row: OutcomeRow) -> Outcome:
        value = None
        if row.value is not None:
            self._refuse_pickle(recorded.codec)
            with decoding_stored(f"the value of {self.name}/{row.task}"):
                value = decode_as(recorded.codec, row.value)
        return Outcome(
            batch=recorded.name,
            task=row.task,
            status=Status.of(row.status),
            params=recorded.params(view, row.task),
            labels=recorded.labels(view, row.task),
            value=value,
            error=None if row.error is None else ErrorInfo.decode(row.error),
            attempt=row.attempt,
            started=row.started,
            seconds=row.seconds,
            wait=max(0.0, row.started - (recorded.row.started or row.started)),
            worker=row.worker,
        )

    def _refuse_pickle(self, codec: str) -> None:
        if codec == "pickle" and self._codec != "pickle":
            raise UsageError(
                f"the values of {self.name} are pickled, and unpickling can run any code",
                hint='if you trust the source of this store, pass codec="pickle" or --codec pickle',
            )

    def _digest_contents(
        self, view: Snapshot, recorded: StoredBatch
    ) -> Iterator[tuple[int, bytes]]:
        order = recorded.plan.in_order() if isinstance(recorded.plan, Plan) else None
        if order is None or isinstance(order, range):
            count = 0
            for count, row in enumerate(view.outcomes(recorded.id), start=1):
                if row.task != count - 1 and recorded.row.next_task == recorded.row.total:
                    raise lost(recorded.name, count - 1)
                yield digest_content(row)
            if count != recorded.row.total:
                raise lost(recorded.name, count)
            return
        for task in order:
            found = view.outcome(recorded.id, task)
            if found is None:
                raise lost(recorded.name, task)
            yield digest_content(found)


def _all_rows(
    view: Snapshot, recorded: StoredBatch, status: Status | str | None
) -> Iterator[OutcomeRow]:
    """Every row of a status; as many as were recorded, or the store is damaged."""
    codes = codes_of(status)
    expected = recorded.row.done if status is None else getattr(recorded.row, Status(status).value)
    count = 0
    for row in view.outcomes(recorded.id, statuses=codes):
        count += 1
        yield row
    if count != expected:
        raise StoreDamaged(
            f"{expected} outcomes of {recorded.name} were recorded, but {count} are there",
            hint="run `runyard doctor`",
        )


def _has_all(recorded: StoredBatch) -> bool:
    """Whether every number up to the last one has an outcome."""
    return not recorded.row.pending and recorded.row.next_task == recorded.row.total


def codes_of(status: Status | str | None) -> Sequence[int] | None:
    """The codes of a final status; None means all of them."""
    if status is None:
        return None
    try:
        wanted = Status(status)
    except ValueError:
        wanted = Status.QUEUED
    if wanted not in FINAL_STATES:
        names = ", ".join(sorted(FINAL_STATES))
        raise UsageError(f"no outcome has the status {status!r}", hint=f"use one of: {names}")
    return [wanted.code]
