"""The same batch, seed and code give the same outcomes everywhere, interrupted or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from polling import eventually
from running import PLACES, Place, meanwhile
from sample_tasks import mixed

import runyard as ry
from runyard.events import TaskEmitted

TASKS = 2000
OPTIONS = {"retries": 2, "backoff": 0.001, "retry_on": ["Unlucky"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One folder for all runs: it is a parameter, and so part of every seed."""
    made = tmp_path_factory.mktemp("parity")
    (made / "hurry").touch()
    return str(made)


def batch(folder: str, seed: int = 7) -> ry.Batch:
    return ry.grid(mixed, params={"folder": folder}, x=range(TASKS), seed=seed, name="mixed")


@pytest.fixture(scope="module")
def measure(folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ry.Result]:
    """The digest of an uninterrupted serial run."""
    with ry.Yard(tmp_path_factory.mktemp("measure")) as yard:
        yield PLACES[0].run(yard, batch(folder), **OPTIONS)


def test_the_batch_is_as_mixed_as_it_should_be(measure: ry.Result) -> None:
    stats = measure.stats
    assert (stats.completed, stats.failed) == (1750, 250)
    kinds = Counter(o.error.kind for o in measure.outcomes("failed") if o.error)
    assert kinds.keys() == {"ValueError", "KeyError"}
    assert Counter(o.attempt for o in measure.outcomes()) == {0: 1750, 1: 250}


def test_every_backend_gives_the_same_digest_and_events(
    place: Place, yard: ry.Yard, folder: str, measure: ry.Result
) -> None:
    seen: list[TaskEmitted] = []
    result = place.run(
        yard, batch(folder), **OPTIONS,
        on_event=lambda e: seen.append(e) if isinstance(e, TaskEmitted) else None,
    )  # fmt: skip
    assert result.digest == measure.digest
    assert sorted(event.task for event in seen) == list(range(2, TASKS, 8))
    for event in seen[::25]:
        assert event.data["number"] == measure.outcome(event.task).value[1]


def test_another_seed_gives_another_digest(
    backend: str, yard: ry.Yard, folder: str, measure: ry.Result
) -> None:
    place = Place(backend, 2)
    other = ry.grid(mixed, params={"folder": folder}, x=range(80), seed=8)
    same = ry.grid(mixed, params={"folder": folder}, x=range(80), seed=7)
    results = [place.run(yard, each, **OPTIONS) for each in (other, same)]
    assert results[0].digest != results[1].digest
    assert results[1].outcome(6).value == measure.outcome(6).value


def test_a_stop_and_a_resume_elsewhere_give_the_same_digest(
    place: Place, yard: ry.Yard, folder: str, measure: ry.Result
) -> None:
    elsewhere = PLACES[(PLACES.index(place) + 4) % len(PLACES)]
    hurry = Path(folder, "hurry")
    hurry.unlink()

    def interfere() -> None:
        with ry.Yard(yard.location) as other:
            assert eventually(lambda: any(r.stats.done > 100 for r in other.status()))
            assert other.stop("mixed") == 1

    try:
        with meanwhile(interfere):
            result = place.run(yard, batch(folder), **OPTIONS)
    finally:
        hurry.touch()
    assert result.end == "stopped"
    assert result.digest is None
    assert result.stats.done < TASKS
    resumed = elsewhere.resume(yard, "mixed")
    assert resumed.digest == measure.digest


def test_a_batch_that_grew_has_the_digest_of_one_made_whole(
    backend: str, yard: ry.Yard, folder: str, measure: ry.Result
) -> None:
    place = Place(backend, 2)
    half = ry.grid(
        mixed, params={"folder": folder}, x=list(range(0, TASKS, 2)), seed=7, name="mixed"
    )
    place.run(yard, half, **OPTIONS)
    whole = ry.grid(mixed, params={"folder": folder}, x=list(range(TASKS)), seed=7, name="mixed")
    assert place.run(yard, whole, **OPTIONS).digest == measure.digest
