"""Columns on disk: made once, used again, never stale and never wrong in silence."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_metrics import drawn, flips, numbered, shaped

import runyard as ry
from runyard.errors import NotFound, StoreDamaged, UsageError
from runyard.reports import columns as columns_module
from runyard.reports.columns import read_columns
from runyard.reports.comparing import compare_groups, groups_of, groups_of_two


def finished(yard: ry.Yard, **more: Any) -> ry.Result:
    batch = ry.grid(drawn, x=[1.0, 2.0], replicates=10, seed=7, name="b")
    return yard.run(batch, backend="serial", **more)


def refuse_rows(result: ry.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, reading outcomes from the store fails the test."""
    monkeypatch.setattr(type(result), "rows", lambda self: pytest.fail("outcomes were read again"))


def test_a_finished_batch_is_read_from_the_store_once(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finished(yard).columns
    refuse_rows(yard.results("b"), monkeypatch)
    again = yard.results("b").columns
    assert again.names == first.names == ("v",)
    assert again.metric("v").tolist() == first.metric("v").tolist()
    assert again.fixed("status").tolist() == first.fixed("status").tolist()


def test_columns_hold_what_was_recorded(yard: ry.Yard) -> None:
    result = finished(yard)
    outcomes = list(result.outcomes())
    columns = result.columns
    assert columns.total == 20
    assert columns.metric("v").tolist() == [o.value["v"] for o in outcomes]
    for name in ("attempt", "started", "seconds", "worker"):
        assert columns.fixed(name).tolist() == [getattr(o, name) for o in outcomes]
    assert columns.fixed("status").tolist() == [o.status.code for o in outcomes]


def test_an_unfinished_batch_keeps_nothing_on_disk(yard: ry.Yard) -> None:
    batch = ry.grid(drawn, x=range(10), name="b")
    result = yard.run(batch, backend="serial", budget={"tasks": 4})
    values = result.columns.metric("v")
    assert np.isnan(values).tolist() == [False] * 4 + [True] * 6
    assert result.columns.fixed("status").tolist()[4:] == [0] * 6
    assert not (yard.batch_folder("b") / "columns").exists()
    yard.resume("b", backend="serial", budget={})
    assert not np.isnan(yard.results("b").columns.metric("v")).any()


def test_gaps_between_outcomes_are_kept(yard: ry.Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "CHUNK", 3)
    yard.run(ry.grid(drawn, x=range(20), name="b"), backend="serial")
    with yard.store.transaction() as tx:
        batch = tx.batch("b")
        assert batch is not None
        tx.requeue(batch.id, [0, 5, 6, 11, 19])
    result = yard.results("b")
    there = {o.task: o.value["v"] for o in result.outcomes()}
    expected = [there.get(task) for task in range(20)]
    found = [None if np.isnan(v) else v for v in result.columns.metric("v").tolist()]
    assert found == expected


def test_a_metric_that_turns_up_late_begins_with_nothing(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "CHUNK", 2)
    result = yard.run(ry.grid(shaped, x=range(10), name="b"), backend="serial")
    late = result.columns.metric("late").tolist()
    assert late[2] == 7.0
    assert np.isnan(late[:2] + late[3:]).all()


def test_every_kind_of_number_is_a_metric(yard: ry.Yard) -> None:
    columns = yard.run(ry.grid(shaped, x=range(10), name="b"), backend="serial").columns
    assert set(columns.names) == {"a", "deep.er.n", "late", "exact", "near", "value", "1"}
    a = columns.metric("a").tolist()
    assert [a[0], a[2], a[4], a[8], a[9]] == [1.5, 0.25, 1.0, float("inf"), 2.5]
    assert np.isnan([a[1], a[3], a[5], a[6], a[7]]).all()
    assert columns.metric("deep.er.n")[[0, 1, 8]].tolist() == [2.0, float("inf"), -3.0]
    assert (columns.metric("exact")[3], columns.metric("near")[3]) == (0.5, 1.0)
    assert columns.metric("value")[5] == 42.0


def test_keys_that_are_numbers_are_found_by_their_text(yard: ry.Yard) -> None:
    result = yard.run(ry.grid(numbered, x=[1, 2], name="b"), backend="serial")
    assert result.columns.names == ("1", "2")
    assert result.columns.metric("2").tolist() == [2.0, 4.0]
    assert yard.results("b").columns.metric("2").tolist() == [2.0, 4.0]
    assert "  2" in result.summary()


def test_after_a_retry_columns_are_those_of_now(yard: ry.Yard, tmp_path: Path) -> None:
    """Their number and what they hold both change."""
    batch = ry.grid(flips, params={"folder": str(tmp_path)}, x=range(3), name="b")
    old = yard.run(batch, backend="serial")
    assert old.columns.names == ("a", "b")
    (tmp_path / "mended").touch()
    assert yard.retry("b") == 1
    assert np.isnan(yard.results("b").columns.metric("a")[0])
    now = yard.resume("b", backend="serial")
    assert now.columns.metric("c")[0] == 30.0
    assert now.columns.metric("b").tolist() == [20.0, 2.0, 2.0]


def test_a_result_from_before_never_shows_columns_of_after(yard: ry.Yard, tmp_path: Path) -> None:
    batch = ry.grid(flips, params={"folder": str(tmp_path)}, x=range(3), name="b")
    old = yard.run(batch, backend="serial")
    assert old.columns.names == ("a", "b")
    (tmp_path / "mended").touch()
    yard.retry("b")
    assert yard.resume("b", backend="serial").columns.names == ("a", "b", "c")
    values = old.columns.metric("b")  # not asked for until now
    assert np.isnan(values[0])
    assert values[1:].tolist() == [2.0, 2.0]


def test_growth_clearing_and_starting_over_leave_nothing_stale(yard: ry.Yard) -> None:
    before = finished(yard).columns.metric("v").tolist()
    grown = yard.run(
        ry.grid(drawn, x=[1.0, 2.0, 3.0], replicates=10, seed=7, name="b"), backend="serial"
    )
    assert grown.columns.metric("v").tolist()[:20] == before
    assert grown.columns.total == 30
    fresh = yard.run(
        ry.grid(drawn, x=[1.0, 2.0], replicates=10, seed=8, name="b"), backend="serial", fresh=True
    )
    other = fresh.columns.metric("v").tolist()
    assert len(other) == 20
    assert other != before
    yard.clear("b")
    assert finished(yard).columns.metric("v").tolist() == before


@pytest.mark.parametrize("harm", ["cut", "longer", "gone", "index gone", "index torn", "old index"])
def test_columns_that_are_not_whole_are_made_again(yard: ry.Yard, harm: str) -> None:
    expected = finished(yard).columns.metric("v").tolist()
    folder = yard.batch_folder("b") / "columns"
    path, index = folder / "0", folder / "index.json"
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-8])
    elif harm == "longer":
        path.write_bytes(path.read_bytes() + b"8 bytes!")
    elif harm == "gone":
        path.unlink()
    elif harm == "index gone":
        index.unlink()
    elif harm == "index torn":
        index.write_text(index.read_text()[:30])
    else:
        data = json.loads(index.read_text())
        index.write_text(json.dumps({**data, "key": [0, *data["key"][1:]]}))
    assert yard.results("b").columns.metric("v").tolist() == expected


@pytest.mark.parametrize("name", ["0", "_status", "_seconds"])
def test_a_flipped_bit_is_noticed_before_it_is_data(yard: ry.Yard, name: str) -> None:
    assert finished(yard).columns.total == 20
    path = yard.batch_folder("b") / "columns" / name
    data = bytearray(path.read_bytes())
    data[5] ^= 0x40
    path.write_bytes(data)
    columns = yard.results("b").columns
    with pytest.raises(StoreDamaged, match="is not what was written"):
        columns.metric("v") if name == "0" else columns.fixed(name[1:])


def test_damage_in_the_store_stops_the_columns(yard: ry.Yard) -> None:
    finished(yard)
    with sqlite3.connect(yard.folder / "yard.db") as raw:
        raw.execute("UPDATE outcomes SET seconds = seconds + 1 WHERE task = 4")
    raw.close()
    with pytest.raises(StoreDamaged, match="task 4"):
        assert yard.results("b").columns
    left = [p.name for p in yard.batch_folder("b").iterdir() if "columns" in p.name]
    assert left == []


def test_of_many_readers_at_once_one_makes_the_columns(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two who made them would take them away from each other."""
    expected = finished(yard).columns.metric("v").tolist()
    found: list[list[float]] = []
    built: list[Path] = []
    build = columns_module._build

    def counted(result: ry.Result, folder: Path) -> dict[str, Any]:
        built.append(folder)
        return build(result, folder)

    monkeypatch.setattr(columns_module, "_build", counted)
    for _ in range(5):
        shutil.rmtree(yard.batch_folder("b") / "columns")
        start = threading.Barrier(4)

        def read(start: threading.Barrier = start) -> None:
            start.wait()
            found.append(read_columns(yard.results("b")).metric("v").tolist())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 20
    assert len(built) == 5
    left = [p.name for p in yard.batch_folder("b").iterdir() if "columns" in p.name]
    assert left == ["columns"]


def test_where_nothing_can_be_written_columns_are_made_elsewhere(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = finished(yard).columns.metric("v").tolist()
    home = yard.batch_folder("b")
    shutil.rmtree(home)
    home.write_text("a file where the folder should be")
    assert yard.results("b").columns.metric("v").tolist() == expected


def test_a_memory_yard_has_columns_too() -> None:
    with ry.Yard("memory:") as yard:
        result = finished(yard)
        assert result.columns.metric("v").tolist() == [v["v"] for v in result.values()]


def test_too_many_different_numbers_are_refused(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "MOST_METRICS", 3)
    result = yard.run(ry.grid(shaped, x=range(10), name="b"), backend="serial")
    with pytest.raises(UsageError, match="more than 3 different numbers"):
        assert result.columns


def test_a_metric_that_is_not_there_is_named_with_those_that_are(yard: ry.Yard) -> None:
    with pytest.raises(NotFound, match=r"no metric 'w'[\s\S]*the metrics are: v"):
        finished(yard).columns.metric("w")


def test_pickled_values_stay_closed_without_the_word(yard: ry.Yard) -> None:
    yard.run(ry.grid(drawn, x=[1.0], name="b", codec="pickle"), backend="serial")
    with pytest.raises(UsageError, match="pickled"):
        assert yard.results("b").columns
    assert yard.results("b", codec="pickle").columns.names == ("v",)


@pytest.mark.parametrize("planned", [10**12, 10**18])
def test_tasks_that_have_not_run_cost_no_room_on_the_disk(yard: ry.Yard, planned: int) -> None:
    batch = ry.grid(drawn, x=[1.0, 2.0], replicates=planned // 2, name="b")
    result = yard.run(batch, backend="serial", limit=5)
    assert result.columns.total < 2**21
    assert [group.summaries["v"].count for group in result.summaries(by="x")] == [3, 2]
    (found,) = compare_groups(groups_of(result, "v", "x"), "v")
    assert found.sides is not None
    assert [side.tasks for side in found.sides] == [planned // 2] * 2
    assert [side.compared + side.no_partner for side in found.sides] == [3, 2]
    assert [side.unfinished for side in found.sides] == [planned // 2 - 3, planned // 2 - 2]
    assert len(result.to_polars()) == 5


def test_replicates_that_have_not_run_are_no_pairs_and_counted(yard: ry.Yard) -> None:
    names = ("a", "b")
    for name, replicates in zip(names, (10**12, 4), strict=True):
        batch = ry.grid(drawn, x=[1.0, 2.0], replicates=replicates, seed=7, name=name)
        yard.run(batch, backend="serial", limit=5)
    a, b = (yard.results(name) for name in names)
    (found,) = compare_groups(groups_of_two(a, b, "v"), "v")
    assert (found.paired, found.n) == (True, 5)
    assert found.sides is not None
    assert [side.tasks for side in found.sides] == [2 * 10**12, 8]
    assert [side.unfinished for side in found.sides] == [2 * 10**12 - 5, 3]


def test_a_grid_with_too_many_values_is_summarised_and_not_compared(yard: ry.Yard) -> None:
    batch = ry.grid(drawn, x=range(10**12), y=[1, 2], name="b")
    result = yard.run(batch, backend="serial", limit=3)
    assert result.summaries("v")[0].summaries["v"].count == 3
    with pytest.raises(UsageError, match="values"):
        groups_of(result, "v", "x")
    with pytest.raises(UsageError, match="too few to compare"):
        groups_of(result, "v", "y")
