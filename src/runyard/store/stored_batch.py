"""A stored batch, decoded."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from runyard.errors import BadSpec, NotFound, StoreDamaged, StoreError
from runyard.spec.batch import Batch, ListedTask, decode_listed
from runyard.spec.codec import decode, encode
from runyard.spec.names import did_you_mean
from runyard.spec.options import SPECS, Options
from runyard.spec.outcome import OutcomeRow, decoding_stored
from runyard.spec.plan import Plan
from runyard.spec.task import Target
from runyard.store.base import Snapshot
from runyard.store.rows import BatchRow, unclaimed


def known(view: Snapshot, name: str) -> BatchRow:
    """The row of a batch, or an error if there is no batch of this name."""
    row = view.batch(name)
    if row is None:
        meant = did_you_mean(name.partition("/")[0], (each.name for each in view.batches()))
        raise NotFound(
            f"there is no batch {name!r}{meant}", hint="`runyard status` lists the batches"
        )
    return row


class Version(NamedTuple):
    """One version of a function's code, and the hash seed it ran with."""

    engine: int  # the first one that ran it; 0: from the start
    fingerprint: str
    since: float
    hash_seed: str = ""  # of the interpreters that ran it; "": not run yet


class StoredBatch:
    """A stored batch with its target, plan, seed and options."""

    def __init__(self, row: BatchRow) -> None:
        self.row = row
        self.id = row.id
        self.name = row.name

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of a grid; None for a list."""
        with decoding_stored(f"the plan of {self.name}"):
            return None if self.row.plan is None else Plan.from_data(decode(self.row.plan))

    @property
    def listed(self) -> bool:
        """Whether the batch is a list: each task has its own row."""
        return self.row.plan is None

    @cached_property
    def _identity(self) -> tuple[Target | None, str]:
        with decoding_stored(f"what {self.name} is"):
            found = decode(self.row.identity)
            target, codec = found["target"], found["codec"]
            return None if target is None else Target(*target), str(codec)

    @property
    def target(self) -> Target | None:
        """What its tasks call; None for a list."""
        return self._identity[0]

    @property
    def codec(self) -> str:
        """The encoding of its values."""
        return self._identity[1]

    @cached_property
    def options(self) -> Options:
        """Its options."""
        with decoding_stored(f"the options of {self.name}"):
            given = decode(self.row.options)
            unknown = min(given.keys() - SPECS.keys(), default=None)
            if unknown is not None:
                raise StoreError(
                    f"{self.name} was recorded by a newer version of Runyard: "
                    f"this version has no option {unknown!r}",
                    hint="upgrade Runyard to use this batch",
                )
            try:
                return Options(**given)
            except BadSpec as error:
                raise ValueError(error.message) from None

    @cached_property
    def versions(self) -> dict[str, list[Version]]:
        """All versions of the code of its functions, oldest first."""
        with decoding_stored(f"the code of {self.name}"):
            found = decode(self.row.code)
            return {name: [Version(*each) for each in known] for name, known in found.items()}

    @property
    def seed(self) -> int:
        """Its root seed."""
        with decoding_stored(f"the seed of {self.name}"):
            return int(self.row.seed)

    def check_task(self, view: Snapshot, task: int) -> None:
        """Raise unless the batch has a task with this number."""
        end = self.row.next_task
        if not 0 <= task < end:
            hint = f"its tasks are 0 to {end - 1}" if end else "the batch has no tasks yet"
        elif self.listed and view.task(self.id, task) is None:
            hint = "it has been removed from the record"
        else:
            return
        raise NotFound(f"there is no task {self.name}/{task}", hint=hint)

    def outcome(self, view: Snapshot, task: int) -> OutcomeRow | None:
        """The outcome of a task; raises if it was recorded and is gone."""
        row = view.outcome(self.id, task)
        if row is None and self._has_ended(view, task):
            raise lost(self.name, task)
        return row

    def _has_ended(self, view: Snapshot, task: int) -> bool:
        """Whether a task is neither waiting nor held by an engine."""
        if self.listed:
            return view.task(self.id, task) is not None and view.queued(self.id, task) is None
        now = view.batch_by_id(self.id)
        held = view.claims(self.id)
        return now is not None and task >= 0 and bool(unclaimed([task], now.frontier, held))

    def params(self, view: Snapshot, task: int) -> dict[str, Any]:
        """The parameters of a task."""
        if self.plan is not None:
            return self.plan.params(task)
        return self.task(view, task).params

    def labels(self, view: Snapshot, task: int) -> dict[str, Any]:
        """The coordinates of a task, by name."""
        if self.plan is not None:
            return self.plan.labels(task)
        listed = self.task(view, task)
        named = {"name": listed.name} if listed.name else {}
        return {**named, **listed.params}

    def task(self, view: Snapshot, task: int) -> ListedTask:
        """One task of a list."""
        row = view.task(self.id, task)
        if row is None:
            raise StoreDamaged(
                f"the description of {self.name}/{task} is missing", hint="run `runyard doctor`"
            )
        with decoding_stored(f"task {self.name}/{task}"):
            return decode_listed(row.content)


def lost(name: str, task: int) -> StoreDamaged:
    """The error for an outcome that is missing."""
    return StoreDamaged(
        f"the outcome of {name}/{task} was recorded, but is missing", hint="run `runyard doctor`"
    )


def identity_of(batch: Batch) -> bytes:
    """What must stay the same under a batch's name, apart from its plan or list."""
    target = None if batch.target is None else [batch.target.kind, batch.target.ref]
    return encode({"target": target, "codec": batch.codec})


def encode_options(options: Options) -> bytes:
    """Encode the options that differ from their defaults."""
    return encode(options.given())
