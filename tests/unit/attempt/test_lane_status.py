from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest

from runyard.attempt.lane_status import IDLE, LaneStatusFile


def test_a_fresh_slot_runs_nothing_and_may_start_anything(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "s", 3, create=True)
    assert lane_status.lanes == 3
    for lane in range(3):
        assert lane_status.read(lane).task == IDLE
        assert lane_status.stopped(lane) == 0
    lane_status.close(remove=True)
    assert not (tmp_path / "s").exists()


def test_what_a_lane_notes_is_read_and_lanes_do_not_mix(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "s", 2, create=True)
    lane_status.writer(0)(7, 2**40, 3, 99, perf_counter())
    lane_status.writer(1)(8, 5, 0, 100, perf_counter())
    lane_status.stop(1, 98)
    first, second = lane_status.read(0), lane_status.read(1)
    assert (first.batch, first.task, first.attempt, first.chunk) == (7, 2**40, 3, 99)
    assert (second.batch, second.task) == (8, 5)
    assert (lane_status.stopped(0), lane_status.stopped(1)) == (0, 98)
    assert first.seconds >= 0
    lane_status.idle(0)
    assert lane_status.read(0).task == IDLE
    assert lane_status.read(1).task == 5
    lane_status.clear(1)
    assert (lane_status.read(1).task, lane_status.stopped(1)) == (IDLE, 0)
    lane_status.close()


def test_noting_leaves_the_stop_mark_alone(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "s", 1, create=True)
    lane_status.stop(0, 5)
    lane_status.writer(0)(1, 2, 0, 6, perf_counter())
    lane_status.idle(0)
    assert lane_status.stopped(0) == 5
    lane_status.close()


def test_a_note_survives_the_sudden_death_of_its_process(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "s", 2, create=True)
    script = f"""
import os, signal
from pathlib import Path
from runyard.attempt.lane_status import LaneStatusFile
lane_status = LaneStatusFile(Path({str(tmp_path / "s")!r}), 0, create=False)
assert lane_status.lanes == 2
lane_status.writer(1)(4, 17, 2, 9, 0.0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    note = lane_status.read(1)
    assert (note.batch, note.task, note.attempt, note.chunk) == (4, 17, 2, 9)
    lane_status.close()


def test_a_note_says_for_how_long_its_task_has_been_running(tmp_path: Path) -> None:
    lane_status = LaneStatusFile(tmp_path / "s", 1, create=True)
    lane_status.writer(0)(1, 2, 0, 1, perf_counter() - 5)
    assert lane_status.read(0).seconds >= 5
    lane_status.writer(0)(1, 2, 0, 1, perf_counter() + 1000)
    assert lane_status.read(0).seconds == 0
    lane_status.close()


def test_slots_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LaneStatusFile(tmp_path / "none", 1, create=False)
