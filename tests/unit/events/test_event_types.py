from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from runyard import clock
from runyard.events import (
    BatchStarted,
    BatchStopped,
    Event,
    Notice,
    Progress,
    TaskEmitted,
    TaskEvent,
    TaskFailed,
    WorkerLost,
    to_record,
)

FAILED = TaskFailed(batch="b", at=1.5, task=3, error="ValueError", message="no", where="x.py:7")


def test_an_event_is_frozen_and_holds_no_dict_of_its_own() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FAILED.task = 4  # type: ignore[misc]
    assert not hasattr(FAILED, "__dict__")


def test_an_event_takes_its_time_from_the_clock_in_place() -> None:
    with clock.replaced(wall=lambda: 42.0):
        assert Notice(batch="b", text="x").at == 42.0


def test_task_events_are_events_with_a_task() -> None:
    assert isinstance(FAILED, TaskEvent)
    assert isinstance(FAILED, Event)
    assert FAILED.attempt == 0


def test_a_record_starts_with_what_when_and_where() -> None:
    assert list(to_record(FAILED)) == [
        "event", "at", "batch", "task", "attempt", "error", "message", "where",
    ]  # fmt: skip
    assert to_record(FAILED)["event"] == "TaskFailed"


@pytest.mark.parametrize(
    "event",
    [
        BatchStarted(batch="b", total=9, seed=2**127, backend="serial", workers=1),
        BatchStopped(
            batch="b", reason="ctrl-c", completed=1, failed=0, cancelled=0, recorded=1, seconds=0.1
        ),
        WorkerLost(batch="b", worker=2, reason="killed"),
        TaskEmitted(batch="b", task=1, kind="k", data={"nan": float("nan"), "b": b"\xff", 3: {1}}),
    ],
)
def test_every_record_is_json(event: Event) -> None:
    record = to_record(event)
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_only_progress_is_live_only() -> None:
    assert Progress.live_only
    assert not FAILED.live_only


def test_importing_events_is_cheap() -> None:
    heavy = "numpy", "rich", "asyncio", "cloudpickle"
    program = f"import sys, runyard.events; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
