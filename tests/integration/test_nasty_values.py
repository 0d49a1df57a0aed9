"""Values that are hard to record, the whole way: store, results, files, reports and events."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from nasty import KEPT, REFUSED
from nasty_tasks import brings, returns, takes

import runyard as ry
from runyard import Result, Yard
from runyard.errors import NotEncodable
from runyard.reports.export import export
from runyard.reports.formats import FORMATS
from runyard.spec.codec import encode


def read_everywhere(result: Result, folder: Path) -> dict[str, Path]:
    """Every way in which outcomes are looked at; the files that it gave."""
    files = {name: folder / f"out.{name}" for name in FORMATS}
    for name, path in files.items():
        assert export(result, name, path) == result.stats.done
    result.summary()
    result._repr_html_()
    result.to_polars()
    report = result.report(folder / "report.html").read_text()
    assert "</html>" in report
    return files


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_odd_values_go_the_whole_way(backend: str, yard: Yard, tmp_path: Path) -> None:
    told: list[Any] = []
    names = list(KEPT)
    result = yard.run(
        ry.grid(brings, odd=names, fails=[False, True]),
        backend=backend,
        on_event=told.append,
    )
    assert (result.stats.completed, result.stats.failed) == (len(names), len(names))
    for outcome in result.outcomes():
        assert encode(outcome.value) == encode(KEPT[outcome.params["odd"]])
    files = read_everywhere(result, tmp_path)
    outcomes = json.loads(files["json"].read_text())["outcomes"]
    assert len(outcomes) == 2 * len(names)
    with files["csv"].open(newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 2 * len(names)
    assert pl.read_parquet(files["parquet"]).height == 2 * len(names)
    emitted = [event for event in told if getattr(event, "kind", None) == "brought"]
    assert len(emitted) == 2 * len(names)
    assert not list(yard.store.check())


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_what_is_refused_costs_its_own_task_only(backend: str, yard: Yard, tmp_path: Path) -> None:
    names = list(REFUSED)
    result = yard.run(ry.grid(returns, odd=names, fails=[False, True]), backend=backend)
    errors = [(o.params["fails"], o.error) for o in result.outcomes("failed")]
    assert len(errors) == 2 * len(names)
    for fails, error in errors:
        assert error is not None
        assert error.kind == ("TaskError" if fails else "NotEncodable")
        assert "recorded" in error.message
    emitting = yard.run(ry.grid(brings, odd=names), backend=backend)
    assert {o.error.kind for o in emitting.outcomes() if o.error} == {"NotEncodable"}
    assert emitting.stats.failed == len(names)
    read_everywhere(result, tmp_path)


def test_odd_values_are_parameters(yard: Yard, tmp_path: Path) -> None:
    values = list(KEPT.values())
    for batch in (
        ry.grid(takes, x=values),
        ry.batch(takes, [{"x": value} for value in values]),
        ry.tasks([ry.Task(takes, {"x": value}) for value in values]),
    ):
        result = yard.run(batch, backend="processes")
        assert result.stats.completed == len(values)
        for outcome, value in zip(result.outcomes(), values, strict=True):
            assert encode(outcome.value) == encode([value])
            assert encode(outcome.params["x"]) == encode(value)
        read_everywhere(result, tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_no_parameter(name: str, yard: Yard) -> None:
    for make in (
        lambda: ry.grid(takes, x=[1, REFUSED[name]]),
        lambda: ry.grid(takes, params={"x": REFUSED[name]}),
        lambda: ry.tasks([ry.Task(takes, {"x": REFUSED[name]})]),
    ):
        with pytest.raises(NotEncodable):
            make()


def test_pickled_values_of_any_class_go_the_whole_way(yard: Yard, tmp_path: Path) -> None:
    batch = ry.grid(returns, odd=list(REFUSED), codec="pickle")
    result = yard.run(batch, backend="processes")
    read_everywhere(result, tmp_path)
