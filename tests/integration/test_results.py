"""What came out of a batch: read, filtered, paged, grouped, exported; never wrong in silence."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sample_tasks import double, fails, fails_until

import runyard as ry
from runyard.errors import BadName, NotFound, StoreDamaged, UsageError
from runyard.reports.export import export
from runyard.spec.fields import parts


@pytest.fixture
def result(yard: ry.Yard) -> ry.Result:
    return yard.run(ry.grid(fails, x=range(20), seed=7, name="b"), backend="serial")


def test_a_run_that_finds_everything_done_says_so_instead_of_a_time(yard: ry.Yard) -> None:
    batch = ry.grid(double, x=range(3), seed=7, name="b")
    assert " in " in yard.run(batch, backend="serial").headline()
    again = yard.run(batch, backend="serial")
    assert again.headline() == "b: already complete, 3 of 3 completed"
    assert again.summary().startswith(again.headline())
    assert again.end == "finished"
    assert " in " in yard.results("b").headline()


def test_outcomes_are_filtered_by_status_and_paged(result: ry.Result) -> None:
    assert [o.task for o in result.outcomes("failed")] == list(range(1, 20, 2))
    assert [o.task for o in result.outcomes(ry.Status.COMPLETED, offset=3, limit=2)] == [6, 8]
    assert [o.task for o in result.outcomes(offset=18)] == [18, 19]
    assert [o.task for o in result.outcomes(offset=18, limit=0)] == []
    assert list(result.outcomes("cancelled")) == []


@pytest.mark.parametrize("status", ["queued", "running", "lost", ""])
def test_a_status_without_outcomes_is_refused(result: ry.Result, status: str) -> None:
    with pytest.raises(UsageError, match="no outcome has the status"):
        list(result.outcomes(status))


def test_one_outcome_is_found_by_its_number(result: ry.Result) -> None:
    assert result.outcome(4).value == 4
    assert result.outcome(4).id == "b/4"
    with pytest.raises(NotFound, match="b/99"):
        result.outcome(99)


def test_failures_that_differ_in_numbers_only_are_one_group(yard: ry.Yard) -> None:
    def several(x: int) -> None:
        if x < 6:
            raise ValueError(f"row {x} at 0x7f{x:04x}")
        if x < 8:
            raise ValueError("something else")
        raise KeyError("k")

    groups = yard.run(ry.grid(several, x=range(9)), backend="serial").failures()
    assert [(g.kind, g.count) for g in groups] == [
        ("ValueError", 6),
        ("ValueError", 2),
        ("KeyError", 1),
    ]
    assert groups[0].tasks == (0, 1, 2, 3, 4)
    assert groups[0].message == "row 0 at 0x7f0000"
    assert groups[0].where.endswith("in several")
    assert "raise ValueError" in groups[0].trace


def test_a_summary_says_how_it_went(result: ry.Result) -> None:
    text = result.summary()
    assert text.startswith("b: 10 of 20 completed, 10 failed")
    assert "10 × ValueError: 1 is odd" in text
    assert "seed 7" in text
    assert str(result.digest)[:16] in text
    assert repr(result) == "<Result of b: 20 of 20 done>"


def test_times_are_told_apart(result: ry.Result) -> None:
    stats = result.stats
    assert stats.seconds > 0
    assert stats.rate > 0
    assert stats.eta is None
    assert stats.workers == 0
    outcomes = list(result.outcomes())
    assert all(o.wait >= 0 and o.seconds >= 0 for o in outcomes)
    assert [o.wait for o in outcomes] == sorted(o.wait for o in outcomes)


def test_there_is_no_digest_while_something_is_unfinished(yard: ry.Yard) -> None:
    name = yard.submit(ry.grid(double, x=[1, 2], seed=7))
    unfinished = yard.results(name)
    assert unfinished.digest is None
    assert unfinished.stats.queued == 2
    assert "digest" not in unfinished.summary()
    finished = yard.resume(name, backend="serial")
    assert finished.digest == unfinished.digest is not None


def test_the_same_values_in_another_order_have_the_digest_of_that_order(yard: ry.Yard) -> None:
    def run(*xs: int, fresh: bool = False) -> ry.Result:
        batch = ry.grid(double, x=list(xs), name="b", seed=7)
        return yard.run(batch, backend="serial", fresh=fresh)

    run(1, 2)
    continued = run(2, 1).digest
    assert continued == run(2, 1, fresh=True).digest


def test_a_seed_that_nobody_gave_is_chosen_recorded_and_kept(yard: ry.Yard) -> None:
    batch = ry.grid(double, x=[1, 2], name="b")
    first = yard.run(batch, backend="serial").seed
    assert yard.run(batch, backend="serial").seed == first
    again = yard.run(ry.grid(double, x=[1, 2, 3], name="b"), backend="serial")
    assert again.seed == first
    assert yard.run(batch, backend="serial", fresh=True).seed != first


def test_batches_are_listed_oldest_first_and_forgotten_on_request(yard: ry.Yard) -> None:
    for name in ("c", "a", "b"):
        yard.run(ry.grid(double, x=[1], name=name), backend="serial")
    assert [r.name for r in yard.status()] == ["c", "a", "b"]
    yard.clear("a")
    assert [r.name for r in yard.status()] == ["c", "b"]
    assert not yard.batch_folder("a").exists()
    for act in (yard.clear, yard.results, yard.recorded, yard.retry, yard.cancel, yard.events):
        with pytest.raises(NotFound, match="no batch 'a'"):
            act("a")
    with pytest.raises(BadName):
        yard.batch_folder("../a")


def test_the_story_of_a_batch_and_of_one_task_is_told(yard: ry.Yard) -> None:
    batch = ry.grid(fails_until, attempts=[0, 1], name="b")
    yard.run(batch, backend="serial", retries=1, backoff=0.001)
    events = [event["event"] for event in yard.events("b")]
    events.remove("RunDescribed")  # found out on the side, whenever that is done
    assert events == ["BatchStarted", "TaskRetried", "BatchFinished"]
    assert [event["event"] for event in yard.events("b", task=1)] == ["TaskRetried"]
    assert list(yard.events("b", task=0)) == []


# Export


def values(x: int) -> Any:
    if x == 3:
        raise ValueError('three,\n"quoted"')
    return {"n": x, "nested": {"nan": math.nan, "list": [1, 2]}, "text": 'a,b\n"c" ü'}


def test_json_is_whole_and_strict(yard: ry.Yard, tmp_path: Path) -> None:
    result = yard.run(ry.grid(values, x=range(5), seed=7, name="b"), backend="serial")
    path = tmp_path / "deep" / "out.json"
    assert export(result, "json", path) == 5
    document = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert (document["batch"], document["seed"], document["total"]) == ("b", 7, 5)
    first, failed = document["outcomes"][0], document["outcomes"][3]
    assert first["value"] == {
        "n": 0, "nested": {"nan": "NaN", "list": [1, 2]}, "text": 'a,b\n"c" ü',
    }  # fmt: skip
    assert (first["task"], first["status"], first["params"]) == ("b/0", "completed", {"x": 0})
    assert failed["error"]["class"] == "ValueError"
    assert [entry.name for entry in path.parent.iterdir()] == ["out.json"]


def test_csv_has_a_column_for_each_field(yard: ry.Yard, tmp_path: Path) -> None:
    result = yard.run(ry.grid(values, x=range(5), replicates=2, name="b"), backend="serial")
    assert export(result, "csv", tmp_path / "out.csv") == 10
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == [
        "task", "status", "x", "replicate", "n", "nested.list", "nested.nan",
    ]  # fmt: skip
    assert (rows[1]["x"], rows[1]["n"], rows[1]["text"]) == ("1", "1", 'a,b\n"c" ü')
    assert (rows[3]["status"], rows[3]["error"], rows[3]["message"]) == (
        "failed", "ValueError", 'three,\n"quoted"',
    )  # fmt: skip


def test_text_has_a_line_for_each_outcome(yard: ry.Yard, tmp_path: Path) -> None:
    result = yard.run(ry.grid(values, x=range(5), name="b"), backend="serial")
    assert export(result, "txt", tmp_path / "out.txt", "failed") == 1
    assert (tmp_path / "out.txt").read_text().splitlines()[-1].startswith("b/3  failed  x=3")


def test_an_export_that_fails_leaves_what_was_there(
    result: ry.Result, yard: ry.Yard, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    with sqlite3.connect(yard.folder / "yard.db") as raw:
        raw.execute("UPDATE outcomes SET value = x'00' WHERE task = 10")
    raw.close()
    with pytest.raises(StoreDamaged):
        export(result, "json", path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "yard"] == ["out.json"]


def test_an_unknown_format_is_refused(result: ry.Result, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        export(result, "xml", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("value", "flat"),
    [
        (1, {"value": 1}),
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b.c": 2}),
        ({}, {"value": {}}),
        ({"a": {}}, {"a": {}}),
        ([1], {"value": [1]}),
        ({1: {2: 3}}, {"1.2": 3}),
    ],
)
def test_nested_values_become_one_level(value: Any, flat: dict[str, Any]) -> None:
    assert dict(parts(value)) == flat


# Damage


def test_a_damaged_outcome_is_never_reported_as_data(result: ry.Result, yard: ry.Yard) -> None:
    with sqlite3.connect(yard.folder / "yard.db") as raw:
        raw.execute("UPDATE outcomes SET seconds = seconds + 1 WHERE task = 4")
    raw.close()
    for read in (
        lambda: list(result.outcomes()),
        lambda: list(result.values()),
        lambda: result.outcome(4),
        lambda: yard.results("b").digest,
    ):
        with pytest.raises(StoreDamaged, match="task 4"):
            read()


def test_an_outcome_that_went_missing_is_noticed(result: ry.Result, yard: ry.Yard) -> None:
    with sqlite3.connect(yard.folder / "yard.db") as raw:
        raw.execute("DELETE FROM outcomes WHERE task = 4")
    raw.close()
    with pytest.raises(StoreDamaged, match="20 outcomes of b were recorded, but 19 are"):
        list(result.outcomes())
    with pytest.raises(StoreDamaged, match="b/4"):
        assert yard.results("b").digest


def test_a_pickle_planted_in_the_store_is_not_unpickled(yard: ry.Yard, tmp_path: Path) -> None:
    import pickle

    from runyard.spec.outcome import OutcomeRow

    result = yard.run(ry.grid(double, x=[1], name="b", seed=7), backend="serial")
    planted = pickle.dumps(Planted(str(tmp_path / "exploded")))
    with yard.store.transaction() as tx:
        batch = tx.batch("b")
        assert batch is not None
        row = tx.outcome(batch.id, 0)
        assert row is not None
        tx.requeue(batch.id, [0])
        forged = OutcomeRow.with_checksum(batch.id, *row[:3], planted, *row[4:8])
        tx.record(batch.id, [forged])
    with pytest.raises((ValueError, StoreDamaged)):
        list(result.values())
    assert not (tmp_path / "exploded").exists()


class Planted:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (self.path, "w"))
