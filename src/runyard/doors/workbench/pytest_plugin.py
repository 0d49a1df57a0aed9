"""Benches as pytest tests, one item a cell.

@pytest.mark.workbench("graph.py:build", cases=[…], variants=[…], evaluators={…})
def test_answers(cell):
    assert cell.scores["correct"] == 1

@pytest.mark.workbench("bench.toml")
def test_gate(bench_result):
    assert bench_result.gate("correct >= 0.8")[0].holds

The bench runs once, when the first of its cells is asked for, and its outcomes are kept for this
run of pytest only, unless `--workbench-yard` names a folder. Workers of pytest-xdist share them. A
cell whose graph failed fails its test; one that was interrupted is an error, since it has neither
passed nor failed; `any_status=True` leaves both to the test.

pytest loads this module wherever Runyard is installed, so it imports nothing heavy by itself.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell
    from runyard.doors.workbench.bench.result import BenchResult

MARK = "workbench"


class _Marked:
    """The bench of a mark."""

    def __init__(self, mark: pytest.Mark) -> None:
        from runyard.doors.workbench.bench.benchfile import BenchFile, read_bench

        given = dict(mark.kwargs)
        self.any_status = bool(given.pop("any_status", False))
        self._place = {key: given.pop(key) for key in ("backend", "workers") if key in given}
        bench = mark.args[0] if mark.args else given.pop("graph", None)
        if len(mark.args) > 1 or bench is None:
            raise pytest.UsageError(
                'write @pytest.mark.workbench("bench.toml") or (graph, cases=…)'
            )
        if isinstance(bench, str) and (bench.endswith(".toml") or "cases" not in given):
            self.file = read_bench(bench)
        else:
            known = BenchFile.__struct_fields__
            unknown = next((name for name in given if name not in known), None)
            if unknown is not None:
                raise pytest.UsageError(f"the mark workbench has no argument {unknown!r}")
            self.file = BenchFile(graph=bench, **given)
        self._result: BenchResult | None = None

    def keys(self) -> list[tuple[str, str, int]]:
        """Its cells: variant, case, repetition. Nothing runs yet."""
        from runyard.doors.workbench.bench.workbench import Workbench

        variants, cases = self.file.labels(Workbench("serial", yard="memory:"))
        return [
            (variant, case, repetition)
            for variant in variants
            for case in cases
            for repetition in range(self.file.repetitions)
        ]

    def result(self, config: pytest.Config, folder: Path) -> BenchResult:
        """Its result; it runs at the first call."""
        if self._result is None:
            from runyard import Yard
            from runyard.doors.workbench.bench.workbench import Workbench

            place = config.getoption("workbench_yard") or folder
            yard = Yard(Path(place))
            config.add_cleanup(yard.close)
            bench = Workbench(self._place.get("backend", "serial"), yard=yard)
            with _alone(Path(place)):  # others find it complete
                workers = self._place.get("workers")
                self._result = self.file.run(bench, progress=False, workers=workers)
        return self._result


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one worker of pytest-xdist at a time run a bench."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "pytest.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the yard."""
    parser.getgroup("workbench").addoption(
        "--workbench-yard",
        metavar="DIR",
        default=None,
        help="Keep the outcomes of benches in this yard: cells that it has don't run again.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(bench, *, cases, variants, evaluators, repetitions, backend, any_status): "
        "run the test for each cell of a bench of the workbench",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of each cell."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    names = metafunc.fixturenames
    if "cell" not in names and "bench_result" not in names:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: a test of a bench has a parameter `cell`, or "
            "`bench_result` for the whole bench"
        )
    marked = _Marked(mark)
    if "cell" in names:
        keys = marked.keys()
        ids = [f"{variant}-{case}-{repetition}" for variant, case, repetition in keys]
        given = [(marked, key) for key in keys]
        metafunc.parametrize("cell", given, indirect=True, ids=ids)
    if "bench_result" in names:
        metafunc.parametrize("bench_result", [marked], indirect=True, ids=["bench"])


@pytest.fixture
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """The cell of a test marked with `workbench`."""
    marked, (variant, case, repetition) = _param(request)
    result = marked.result(request.config, _shared(tmp_path_factory, request.config))
    found: Cell = result.cell(variant=variant, case=case, repetition=repetition)
    if found.status in ("interrupted", "cancelled") and not marked.any_status:
        asked = "".join(f"; it asks: {each}" for each in found.interrupts)
        pytest.fail(f"{found.id} was {found.status}{asked}", pytrace=False)
    return found


@pytest.fixture
def bench_result(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> BenchResult:
    """The whole result of the bench of a test marked with `workbench`."""
    marked: _Marked = _param(request)
    return marked.result(request.config, _shared(tmp_path_factory, request.config))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail the test of a cell that failed, and show what a cell did."""
    if pyfuncitem.get_closest_marker(MARK) is None or "cell" not in pyfuncitem.fixturenames:
        return (yield)
    found: Any = pyfuncitem.funcargs["cell"]
    pyfuncitem.add_report_section("call", "cell", _described(found))
    marked: _Marked = pyfuncitem.callspec.params["cell"][0]  # type: ignore[index]
    if found.status == "failed" and not marked.any_status:
        trace = found.failure.trace if found.failure is not None else ""
        pytest.fail(f"{found.id} failed: {found.error}\n{trace}", pytrace=False)
    return (yield)


def _described(found: Any) -> str:
    lines = [f"{found.id}: {found.variant} on {found.case}, {found.status}"]
    lines.append(f"trajectory: {' → '.join(found.trajectory)}")
    for name, value in found.scores.items():
        reason = f" ({found.reasons[name]})" if name in found.reasons else ""
        lines.append(f"{name}: {'missing' if value is None else f'{value:g}'}{reason}")
    lines.append(f"output: {found.recorded_output!r:.2000}")
    return "\n".join(lines)


def _param(request: pytest.FixtureRequest) -> Any:
    try:
        return request.param
    except AttributeError:
        raise pytest.UsageError(f"`{request.fixturename}` needs @pytest.mark.{MARK}(…)") from None


def _shared(factory: pytest.TempPathFactory, config: pytest.Config) -> Path:
    """A folder for this run of pytest; that of all workers of pytest-xdist."""
    base = factory.getbasetemp()
    return (base.parent if hasattr(config, "workerinput") else base) / "workbench-yard"
