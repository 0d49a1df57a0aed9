"""An abandoned lane ends its threads, whatever its state."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from polling import eventually

from runyard.attempt.calls import CallThread
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.wire import Job
from runyard.backends.asynchronous import AsyncBackend
from runyard.backends.threads import ThreadsBackend


def job(folder: Path) -> Job:
    return Job(
        batch=1, name="b", seed="1", target=None, plan=None, functions={}, codec="msgpack",
        root=str(folder), path=(), folder=str(folder), engine=1, lane_status="", spool="",
    )  # fmt: skip


def at_work() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("runyard")]


def test_a_thread_whose_task_ends_as_it_is_abandoned_ends_too(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "lane_status", 1, create=True)
    backend = ThreadsBackend(1)
    backend.open(job(tmp_path), lane_status)
    lane = backend._lanes[0]
    lane.abandon()  # it is waiting for a chunk
    backend._lanes[0] = backend._start_lane(0)
    backend.close()
    assert eventually(lambda: not at_work(), seconds=60), at_work()
    lane_status.close(remove=True)


def test_a_call_thread_started_by_an_abandoned_lane_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane_status = LaneStatusFile(tmp_path / "lane_status", 1, create=True)
    backend = AsyncBackend(1)
    backend.open(job(tmp_path), lane_status)
    lane = backend._lanes[0]
    lane.abandon()
    lane.runner._thread = CallThread()
    lane.cancel()
    backend._lanes[0] = backend._start_lane(0)
    backend.close()
    assert eventually(lambda: not at_work(), seconds=60), at_work()
    lane_status.close(remove=True)
