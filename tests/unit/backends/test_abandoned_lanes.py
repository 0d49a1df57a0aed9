"""A lane that is given up ends its threads, whatever it is at in that moment."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from polling import eventually

from runyard.attempt.calls import CallThread
from runyard.attempt.slots import Slots
from runyard.attempt.wire import Job
from runyard.backends.asynchronous import AsyncBackend
from runyard.backends.threads import ThreadsBackend


def job(folder: Path) -> Job:
    return Job(
        batch=1, name="b", seed="1", target=None, plan=None, functions={}, codec="msgpack",
        root=str(folder), path=(), folder=str(folder), engine=1, slots="", spool="",
    )  # fmt: skip


def at_work() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("runyard")]


def test_a_thread_whose_task_ends_as_it_is_given_up_ends_too(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 1, create=True)
    backend = ThreadsBackend(1)
    backend.open(job(tmp_path), slots)
    lane = backend._lanes[0]
    lane.abandon()  # it waits for a chunk by now
    backend._lanes[0] = type(lane)(0, backend._program, slots, backend._inbox)
    backend.close()
    assert eventually(lambda: not at_work(), seconds=60), at_work()
    slots.close(remove=True)


def test_a_call_thread_started_by_a_lane_that_was_given_up_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(tmp_path / "slots", 1, create=True)
    backend = AsyncBackend(1)
    backend.open(job(tmp_path), slots)
    lane = backend._lanes[0]
    lane.abandon()
    lane.runner._thread = CallThread()
    backend._call(lane.cancel)
    backend._lanes[0] = backend._lane(0)
    backend.close()
    assert eventually(lambda: not at_work(), seconds=60), at_work()
    slots.close(remove=True)
