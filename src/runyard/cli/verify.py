"""`runyard verify`: rerun a sample of a batch in a temporary yard."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from runyard.backends import NAMES as BACKENDS
from runyard.cli.compared import difference, seen
from runyard.cli.results import codec_option
from runyard.cli.session import Session, examples, shared, style
from runyard.errors import NotFound, UsageError
from runyard.format import count
from runyard.spec.hash_seed import pinned, shown

if TYPE_CHECKING:
    from runyard.events import Event
    from runyard.reports.result import Result
    from runyard.reports.versions import MixedCode
    from runyard.spec.outcome import OutcomeRow
    from runyard.store.base import Snapshot, Transaction
    from runyard.store.rows import TaskRow
    from runyard.store.stored_batch import StoredBatch
    from runyard.yard import Yard

RUNS = 128
"""The most runs of neighbouring tasks in a sample; each is one claim."""

DEADLY = frozenset({"WorkerDied", "TaskOutOfMemory", "TaskTimeout"})
"""Errors whose tasks are rerun only on backends where they can't kill this process."""


@click.command(
    epilog=examples(
        "runyard verify walks",
        "runyard verify walks --sample 100% --backend threads",
        "runyard verify walks --sample 50 --backend processes --workers 3",
    )
)
@click.argument("batch")
@click.option(
    "--sample",
    metavar="N|N%",
    default="10%",
    show_default=True,
    help="Rerun this number or share of tasks, the same ones each time.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="serial",
    show_default=True,
    help="Run tasks on this backend.",
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Run N tasks at once.")
@click.option("--progress/--no-progress", default=True, help="Show progress on stderr.")
@codec_option
@shared
def verify(
    session: Session,
    batch: str,
    sample: str,
    backend: str,
    workers: int | None,
    progress: bool,
    codec: str,
) -> int:
    """Rerun a sample on another backend and compare.

    By default tasks run one after another, which shows that running in parallel changed nothing.
    Exit code 0: all are the same; 1: some differ, and the first one is shown.
    """
    from runyard.reports.progress import show
    from runyard.store.versions import hash_seed_of
    from runyard.yard import Yard

    share = _share(sample)
    with session.yard() as yard:
        session.pin_hash_seed(pinned(hash_seed_of(yard.recorded(batch))))
    with session.yard() as yard, tempfile.TemporaryDirectory(prefix="runyard-verify-") as place:
        yard.refuse_by_value(batch)
        recorded = yard.recorded(batch)
        with Yard(place) as elsewhere:
            with yard.store.snapshot() as view, elsewhere.store.transaction() as tx:
                chosen = _choose(view, recorded, share, backend)
                copy_sample(tx, view, recorded, sorted(chosen))
            with show(elsewhere.bus, progress, _of_sample(recorded, chosen)):
                result = elsewhere.resume(batch, backend=backend, workers=workers, progress=False)
            again = _again(elsewhere, result, chosen)
        code = _code(yard, recorded, chosen)
    return _tell(session, recorded, backend, codec, chosen, again, code)


def copy_sample(tx: Transaction, view: Snapshot, recorded: StoredBatch, chosen: list[int]) -> None:
    """Copy a batch to another store, with these tasks left to run and all others done."""
    from runyard.spec.outcome import OutcomeRow
    from runyard.store.stored_batch import encode_options

    row = recorded.row
    columns: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("name", "identity", "plan", "code", "seed", "root", "priority")
    }
    columns["options"] = encode_options(recorded.options.for_verify())
    if recorded.listed:
        made = tx.create_batch(**columns, total=0)
        listed = view.tasks(recorded.id)
        for first, tasks in _neighbours(listed):
            tx.update_batch(made.id, frontier=first)  # earlier tasks may have been removed
            tx.add_tasks(made.id, [(task.name, task.priority, task.content, ()) for task in tasks])
        wanted = set(chosen)
        others = [OutcomeRow.cancelled(made.id, t.task) for t in listed if t.task not in wanted]
        tx.record(made.id, others)
        return
    # The tasks of a grid are not listed: all others count as cancelled, without a row.
    left_out = row.total - len(chosen)
    made = tx.create_batch(**columns, total=row.total, frontier=row.total, cancelled=left_out)
    tx.record(made.id, [OutcomeRow.cancelled(made.id, task) for task in chosen])
    tx.requeue(made.id, chosen)


def _neighbours(listed: list[TaskRow]) -> Iterator[tuple[int, list[TaskRow]]]:
    """Runs of tasks without gaps in their numbers, each with its first number."""
    for _, run in groupby(enumerate(listed), lambda at: at[1].task - at[0]):
        tasks = [task for _, task in run]
        yield tasks[0].task, tasks


def _of_sample(recorded: StoredBatch, chosen: Collection[int]) -> Callable[[Event], Event]:
    """Make events count the sample only."""
    left_out = recorded.row.total - len(chosen)

    def seen_as(event: Event) -> Event:
        changes: dict[str, Any] = {}
        if hasattr(event, "total"):
            changes["total"] = event.total - left_out
        if hasattr(event, "cancelled"):
            changes["cancelled"] = event.cancelled - left_out
        return replace(event, **changes)

    return seen_as


def _choose(
    view: Snapshot, recorded: StoredBatch, share: float | int, backend: str
) -> dict[int, OutcomeRow]:
    """The sample: runs of neighbouring tasks, chosen by the seed."""
    from runyard.backends import backend_class

    abilities = backend_class(backend).capabilities
    careful = not (abilities.survives_crash and abilities.hard_kill)
    numbers: Sequence[int] = range(recorded.row.total)
    if recorded.listed:  # some may have been removed
        numbers = [task.task for task in view.tasks(recorded.id)]
    most = share if isinstance(share, int) else max(1, math.ceil(share * recorded.row.done))
    size = max(1, math.ceil(min(most, len(numbers)) / RUNS))

    def lot(run: int) -> bytes:
        return hashlib.sha256(f"{recorded.seed}/{run}".encode()).digest()

    chosen: dict[int, OutcomeRow] = {}
    for run in sorted(range(math.ceil(len(numbers) / size)), key=lot):
        part = numbers[run * size : (run + 1) * size]
        rows = view.outcomes(recorded.id, after=part[0] - 1, limit=size)
        for row in takewhile(lambda row: row.task <= part[-1], rows):  # noqa: B023
            if len(chosen) < most and _is_repeatable(row, careful):
                chosen[row.task] = row
        if len(chosen) >= most:
            break
    if not chosen:
        raise NotFound(f"{recorded.name} has no outcomes that can be rerun on {backend}")
    return chosen


def _is_repeatable(row: OutcomeRow, careful: bool) -> bool:
    from runyard.spec.outcome import ErrorInfo
    from runyard.spec.status import CANCELLED

    if row.error is None:
        return True
    if row.status == CANCELLED:
        return False
    return not careful or ErrorInfo.decode(row.error).kind not in DEADLY


def _again(elsewhere: Yard, result: Result, chosen: dict[int, OutcomeRow]) -> dict[int, OutcomeRow]:
    found = {}
    with elsewhere.store.snapshot() as view:
        for task in chosen:
            row = view.outcome(result.recorded.id, task)
            if row is not None:
                found[task] = row
    return found


class SampleCode(NamedTuple):
    """Whether the sample was recorded with the code that reran it."""

    outdated: int  # outcomes of the sample made by other code
    mixed: MixedCode


def _code(yard: Yard, recorded: StoredBatch, chosen: Collection[int]) -> SampleCode:
    from runyard.reports.versions import mixed_code
    from runyard.schedule.changed import present_code
    from runyard.store.versions import outdated

    with yard.store.snapshot() as view:
        others = outdated(view, recorded, present_code(view, recorded, "serial").fingerprints)
        tasks = set().union(*others.values())
        return SampleCode(len(tasks.intersection(chosen)), mixed_code(view, recorded))


def _tell(
    session: Session,
    recorded: StoredBatch,
    backend: str,
    codec: str,
    chosen: dict[int, OutcomeRow],
    again: dict[int, OutcomeRow],
    code: SampleCode,
) -> int:
    from runyard.spec.outcome import digest_content

    name = recorded.name
    different = [
        task
        for task in sorted(again)
        if digest_content(again[task]) != digest_content(chosen[task])
    ]
    seed, other_seed = _hash_seeds(recorded, backend, [chosen[task] for task in different])
    document: dict[str, Any] = {
        "batch": name,
        "backend": backend,
        "sampled": len(chosen),
        "same": len(again) - len(different),
        "different": len(different),
        "other_code": code.outdated,
        "other_hash_seed": len(other_seed),
        "mixed_code": {
            name: [version._asdict() for version in made] for name, made in code.mixed.items()
        },
        "first": None,
    }
    _note_causes(session, code, len(chosen), seed, other_seed)
    if different:
        task = different[0]
        before = seen(chosen[task], recorded.codec, codec)
        now = seen(again[task], recorded.codec, "pickle")
        document["first"] = {
            "task": f"{name}/{task}",
            "recorded": before.document(),
            "now": now.document(),
        }
        session.say(
            f"{name}: {style(f'{len(different):,} differ', fg='red')} of "
            f"{count(len(again), 'task')} rerun on {backend}; the first is {name}/{task}"
        )
        session.say(difference(before, now))
        session.say(f"  next: {session.command('repro', f'{name}/{task}')}")
    else:
        session.say(
            f"{name}: reran {len(again):,} of {count(recorded.row.total, 'task')} on {backend}, "
            f"{style('all the same', fg='green')}"
        )
    session.document(document)
    return 1 if different else 0


def _note_causes(
    session: Session, code: SampleCode, sampled: int, seed: str, other_seed: list[str]
) -> None:
    """Note what may cause a difference: other code, or another hash seed."""
    from runyard.reports.versions import mixed_lines

    for line in mixed_lines(code.mixed):
        session.note(style(line, fg="yellow"))
    if code.outdated:
        session.note(
            f"{code.outdated:,} of {count(sampled, 'sampled outcome')} came from code that "
            "has changed since, which may cause a difference"
        )
    if other_seed:
        session.note(
            f"{len(other_seed):,} of the tasks that differ ran with {shown(other_seed[0])}, and "
            f"now with {shown(seed)}: the order of a set may cause the difference"
        )


def _hash_seeds(
    recorded: StoredBatch, backend: str, rows: list[OutcomeRow]
) -> tuple[str, list[str]]:
    """The hash seed on a backend, and those of outcomes that were made with another."""
    from runyard.backends import backend_class
    from runyard.store.versions import hash_seed_of

    now = backend_class(backend).hash_seed()
    seeds = [hash_seed_of(recorded, row.worker >> 16) for row in rows]
    return now, [seed for seed in seeds if seed not in ("", now)]


def _share(text: str) -> float | int:
    """The size of a sample: a share, or a number of tasks."""
    number = text.removesuffix("%")
    try:
        share = float(number) / 100 if text.endswith("%") else int(number)
    except ValueError:
        share = 0
    if not share > 0 or (isinstance(share, float) and share > 1):
        raise UsageError(
            f"not a valid sample: {text}", hint="use a number of tasks, or a share such as 10%"
        )
    return share
