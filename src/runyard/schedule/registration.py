"""Register a batch in the store, or find it there: the same spec continues where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from runyard import clock
from runyard.errors import BadSpec, SpecChanged
from runyard.events import Event, Notice
from runyard.schedule.changed import Code, Settled, edited_notices, examined, settle_changes, warn
from runyard.spec import seeds
from runyard.spec.batch import Batch, encode_listed
from runyard.spec.codec import encode
from runyard.spec.options import Changed
from runyard.spec.task import defaults_of
from runyard.store import versions
from runyard.store.base import Store, Transaction
from runyard.store.rows import BatchRow
from runyard.store.stored_batch import StoredBatch, encode_options, identity_of


class Start(NamedTuple):
    """What a run starts with."""

    batch: StoredBatch
    code: Code = Code({}, [])  # of its functions, as the backend runs them
    events: Sequence[Event] = ()  # to publish when the run begins
    again: Sequence[int] = ()  # tasks whose outcomes were forgotten


class Registered(NamedTuple):
    """A batch in the store."""

    row: BatchRow
    notices: list[str]


def code_of(batch: Batch, found: Mapping[str, Callable[..., Any]], backend: str) -> Code:
    """Examine the functions of a batch; `found` are those that are imported."""
    code = examined({**found, **batch.functions}, backend)
    return code._replace(fingerprints=code.fingerprints | batch.sources)


def put_on_record(
    store: Store,
    batch: Batch,
    found: Mapping[str, Callable[..., Any]],
    *,
    root: str,
    backend: str,
) -> Start:
    """Register a batch, and find out whether its code has changed since its outcomes were recorded.

    `found` are those of its functions that can be imported.
    """
    batch = batch.with_task_options({ref: defaults_of(fn) for ref, fn in found.items()})
    found_code = code_of(batch, found, backend)
    code = found_code.fingerprints

    def record(tx: Transaction) -> tuple[list[str], Settled]:
        grown = batch
        if batch.options.until is not None:
            grown = as_grown(batch, tx.batch(batch.record_name))
        row, notices = register(tx, grown, root=root, code=code)
        changed = batch.options.changed
        return notices, settle_changes(tx, store, StoredBatch(row), code, changed)

    notices, settled = store.write(record)
    return _start(settled, found_code, notices)


def go_on(store: Store, recorded: StoredBatch, code: Code, changed: Changed) -> Start:
    """Continue a stored batch whose code is now this."""
    now = code.fingerprints
    settled = store.write(lambda tx: settle_changes(tx, store, recorded, now, changed))
    return _start(settled, code)


def _start(settled: Settled, code: Code, notices: Sequence[str] = ()) -> Start:
    recorded, change = settled
    events: list[Event] = [Notice(batch=recorded.name, text=text) for text in notices]
    events += edited_notices(recorded.name, code.edited)
    if change is None:
        return Start(recorded, code, events)
    if change.event.action == "keep":
        warn(change.event.text)
    return Start(recorded, code, [*events, change.event], change.again)


def register(tx: Transaction, batch: Batch, *, root: str, code: dict[str, str]) -> Registered:
    """Create, grow or find the batch in the store. A changed spec is refused."""
    name = batch.record_name
    found = tx.batch(name)
    if found is None:
        return Registered(_create(tx, name, batch, root, code), [])
    recorded = StoredBatch(found)
    _refuse_changes(recorded, batch)
    changes: dict[str, object] = {
        "options": encode_options(batch.options),
        "priority": batch.options.priority,
        "root": root,
    }
    notices = []
    if batch.plan is not None and recorded.plan is not None:
        grown = recorded.plan.grown_to(batch.plan)
        if grown.total > found.total:
            notices.append(f"the batch grew from {found.total:,} to {grown.total:,} tasks")
            changes |= {"total": grown.total, "finished": None}
        changes["plan"] = encode(grown.to_data())  # the order may have changed too
    else:
        notices += _grow_list(tx, recorded, batch)
    return Registered(tx.update_batch(found.id, **changes), notices)


def _create(tx: Transaction, name: str, batch: Batch, root: str, code: dict[str, str]) -> BatchRow:
    seed = seeds.choose_root() if batch.seed is None else batch.seed
    row = tx.create_batch(
        name=name,
        identity=identity_of(batch),
        plan=None if batch.plan is None else encode(batch.plan.to_data()),
        options=encode_options(batch.options),
        code=versions.first(code, clock.now()),
        seed=str(seed),
        root=root,
        total=0 if batch.plan is None else batch.plan.total,
        priority=batch.options.priority,
    )
    if batch.plan is None:
        _add(tx, row.id, batch, 0)
        found = tx.batch_by_id(row.id)
        assert found is not None
        return found
    return row


def _add(tx: Transaction, batch_id: int, batch: Batch, start: int) -> None:
    tx.add_tasks(
        batch_id,
        [(t.name, t.priority, encode_listed(t), t.after) for t in batch.listed[start:]],
    )


def _grow_list(tx: Transaction, recorded: StoredBatch, batch: Batch) -> list[str]:
    known = tx.tasks(recorded.id)
    for row, task in zip(known, batch.listed, strict=False):
        if row.content != encode_listed(task):
            raise _changed(
                recorded.name, f"task {row.task} ({task.name or task.target.ref}) differs"
            )
    if len(batch.listed) < len(known):
        raise _changed(recorded.name, f"tasks: recorded {len(known):,}, now {len(batch.listed):,}")
    if len(batch.listed) == len(known):
        return []
    _add(tx, recorded.id, batch, len(known))
    return [f"the batch grew from {len(known):,} to {len(batch.listed):,} tasks"]


def _refuse_changes(recorded: StoredBatch, batch: Batch) -> None:
    differences = []
    if recorded.listed != (batch.plan is None):
        differences.append("it is recorded as a different kind of batch")
    if recorded.target != batch.target:
        old, new = (t.ref if t else "a list" for t in (recorded.target, batch.target))
        differences.append(f"function: recorded {old}, now {new}")
    if recorded.codec != batch.codec:
        differences.append(f"codec: recorded {recorded.codec}, now {batch.codec}")
    if batch.seed is not None and batch.seed != recorded.seed:
        differences.append(f"seed: recorded {recorded.seed}, now {batch.seed}")
    if not differences and batch.plan is not None and recorded.plan is not None:
        try:
            recorded.plan.grown_to(batch.plan)
        except SpecChanged as error:
            differences.append(error.message)
    if differences:
        raise _changed(recorded.name, "\n  ".join(differences))


def _changed(name: str, difference: str) -> SpecChanged:
    return SpecChanged(
        f"another batch is recorded as {name!r}:\n  {difference}",
        hint="choose another name, or start over with fresh=True (--fresh)",
    )


def add_replicates(tx: Transaction, recorded: StoredBatch, replicates: int) -> StoredBatch:
    """Add replicates of every task of a grid, unless another engine has grown it meanwhile."""
    found = tx.batch_by_id(recorded.id)
    if recorded.plan is None or found is None:
        raise BadSpec(
            f"{recorded.name} was removed, or is a list of tasks, which has no replicates",
            hint="leave `until` out, or describe the batch as a grid",
        )
    if found.total != recorded.row.total:
        return StoredBatch(found)
    plan = recorded.plan.grown_to(recorded.plan.with_replicates(replicates))
    changes = {"plan": encode(plan.to_data()), "total": plan.total, "finished": None}
    return StoredBatch(tx.update_batch(recorded.id, **changes))


def as_grown(batch: Batch, found: BatchRow | None) -> Batch:
    """The batch with the replicates that its `until` has added so far."""
    plan = None if found is None else StoredBatch(found).plan
    if found is None or plan is None or batch.plan is None:
        return batch
    if plan.replicates <= batch.plan.replicates:
        return batch
    named = msgspec.structs.replace(batch, name=found.name)  # which else comes from its plan
    return named.with_replicates(plan.replicates)
