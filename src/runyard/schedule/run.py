"""What every part of the scheduler knows about the run it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runyard.attempt.lane_status import LaneStatusFile
from runyard.backends.base import Backend
from runyard.events import Event, Notice, Redactor
from runyard.spec.options import Options
from runyard.store.base import Store, Transaction
from runyard.store.stored_batch import StoredBatch

if TYPE_CHECKING:
    from runyard.schedule.budget import Budget
    from runyard.schedule.submissions import Submissions


@dataclass(frozen=True)
class Run:
    """One engine running one batch on one backend."""

    store: Store
    batch: StoredBatch  # as it was when this engine signed on
    engine: int  # this engine's number in the store
    backend: Backend
    lanes: LaneStatusFile  # what each lane is running
    publish: Callable[[Event], None]  # to subscribers and to the audit log
    budget: Budget | None = None
    submissions: Submissions | None = None  # tasks that this process adds during the run
    preempted: Callable[[Transaction], bool] | None = None  # whether something more urgent waits
    strict_order: bool = False  # tasks start exactly by priority, then by number
    redactor: Redactor = field(default_factory=Redactor)  # of this process's secrets
    elapsed: float = 0.0  # seconds of the deadline that earlier engines of this run have used

    @property
    def name(self) -> str:
        """The batch's name."""
        return self.batch.name

    @property
    def id(self) -> int:
        """The batch's number in the store."""
        return self.batch.id

    @property
    def options(self) -> Options:
        """How the batch is run."""
        return self.batch.options

    @property
    def reads_store(self) -> bool:
        """Whether tasks come from the store; if not, only from this process."""
        return self.submissions is None or not self.submissions.only

    def warn(self, text: str) -> None:
        """Publish a warning."""
        self.publish(Notice(batch=self.name, text=text, level="warning"))
