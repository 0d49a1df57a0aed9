"""Checks and previews from Python, as the command line calls them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from sample_tasks import double, fails

import runyard as ry
from runyard.checks.repro import Rerun
from runyard.checks.upkeep import check_yard, clear_away, rubbish
from runyard.checks.verify import read_sample, verify
from runyard.errors import NotFound, UsageError
from runyard.preview import preview
from runyard.reports.story import task_story


def test_a_sample_that_is_rerun_is_the_same_and_changes_nothing(tmp_path: Path) -> None:
    with ry.Yard(tmp_path) as yard:
        yard.run(ry.grid(double, x=range(20), seed=1, name="b"), backend="serial")
        before = yard.results("b").digest
        found = verify(yard, "b", read_sample("50%"), "threads", 2)
        assert (len(found.chosen), found.different, found.first) == (10, [], None)
        assert found.to_data()["same"] == 10
        assert yard.results("b").digest == before


@pytest.mark.parametrize("text", ["0", "-1", "101%", "1.5", "some", ""])
def test_what_is_no_sample_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a valid sample"):
        read_sample(text)


def test_one_task_is_rerun_with_notes_of_what_it_is(tmp_path: Path) -> None:
    notes: list[str] = []
    with ry.Yard(tmp_path) as yard:
        yard.run(ry.grid(double, x=[3, 4], seed=1, name="b"), backend="serial")
        rerun = Rerun(yard, "b", 1, notes.append)
        assert rerun.before is not None
        assert rerun.run().value == rerun.before.value
        assert notes == ["rerunning b/1: x=4, root seed 1"]
        with pytest.raises(NotFound):
            Rerun(yard, "b", 2, notes.append)


def test_a_preview_counts_what_is_left_and_records_nothing(tmp_path: Path) -> None:
    with ry.Yard(tmp_path) as yard:
        first = preview(yard, ry.grid(double, x=[1, 2], name="b"), backend="serial", workers=None)
        assert (first.total, first.left, first.seed, first.estimate.seconds) == (2, 2, None, None)
        assert [call.call for call in first.calls] == ["double(x=1)", "double(x=2)"]
        assert yard.status() == []
        yard.run(ry.grid(double, x=[1, 2], name="b", seed=1), backend="serial")
        grown = ry.grid(double, x=[1, 2, 3], name="b", seed=1)
        more = preview(yard, grown, backend="serial", workers=4)
        assert (more.recorded, more.left, more.seed, more.estimate.left) == (2, 1, 1, 1)
        assert more.notices == ["the number of workers has no effect on serial; use processes"]
        assert preview(yard, grown, fresh=True, backend="serial", workers=None).forgotten == 2


def test_the_story_of_a_failed_task_has_its_attempts_and_events(tmp_path: Path) -> None:
    with ry.Yard(tmp_path) as yard:
        yard.run(ry.grid(fails, x=[1], name="b"), backend="serial", retries=1)
        printed, events = yard.printed("b", 0), yard.events("b", task=0)
        story = task_story(yard.store, yard.recorded("b"), 0, printed, events)
    assert story["status"] == "failed"
    assert [attempt["attempt"] for attempt in story["attempts"]] == [0]
    assert [event["event"] for event in story["events"]] == ["TaskRetried", "TaskFailed"]


def test_a_whole_yard_is_whole_and_an_old_orphan_is_rubbish(tmp_path: Path) -> None:
    with ry.Yard(tmp_path) as yard:
        yard.run(ry.grid(double, x=[1], name="b"), backend="serial")
        assert check_yard(yard).is_whole
        orphan = yard.batch_folder("orphan")
        orphan.mkdir()
        (orphan / "file").write_text("x" * 100)
        for path in (orphan / "file", orphan):
            os.utime(path, (time.time() - 100,) * 2)
        assert list(rubbish(yard, 1000)) == []
        [(path, size)] = rubbish(yard, 10)
        assert (path, size >= 100) == (orphan, True)
        clear_away(yard, path)
        assert not orphan.exists()
        assert yard.results("b").stats.done == 1
