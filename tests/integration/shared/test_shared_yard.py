"""A yard in PostgreSQL, used as any other; and workers in one process, on each store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from databases import postgres_url
from polling import eventually
from sample_tasks import double, fails, notes, paced, tossed

import runyard as ry
from runyard.errors import NotFound, StoreAway, StoreError, UsageError
from runyard.execution import RunSettings
from runyard.reports.export import export
from runyard.reports.printed import TaskOutput
from runyard.store import files_folder
from runyard.worker import Turn, YardWorker


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "files"))
    return postgres_url()


@pytest.fixture(params=["sqlite", "postgres"])
def yard(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[ry.Yard]:
    place = url if request.param == "postgres" else str(tmp_path / "yard")
    with ry.Yard(place) as found:
        yield found


# A yard like any other


def test_a_batch_gives_the_same_on_both_stores(url: str, tmp_path: Path, backend: str) -> None:
    batch = ry.grid(tossed, coins=[10, 100], replicates=50, seed=7, name="b")
    with ry.Yard(url) as shared, ry.Yard(tmp_path / "yard") as own:
        theirs = shared.run(batch, backend=backend, workers=2)
        ours = own.run(batch, backend="serial")
        assert theirs.digest == ours.digest
        assert [o.value for o in theirs.outcomes()] == [o.value for o in ours.outcomes()]


def test_every_machine_reads_what_tasks_printed_but_for_what_is_in_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speaks(x: int) -> None:
        print("y" * 70_000 if x else "short")

    with ry.Yard(url) as here:
        here.run(ry.grid(speaks, x=[0, 1], name="b"), backend="threads")
        assert here.printed("b", 1) == {0: TaskOutput("y" * 70_000 + "\n", "")}
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "another machine"))
    with ry.Yard(url) as there:
        assert there.printed("b", 0) == {0: TaskOutput("short\n", "")}
        assert there.printed("b", 1) == {0: TaskOutput(None, "")}


def test_news_come_whatever_the_search_path_is(url: str) -> None:
    """PostgreSQL 18 reports its default, which has quotes and a dollar sign in it."""
    quoted = url.replace("search_path%3D", "search_path%3D%22%24user%22,")
    heard = threading.Event()
    with ry.Yard(quoted) as one, ry.Yard(quoted) as other:
        silence = one.store.listen(heard.set)
        assert eventually(heard.is_set)  # that it listens
        heard.clear()
        other.submit(ry.grid(double, x=range(3), seed=1, name="b"))
        assert eventually(heard.is_set)
        silence()


def test_results_are_read_exported_and_reported_from_a_shared_yard(
    url: str, tmp_path: Path
) -> None:
    with ry.Yard(url) as yard:
        result = yard.run(ry.grid(fails, x=range(10), seed=7, name="b"), backend="serial")
        assert (result.stats.completed, result.stats.failed) == (5, 5)
        assert [group.count for group in result.failures()] == [5]
        export(result, "json", tmp_path / "out.json")
        assert (tmp_path / "out.json").stat().st_size > 100
        assert yard.retry("b") == 5
        assert yard.resume("b", backend="serial").stats.failed == 5
        assert list(yard.events("b"))
        yard.clear("b")
        assert yard.status() == []


def test_a_batch_grows_until_its_condition_holds_in_a_shared_yard(url: str) -> None:
    batch = ry.grid(tossed, coins=[100], replicates=20, seed=7, name="b")
    with ry.Yard(url) as yard:
        result = yard.run(batch, backend="serial", until="ci95(mean(heads)) < 2.0")
        assert result.stats.total > 20
        assert result.stats.completed == result.stats.total


def test_two_processes_may_record_the_same_batch_at_the_same_moment(url: str) -> None:
    batch = ry.grid(double, x=range(10), seed=7, name="b")
    yards = [ry.Yard(url) for _ in range(4)]
    start = threading.Barrier(len(yards))
    names: list[str] = []

    def submit(yard: ry.Yard) -> None:
        start.wait()
        names.append(yard.submit(batch))

    threads = [threading.Thread(target=submit, args=(yard,)) for yard in yards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["b"] * 4
    assert len(yards[0].status()) == 1
    for yard in yards:
        yard.close()


def test_a_server_that_is_not_there_is_a_clear_error_without_the_password() -> None:
    with pytest.raises(StoreAway, match="can't be reached") as caught:
        _ = ry.Yard("postgresql://me:secret@127.0.0.1:1/lab").store
    assert "secret" not in str(caught.value)
    assert "me:***@127.0.0.1" in str(caught.value)


def test_a_wrong_database_is_a_clear_error(url: str) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        _ = ry.Yard(url.replace("/postgres?", "/nowhere?")).store


def test_each_address_has_a_folder_of_its_own_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNYARD_FILES", raising=False)
    places = {
        files_folder(address)
        for address in ("postgresql://h/a", "postgresql://h/b", "postgresql://u:p@i:1/a", "yard")
    }
    assert len(places) == 4
    assert not any(part == "p" for place in places for part in place.parts)
    monkeypatch.setenv("RUNYARD_FILES", "elsewhere")
    assert files_folder("postgresql://h/a") == Path("elsewhere")


# Workers


def work(yard: ry.Yard, **options: object) -> list[Turn]:
    settings = RunSettings("serial", progress=False)
    return YardWorker(yard, settings, **options).run()  # type: ignore[arg-type]


def test_a_worker_does_what_is_on_record_and_ends(yard: ry.Yard) -> None:
    for name in ("a", "b"):
        yard.submit(ry.grid(double, x=range(20), seed=7, name=name))
    yard.submit(ry.tasks([ry.Task(double, {"x": x}) for x in range(5)], seed=7, name="c"))
    turns = work(yard)
    assert [(turn.batch, turn.tasks) for turn in turns] == [("a", 20), ("b", 20), ("c", 5)]
    assert all(result.digest for result in yard.status())
    assert work(yard) == []


def test_a_batch_that_can_not_be_taken_leaves_no_processes(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.submit(ry.grid(double, x=range(20), seed=7, name="a"))

    def refuse(*_: object) -> None:
        raise UsageError("it can't be loaded")

    before = len(psutil.Process().children(recursive=True))
    with pytest.raises(NotFound):
        yard.take_part("none", lambda tx: False, RunSettings(workers=1))
    monkeypatch.setattr("runyard.yard.go_on", refuse)
    for _ in range(3):
        with pytest.raises(UsageError, match="be loaded"):
            yard.take_part("a", lambda tx: False, RunSettings(workers=1))
    assert len(psutil.Process().children(recursive=True)) == before


def test_a_worker_takes_the_most_urgent_batch_first(yard: ry.Yard) -> None:
    for name, priority in (("m", "medium"), ("l", "low"), ("c", "critical"), ("h", "high")):
        batch = ry.grid(double, x=range(3), seed=7, name=name)
        yard.submit(batch.with_options(priority=priority))
    assert [turn.batch for turn in work(yard)] == ["c", "h", "m", "l"]


def test_a_worker_goes_by_the_priority_that_a_batch_was_resumed_with(yard: ry.Yard) -> None:
    for name in ("a", "b"):
        yard.submit(
            ry.grid(double, x=range(5), seed=7, name=name).with_options(budget={"tasks": 1})
        )
    yard.resume("b", backend="serial", budget={"tasks": 2}, priority="high")
    assert yard.recorded("b").row.priority == ry.Priority.HIGH
    assert [turn.batch for turn in work(yard)] == ["b", "a"]


def test_a_worker_leaves_a_batch_for_a_more_urgent_one_and_comes_back(
    yard: ry.Yard, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    yard.submit(ry.grid(paced, folder=[folder], x=range(40), seed=7, name="slow"))
    turns: list[Turn] = []
    with ry.Yard(yard.location) as same:
        worker = YardWorker(same, RunSettings("threads", 1, progress=False), on_turn=turns.append)
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert eventually(lambda: bool(notes(folder)), seconds=60)
        urgent = ry.grid(double, x=range(3), seed=7, name="urgent")
        yard.submit(urgent.with_options(priority="high"))
        thread.join(60)
    assert not thread.is_alive()
    assert [turn.batch for turn in turns] == ["slow", "urgent", "slow"]
    assert turns[0].end == "yielded"
    assert sum(turn.tasks for turn in turns) == 43


def test_a_batch_of_functions_by_value_is_left_to_its_script(yard: ry.Yard) -> None:
    yard.submit(ry.grid(lambda x: x, x=[1, 2], seed=7, name="lambda"))
    yard.submit(ry.grid(double, x=range(3), seed=7, name="named"))
    said: list[str] = []
    assert [turn.batch for turn in work(yard, say=said.append)] == ["named"]
    assert len(said) == 1
    assert said[0].startswith("skipping lambda: its functions were sent by value")


def test_a_batch_whose_budget_is_used_up_is_left_alone(yard: ry.Yard) -> None:
    batch = ry.grid(double, x=range(20), seed=7, name="b")
    yard.submit(batch.with_options(budget={"tasks": 5}))
    turns = work(yard)
    assert [(turn.batch, turn.end) for turn in turns] == [("b", "budget")]
    assert yard.results("b").stats.completed == 5


def test_a_worker_that_stays_takes_what_comes_and_stops_when_told(yard: ry.Yard) -> None:
    ended: list[Turn] = []
    with ry.Yard(yard.location) as same:
        worker = YardWorker(
            same, RunSettings("serial", progress=False), forever=True, on_turn=ended.append
        )
        thread = threading.Thread(target=worker.run)
        thread.start()
        for name in ("a", "b"):
            yard.submit(ry.grid(double, x=range(5), seed=7, name=name))
            assert eventually(lambda name=name: bool(yard.results(name).digest), seconds=60)
        assert yard.stop() == 1
        thread.join(20)
    assert not thread.is_alive()
    assert [turn.tasks for turn in ended] == [5, 5]
    with yard.store.snapshot() as view:
        assert view.engines() == []
