"""The wide table: Parquet and polars, a column for each parameter and each metric."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from command_line import Call
from sample_metrics import anything, constant, costly_or_fails, drawn, played, shaped

import runyard as ry
from runyard.errors import StoreDamaged, UsageError
from runyard.reports import export as export_module
from runyard.reports import tables as tables_module
from runyard.reports.export import export
from runyard.reports.formats import FORMATS


def ran(yard: ry.Yard, function: Any, **more: Any) -> ry.Result:
    return yard.run(ry.grid(function, seed=1, name="b", **more), backend="serial")


def parquet(result: ry.Result, path: Path, status: str | None = None) -> pl.DataFrame:
    """The file as another program reads it; as many rows as were said."""
    count = export(result, "parquet", path, status)
    found = pl.read_parquet(path)
    assert len(found) == count
    return found


def test_both_hold_what_was_recorded(yard: ry.Yard, tmp_path: Path) -> None:
    result = ran(yard, drawn, x=[1.0, 2.0], y=[0, 3], replicates=5)
    frame = result.to_polars()
    outcomes = list(result.outcomes())
    assert frame.columns == [
        "task", "status", "x", "y", "replicate", "v", "attempt", "started", "seconds", "wait",
        "worker", "error", "message",
    ]  # fmt: skip
    for name in ("x", "y", "replicate"):
        assert frame[name].to_list() == [o.labels[name] for o in outcomes]
    assert frame["task"].to_list() == [o.task for o in outcomes]
    assert frame["v"].to_list() == [o.value["v"] for o in outcomes]
    assert frame["started"].to_list() == [o.started for o in outcomes]
    assert parquet(result, tmp_path / "b.parquet").equals(frame)


def test_columns_have_the_type_of_what_they_hold(yard: ry.Yard, tmp_path: Path) -> None:
    def kinds(**given: Any) -> dict[str, int]:
        return {"n": 1}

    result = ran(
        yard, kinds, whole=[1, -(2**60)], half=[0.5, 2], yes=[True, False], text=["ü\n  x", ""],
        mixed=[1, "1"], big=[2**70, 1], scalar=[np.int16(3), np.int64(4)],
        listed=[[1, 2], {"a": 1}], maybe=[None, 3],
    )  # fmt: skip
    expected = {
        "whole": pl.Int64, "half": pl.Float64, "yes": pl.Boolean, "text": pl.String,
        "mixed": pl.String, "big": pl.String, "scalar": pl.Int64, "listed": pl.String,
        "maybe": pl.Int64, "n": pl.Float64, "task": pl.Int64, "status": pl.String,
        "attempt": pl.UInt32, "started": pl.Float64, "seconds": pl.Float64, "worker": pl.Int64,
        "wait": pl.Float64, "error": pl.String, "message": pl.String,
    }  # fmt: skip
    frame = result.to_polars()
    assert dict(frame.schema) == expected
    assert parquet(result, tmp_path / "b.parquet").equals(frame)
    assert set(frame["text"]) == {"ü\n  x", ""}, "text stays as it is"
    assert set(frame["big"]) == {str(2**70), "1"}
    assert set(frame["listed"]) == {"[1, 2]", '{"a": 1}'}
    assert set(frame["maybe"]) == {None, 3}


def test_what_is_not_there_is_null_and_infinities_stay(yard: ry.Yard, tmp_path: Path) -> None:
    result = ran(yard, shaped, x=range(10))
    for frame in (result.to_polars(), parquet(result, tmp_path / "b.parquet")):
        a = frame["a"].to_list()
        assert [a[0], a[2], a[4], a[8]] == [1.5, 0.25, 1.0, math.inf]
        assert [a[1], a[3], a[5], a[6], a[7]] == [None] * 5
        assert frame["deep.er.n"].to_list()[:3] == [2.0, math.inf, None]
        assert frame["status"].to_list().count("failed") == 1
        assert frame["error"].to_list() == [None] * 7 + ["ValueError"] + [None] * 2


def mixture(x: int) -> Any:
    return [
        {"n": 1, "text": 'ü, "x"', "list": [1, "a"], "mixed": 1, "deep": {"text": "t"}},
        {"n": 0.5, "text": "", "list": [], "mixed": "1", "deep": {"text": None}},
        {"n": None, "mixed": [2**70], "deep": {}, "nothing": None},
    ][x]


def test_text_and_lists_are_there_as_in_csv(yard: ry.Yard, tmp_path: Path) -> None:
    result = ran(yard, mixture, x=range(4))
    frame = result.to_polars()
    assert parquet(result, tmp_path / "b.parquet").equals(frame)
    assert parquet(result, tmp_path / "one.parquet", "failed")["message"].to_list() == [
        "list index out of range"
    ]
    export(result, "csv", tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(newline="") as file:
        assert next(csv.reader(file)) == frame.columns
    assert frame["n"].to_list() == [1.0, 0.5, None, None]
    assert frame["text"].to_list() == ['ü, "x"', "", None, None]
    assert frame["list"].to_list() == ['[1, "a"]', "[]", None, None]
    assert frame["mixed"].to_list() == ["1", '"1"', f"[{2**70}]", None]
    assert frame["deep.text"].to_list() == ["t", None, None, None]
    assert frame["deep"].to_list() == [None, None, "{}", None]
    assert frame["nothing"].to_list() == [None] * 4
    assert frame["error"].to_list() == [None, None, None, "IndexError"]


def test_every_format_is_an_option_and_a_suffix(cli: Call, tmp_path: Path) -> None:
    cli(*WORDS)
    for name in FORMATS:
        assert cli("export", "b", "--format", name, "-o", "with-option").code == 0
        assert cli("export", "b", "-o", f"by-suffix.{name}", "--json").last["format"] == name
    said = cli("export", "b", "-o", "out.xlsx")
    assert said.code == 2
    assert f".{', .'.join(FORMATS)}" in said.err
    assert not (tmp_path / "out.xlsx").exists()


def test_no_two_columns_share_a_name(yard: ry.Yard, tmp_path: Path) -> None:
    """Parameters and metrics called like columns of ours, or like the names that we give them."""
    names = {"status": [1], "task": [2], "param.status": [3], "value.status": [4], "error": [5]}
    result = ran(yard, anything, **names)
    frame = result.to_polars()
    assert parquet(result, tmp_path / "b.parquet").equals(frame)
    row = frame.row(0, named=True)
    assert (row["task"], row["status"], row["error"]) == (0, "completed", None)
    assert sorted(v for v in row.values() if v in (1, 2, 3, 4, 5)) == [1, 1.0, 2, 2.0, 3, 3.0, 4, 5]
    assert len(frame.columns) == 5 + 3 + 9
    count = export(result, "csv", tmp_path / "b.csv")
    header = (tmp_path / "b.csv").read_text().splitlines()[0].split(",")
    assert count == 1
    assert len(set(header)) == len(header)


def test_hostile_names_reach_other_programs_whole(yard: ry.Yard, tmp_path: Path) -> None:
    name = 'ü "x"; DROP TABLE t --\n'
    result = ran(yard, anything, **{name: [1, 2]})
    assert name in parquet(result, tmp_path / "b.parquet").columns
    quoted = name.replace('"', '""')
    query = f"""SELECT sum("{quoted}") FROM '{tmp_path / "b.parquet"}'"""
    assert duckdb.sql(query).fetchall() == [(3,)]


def test_other_programs_find_the_same_figures(yard: ry.Yard, tmp_path: Path) -> None:
    variants = [{"name": "bold", "edge": 0.5}, {"name": "shy", "edge": 0.0}]
    spec = ry.batch(played, variants, [{"hands": 1}, {"hands": 2}], replicates=20, seed=1, name="b")
    result = yard.run(spec, backend="serial")
    export(result, "parquet", tmp_path / "b.parquet")
    query = f"""SELECT variant, avg(profit) FROM '{tmp_path / "b.parquet"}' GROUP BY variant"""
    found = dict(duckdb.sql(query).fetchall())
    for group in result.summaries("profit", "variant"):
        assert found[group.labels["variant"]] == pytest.approx(group.summaries["profit"].mean)


def test_a_status_chooses_rows(yard: ry.Yard, tmp_path: Path) -> None:
    result = ran(yard, costly_or_fails, x=range(10))
    failed = parquet(result, tmp_path / "failed.parquet", "failed")
    assert failed["task"].to_list() == [1, 3, 5, 7, 9]
    assert failed["cost"].null_count() == 5
    assert parquet(result, tmp_path / "none.parquet", "cancelled").is_empty()
    with pytest.raises(UsageError, match="no outcome has the status 'lost'"):
        parquet(result, tmp_path / "lost.parquet", "lost")
    assert sorted(p.name for p in tmp_path.glob("*.parquet")) == ["failed.parquet", "none.parquet"]


def test_tables_of_several_parts_are_whole(
    yard: ry.Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "ROW_GROUP", 4)
    result = ran(yard, costly_or_fails, x=range(10))
    frame = parquet(result, tmp_path / "b.parquet")
    assert pq.ParquetFile(tmp_path / "b.parquet").num_row_groups == 3
    assert frame.equals(result.to_polars())
    assert frame["x"].to_list() == list(range(10))


def test_an_unfinished_batch_has_the_rows_that_there_are(yard: ry.Yard, tmp_path: Path) -> None:
    spec = ry.grid(drawn, x=range(10), name="b")
    result = yard.run(spec, backend="serial", budget={"tasks": 4})
    assert result.to_polars()["x"].to_list() == [0, 1, 2, 3]
    assert len(parquet(result, tmp_path / "b.parquet")) == 4


def test_a_batch_without_outcomes_has_columns_and_no_rows(yard: ry.Yard, tmp_path: Path) -> None:
    yard.submit(ry.grid(drawn, x=[1, 2], name="b"))
    result = yard.results("b")
    frame = result.to_polars()
    assert frame.is_empty()
    assert frame.schema["x"] == pl.Int64
    assert parquet(result, tmp_path / "b.parquet").schema == frame.schema
    assert ry.map(constant, [], yard=yard, backend="serial") == []


def test_a_listed_batch_has_nulls_where_a_task_has_no_such_parameter(yard: ry.Yard) -> None:
    listed = [ry.Task(drawn, {"x": 1.0}, name="one"), ry.Task(drawn, {"y": 2.0})]
    frame = yard.run(ry.tasks(listed, name="b"), backend="serial").to_polars()
    assert frame["name"].to_list() == ["one", None]
    assert frame["x"].to_list() == [1.0, None]
    assert frame["y"].to_list() == [None, 2.0]


def test_a_file_is_there_whole_or_not_at_all(
    yard: ry.Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ran(yard, drawn, x=range(5))
    path = tmp_path / "out" / "b.parquet"
    path.parent.mkdir()
    path.write_text("before")
    monkeypatch.setattr(tables_module, "ROW_GROUP", 2)
    pages = tables_module.wide

    def broken(*given: Any) -> Any:
        yield next(pages(*given))
        raise StoreDamaged("in the middle")

    monkeypatch.setattr(tables_module, "wide", broken)
    with pytest.raises(StoreDamaged):
        export(result, "parquet", path)
    assert path.read_text() == "before"
    assert [p.name for p in path.parent.iterdir()] == ["b.parquet"]
    with pytest.raises(UsageError, match="can't be written"):
        export_module.export(result, "parquet", path / "under-a-file.parquet")


@pytest.mark.parametrize("package", ["polars", "pyarrow"])
def test_without_the_optional_package_it_is_named(
    yard: ry.Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    result = ran(yard, drawn, x=[1.0])
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"need[s]? {package}[\s\S]*runyard\[tables\]"):
        result.to_polars() if package == "polars" else export(result, "parquet", tmp_path / "x")
    assert not (tmp_path / "x").exists()


# On the command line

WORDS = ["run", "sample_metrics:costly_or_fails", "--grid", "x=0..9", "--name", "b"]
WORDS += ["--backend", "serial"]


def test_the_format_comes_from_the_option_or_the_name(cli: Call, tmp_path: Path) -> None:
    cli(*WORDS)
    said = cli("export", "b", "--format", "parquet", "--json")
    assert said.code == 0, said.err
    assert (said.last["format"], said.last["outcomes"]) == ("parquet", 10)
    assert len(pl.read_parquet(said.last["path"])) == 10
    said = cli("export", "b", "-o", "failed.parquet", "--status", "failed", "--json")
    assert said.last["outcomes"] == 5
    assert len(pl.read_parquet(tmp_path / "failed.parquet")) == 5


def test_a_parquet_file_does_not_go_to_stdout(cli: Call) -> None:
    cli(*WORDS)
    said = cli("export", "b", "--format", "parquet", "-o", "-")
    assert (said.code, said.out) == (2, "")
    assert "can't write parquet to stdout" in said.err
    assert cli("export", "b", "--format", "parquet", "--status", "cancelled").code == 5
