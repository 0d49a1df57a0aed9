"""The published batches: every event reproduced, and the simulation beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from malice_batch import dataset

from runyard import Yard
from runyard.doors.malice import calibrate, replay
from runyard.doors.malice.logs.dataset import batch_folders

BATCHES = range(2)


@pytest.fixture(scope="module")
def published() -> list[Path]:
    """The batches that are here."""
    return batch_folders(dataset())


@pytest.mark.parametrize("number", BATCHES)
def test_every_vote_tally_and_status_of_every_run_is_reproduced(
    published: list[Path], number: int
) -> None:
    if number >= len(published):
        pytest.skip("this batch is not here")
    found = replay(published[number])
    assert found.differences == []
    assert found.runs_equal == len(found.records) == 30
    assert found.scores == (30, 30)
    assert found.compared == found.equal
    assert found.compared["VOTE_COUNT_UPDATE"] > 500
    assert found.compared["STATUS_CHANGE"] >= 40


def test_summaries_that_miss_a_runs_last_ticket_are_told(published: list[Path]) -> None:
    for folder in published:
        told = replay(folder).contradictions
        assert any("mallory_reputation: the summary says" in text for text in told)
        assert any("civil blocks, mean" in text for text in told)


def test_one_changed_number_in_a_copy_is_found_and_named(
    published: list[Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(published[0], copy)
    log = sorted((copy / "events").glob("*.jsonl"))[7]
    lines = log.read_text().splitlines()
    at = next(i for i, text in enumerate(lines) if "VOTE_COUNT_UPDATE" in text)
    line = json.loads(lines[at])
    line["details"]["new_count"] += 0.001
    lines[at] = json.dumps(line, ensure_ascii=False)
    log.write_text("\n".join(lines) + "\n")
    (difference,) = replay(copy).differences
    assert difference.field == "new_count"
    assert difference.where == f"{log.name}:{at + 1}"


def test_the_layout_with_files_at_the_root_reads_the_same(
    published: list[Path], tmp_path: Path
) -> None:
    for name in ("events", "metrics"):
        for path in (published[0] / name).glob("*_r0[1-3]_*.jsonl"):
            shutil.copy(path, tmp_path / path.name)
    found = replay(tmp_path)
    assert found.runs_equal == len(found.records) == 3


def test_published_figures_lie_where_a_few_simulated_batches_do(tmp_path: Path) -> None:
    with Yard(tmp_path) as yard:
        found = calibrate(dataset(), batches=60, yard=yard, workers=2, progress=False)
    outside = [figure.name for figure in found.figures if not figure.inside]
    assert len(outside) <= 1, outside


@pytest.mark.slow
def test_all_published_figures_lie_where_200_simulated_batches_do(tmp_path: Path) -> None:
    with Yard(tmp_path) as yard:
        found = calibrate(dataset(), yard=yard, workers=2, progress=False)
    assert [figure.name for figure in found.figures if not figure.inside] == []
