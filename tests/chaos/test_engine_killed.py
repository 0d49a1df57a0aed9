"""kill -9 of the engine: nothing recorded is lost or doubled, and nothing survives it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_run import (
    Engine,
    Photograph,
    Scene,
    assert_sound,
    doubles,
    engine,
    family,
    finish,
    full,
    photograph,
    small,
    unbroken,
    watch,
)
from polling import eventually

from runyard import faults

Note = Callable[[str, object], None]


class Story:
    """A batch whose engine is killed again and again, and what must hold after each time."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.photographs: list[tuple[Photograph, int]] = []  # and executions by then
        self.in_flight = 0
        self.most_in_flight = 0
        self.slowest = 0.0  # seconds until the last process was gone

    def died(self, dead: Engine, before: Photograph | None = None) -> None:
        """The engine has been killed: look at what it left."""
        self.slowest = max(self.slowest, dead.gone())
        after = photograph(self.scene.yard)
        if before is not None:
            before.assert_within(after)
        if self.photographs:
            self.photographs[-1][0].assert_within(after)
        executed = self.scene.executions()
        unrecorded = set(executed) - after.tasks
        assert unrecorded <= after.claimed(), "a task ran that no engine had claimed"
        self.in_flight += len(unrecorded)
        self.most_in_flight = max(self.most_in_flight, len(unrecorded))
        self.photographs.append((after, len(executed)))

    def finish(self) -> None:
        """Let an engine finish the batch, and judge the whole."""
        told = finish(self.scene)
        last = photograph(self.scene.yard)
        executions = self.scene.executions()
        assert len(last.outcomes) == self.scene.tasks
        assert told["digest"] == unbroken(self.scene)
        for picture, by_then in self.photographs:
            picture.assert_within(last)
            again = picture.tasks & set(executions[by_then:])
            assert not again, f"ran again although recorded: {sorted(again)[:10]}"
        assert set(executions) == set(range(self.scene.tasks))
        assert sum(doubles(executions).values()) <= self.in_flight
        assert_sound(self.scene)


def kill_at_random(scene: Scene, kills: int, dice: random.Random, span: int) -> Story:
    """Kill engines of one batch at random moments until it is done or there were enough."""
    story = Story(scene)
    while len(story.photographs) < kills:
        with engine(scene) as victim:
            moment = scene.started() + dice.randrange(span)
            if not victim.until_started(moment):
                break
            if scene.backend == "processes" and scene.started() > 0 and victim.workers():
                assert len(family(victim.mark)) >= 3, "the family is not all there"
            before = watch(scene.yard)
            victim.process.kill()
            victim.wait()
            story.died(victim, before)
    story.finish()
    return story


@pytest.mark.parametrize(("kills", "tasks"), [small(6, 1200), full(100, 10_000)])
def test_an_engine_killed_at_random_moments_loses_and_doubles_nothing(
    tmp_path: Path, measured: Note, kills: int, tasks: int
) -> None:
    dice = random.Random(kills)
    done, most, slowest, batch = 0, 0, 0.0, 0
    while done < kills:
        batch += 1
        scene = Scene(tmp_path / str(batch), tasks=tasks, pace=0.002)
        story = kill_at_random(scene, kills - done, dice, span=min(1000, tasks // 6))
        done += len(story.photographs)
        most, slowest = max(most, story.most_in_flight), max(slowest, story.slowest)
    measured("kills", done)
    measured("most tasks in flight at a kill", most)
    measured("slowest end of the last worker (s)", round(slowest, 3))


SMALL = {"claim": [2], "result": [4], "commit": [5], "committed": [5], "audit": [2]}
FULL = {
    "claim": [1, 2, 3],
    "result": [1, 2, 4, 40],
    "commit": [1, 2, 3, 4, 5, 6, 9],
    "committed": [1, 2, 5, 9],
    "audit": [1, 2, 3, 5],
}
"""At which arrivals the engine dies; each time another one goes on."""


@pytest.mark.parametrize("tasks", [small(500), full(10_000)])
@pytest.mark.parametrize("point", faults.POINTS)
def test_an_engine_killed_at_a_fault_point_loses_and_doubles_nothing(
    tmp_path: Path, point: str, tasks: int
) -> None:
    scene = Scene(tmp_path, tasks=tasks, pace=0.002 if tasks > 5000 else 0.001)
    story = Story(scene)
    for at in (FULL if tasks > 5000 else SMALL)[point]:
        with engine(scene, fault=f"{point}:{at}:kill") as victim:
            assert victim.wait() == -9, f"{point} was not reached {at} times: {victim.output}"
            story.died(victim)
    story.finish()


@pytest.mark.parametrize(("kills", "tasks"), [small(1, 500), full(15, 4000)])
@pytest.mark.parametrize("backend", ["serial", "threads", "async"])
def test_an_engine_that_runs_tasks_itself_loses_and_doubles_nothing(
    tmp_path: Path, backend: str, kills: int, tasks: int
) -> None:
    scene = Scene(tmp_path, tasks=tasks, pace=0.001, backend=backend, workers=2)
    kill_at_random(scene, kills, random.Random(kills), span=tasks * 2 // (3 * kills))


@pytest.mark.parametrize("kills", [small(1), full(20)])
def test_processes_that_tasks_started_end_with_the_engine(tmp_path: Path, kills: int) -> None:
    scene = Scene(tmp_path, function="with_child", tasks=8, pace=600.0)
    for _ in range(kills):
        with engine(scene) as victim:
            assert victim.until_started(scene.started() + 2)
            victim.kill()
    assert finish(scene.slower(0.0))["completed"] == 8


@pytest.mark.parametrize("kills", [small(4), full(60)])
def test_an_engine_killed_while_it_starts_leaves_no_process(tmp_path: Path, kills: int) -> None:
    scene = Scene(tmp_path, tasks=500)
    dice = random.Random(kills)
    for _ in range(kills):
        wanted = dice.randrange(1, 5)  # the engine, its warden, two workers
        with engine(scene.slower(0.01)) as victim:
            assert eventually(lambda: len(family(victim.mark)) >= wanted)  # noqa: B023
            victim.kill()
    assert finish(scene)["digest"] == unbroken(scene)


@pytest.mark.parametrize("point", faults.POINTS)
@pytest.mark.parametrize("backend", ["processes", pytest.param("serial", marks=pytest.mark.slow)])
def test_an_engine_that_meets_an_error_ends_in_order(
    tmp_path: Path, point: str, backend: str
) -> None:
    scene = Scene(tmp_path, tasks=500, pace=0.001, backend=backend)
    with engine(scene, fault=f"{point}:{SMALL[point][0]}:error") as unlucky:
        assert unlucky.wait(60) in (1, 3), unlucky.output
        unlucky.gone()
    left = photograph(scene.yard)
    assert left.engines == []
    assert finish(scene.slower(0.0))["digest"] == unbroken(scene)
    left.assert_within(photograph(scene.yard))
    assert_sound(scene)


def test_a_dead_engines_claims_are_taken_although_others_came_and_went(tmp_path: Path) -> None:
    scene = Scene(tmp_path, tasks=1200, pace=0.002)
    other = Scene(tmp_path, tasks=10, name="other")
    with engine(scene) as victim:
        assert victim.until_started(300)
        victim.kill()
    finish(other)
    assert finish(scene, 60)["digest"] == unbroken(scene)
