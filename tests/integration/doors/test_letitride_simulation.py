"""Sessions on any backend and any number of workers: the same, live, resumable, never lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from letitride_players import Careful, HalfACent, OneMore, Slow, SomeBonus
from polling import eventually

from runyard import Yard
from runyard.backends.processes import close_pools
from runyard.doors.letitride import (
    FullConfig,
    ParallelExecutor,
    SessionResult,
    SimulationController,
)
from runyard.doors.letitride.config.model import TableConfig
from runyard.doors.letitride.engine import blocks
from runyard.errors import TasksFailed, UsageError


def config(**changes: Any) -> FullConfig:
    """A small simulation in several blocks."""
    data: dict[str, Any] = {"simulation": {"num_sessions": 60, "hands_per_session": 40,
                                           "random_seed": 11}}  # fmt: skip
    for section, values in changes.items():
        data[section] = data.get(section, {}) | values
    return FullConfig.from_data(data)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of ten sessions, so that a few sessions are several tasks."""
    monkeypatch.setattr(blocks, "MOST_SESSIONS", 10)
    yield
    close_pools()


def sessions(controller: SimulationController) -> list[SessionResult]:
    return list(controller.run().session_results)


def test_serial_threads_and_processes_give_one_digest(tmp_path: Path) -> None:
    digests = {}
    for at, (backend, workers) in enumerate(
        [(None, 1), ("serial", None), ("threads", 2), ("processes", 1), (None, 2), (None, 5)]
    ):
        made = SimulationController(config(), workers, backend=backend, yard=tmp_path / str(at))
        digests[made.backend, workers] = made.run().digest
    assert len(digests) == 6
    assert len(set(digests.values())) == 1
    assert None not in digests.values()


def test_the_size_of_a_block_never_shows_in_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sessions(SimulationController(config(), 1, yard=tmp_path / "a"))
    monkeypatch.setattr(blocks, "MOST_SESSIONS", 7)
    assert sessions(SimulationController(config(), 1, yard=tmp_path / "b")) == small
    fewer = config(simulation={"num_sessions": 23})
    assert sessions(SimulationController(fewer, 1, yard=tmp_path / "c")) == small[:23]


def test_other_seeds_give_other_sessions(tmp_path: Path) -> None:
    one = sessions(SimulationController(config(), 1, yard=tmp_path))
    other = sessions(SimulationController(config(simulation={"random_seed": 12}), 1, yard=tmp_path))
    assert len(one) == len(other) == 60
    assert sum(a.session_profit != b.session_profit for a, b in zip(one, other, strict=True)) > 40


def test_one_worker_takes_the_serial_path_and_more_take_processes() -> None:
    assert SimulationController(config(), 1).backend == "serial"
    assert SimulationController(config(), 2).backend == "processes"
    assert SimulationController(config(simulation={"workers": 1})).backend == "serial"
    assert SimulationController(config(simulation={"workers": 3})).workers == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_only_ever_goes_up_and_ends_at_the_total(tmp_path: Path, workers: int) -> None:
    calls: list[tuple[int, int]] = []
    SimulationController(config(), workers, yard=tmp_path).run(
        lambda done, total: calls.append((done, total))
    )
    done = [count for count, _ in calls]
    assert len(calls) >= 5
    assert done == sorted(set(done))
    assert calls[-1] == (60, 60)
    assert {total for _, total in calls} == {60}
    again: list[tuple[int, int]] = []
    SimulationController(config(), workers, yard=tmp_path).run(lambda *call: again.append(call))
    assert again == [(60, 60)], "nothing is played twice"


def test_progress_is_heard_from_inside_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MOST_SESSIONS", 1000)
    calls: list[int] = []
    SimulationController(config(), 2, yard=tmp_path).run(lambda done, _: calls.append(done))
    assert len(calls) > 5, "there is one block only"


def test_sessions_are_a_list_that_is_read_as_it_is_used(tmp_path: Path) -> None:
    two = config(table={"num_seats": 2})
    results = SimulationController(two, 1, yard=tmp_path).run()
    found = results.session_results
    assert len(found) == 120
    assert found[17] == list(found)[17]
    assert (found[17].session_id, found[17].seat_number) == (8, 2)
    assert found[-1].session_id == 59
    assert [each.session_id for each in found[38:42]] == [19, 19, 20, 20]
    with pytest.raises(IndexError):
        found[120]
    for each in found:
        assert each.session_profit == pytest.approx(each.final_bankroll - 500)
        assert each.outcome == ("win", "push", "loss")[1 - int(np.sign(each.session_profit))]
        assert sum(each.hand_counts.values()) == each.hands_played


def test_the_executor_gives_what_the_controller_gives(tmp_path: Path) -> None:
    found = ParallelExecutor(2, yard=tmp_path / "a").run_sessions(config())
    assert list(found) == sessions(SimulationController(config(), 1, yard=tmp_path / "b"))


def test_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    expected = SimulationController(config(), 1, yard=tmp_path / "a").run().digest
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed and done < total:
            victim = next(p for p in _workers() if p.is_running())
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    slow = {"strategy": Careful}  # the reference takes long enough to be hit
    plain = SimulationController(config(), 1, yard=tmp_path / "b", **slow).run()
    results = SimulationController(config(), 2, yard=tmp_path / "c", **slow).run(kill)
    assert killed
    assert results.digest == plain.digest != expected
    assert results.result.stats.completed == 6


def _workers() -> list[psutil.Process]:
    """Processes that a supervisor has forked, which a guard has forked: they play."""
    me = psutil.Process()
    supervisors = [each for guard in me.children() for each in guard.children()]
    return [worker for supervisor in supervisors for worker in supervisor.children()]


def test_what_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    expected = SimulationController(config(), 1, yard=tmp_path, strategy=Careful).run().digest
    with Yard(tmp_path / "b") as yard:
        controller = SimulationController(config(), 1, yard=yard, strategy=Slow)
        first = controller.run(lambda done, total: yard.stop() if done < total else None)
        done = first.result.stats.completed
        assert 0 < done < 6
        calls: list[int] = []
        again = SimulationController(config(), 2, yard=yard, strategy=Slow).run(
            lambda count, _: calls.append(count)
        )
        assert again.digest == expected
        assert min(calls) >= 10 * done, "what is on record counts"


def test_classes_of_a_user_s_own_play_and_remember(tmp_path: Path) -> None:
    own: dict[str, Callable[[], Any]] = {
        "strategy": Careful, "betting_system": OneMore, "bonus_strategy": SomeBonus,
    }  # fmt: skip
    one = SimulationController(config(), 1, yard=tmp_path / "a", **own).run()
    two = SimulationController(config(), 2, yard=tmp_path / "b", **own).run()
    assert one.digest == two.digest
    assert one.aggregate.ratios["bonus_edge"].count == 60
    assert one.aggregate.exact == {}, "nothing exact is known of them"
    assert "Let It Ride" in one.report(tmp_path / "report.html").read_text()
    named = config(strategy={"type": "conservative"})
    built_in = SimulationController(named, 1, yard=tmp_path / "c").run()
    mine = SimulationController(config(), 1, yard=tmp_path / "d", strategy=Careful).run()
    assert list(mine.session_results) == list(built_in.session_results)


def test_a_bet_that_is_no_amount_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(TasksFailed, match=r"bets 0\.5"):
        SimulationController(config(), 1, yard=tmp_path, betting_system=HalfACent).run()


def test_without_a_seed_one_is_chosen_recorded_and_taken_again(tmp_path: Path) -> None:
    loose = FullConfig.from_data({"simulation": {"num_sessions": 5, "hands_per_session": 5}})
    first = SimulationController(loose, 1, yard=tmp_path).run()
    again = SimulationController(loose, 1, yard=tmp_path).run()
    assert (first.seed, first.digest) == (again.seed, again.digest)
    elsewhere = SimulationController(loose, 1, yard=tmp_path / "other").run()
    assert elsewhere.seed != first.seed


def test_a_configuration_that_was_never_read_is_checked_before_it_is_played(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"table\.num_seats is 9"):
        SimulationController(FullConfig(table=TableConfig(num_seats=9)), yard=tmp_path)
    plain = {"simulation": {"num_sessions": 3, "hands_per_session": 5, "random_seed": 1}}
    assert len(SimulationController(plain, 1, yard=tmp_path).run().session_results) == 3


@pytest.mark.usefixtures("ray_head")
def test_ray_gives_the_same_digest(tmp_path: Path) -> None:
    plain = SimulationController(config(), 1, yard=tmp_path / "a").run()
    ray = SimulationController(config(), 2, backend="ray", yard=tmp_path / "b").run()
    assert ray.digest == plain.digest


def test_a_batch_can_be_cancelled(tmp_path: Path) -> None:
    with Yard(tmp_path) as yard:
        controller = SimulationController(config(), 2, yard=yard, strategy=Slow)
        job = controller.job()
        name = yard.submit(controller.batch(job))
        done = threading.Event()

        def cancel(*_: int) -> None:
            if not done.is_set():
                done.set()
                yard.cancel(name)

        results = controller.run(cancel)
        assert eventually(done.is_set)
        stats = results.result.stats
        assert stats.cancelled > 0
        assert stats.completed + stats.cancelled == 6
