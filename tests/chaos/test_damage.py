"""Bits that flip in the store are found, or change nothing: never a wrong result."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_run import full, small

import runyard as ry
from runyard.spec.codec import encode

Note = Callable[[str, object], None]
TASKS = 300


def varied(ctx: ry.Context, x: int) -> Any:
    if x > 150 and x % 17 == 3:  # late, so that a run that stops at the first has much on record
        raise ValueError(f"{x} fails")
    if x % 29 == 5 and ctx.attempt == 0:
        raise KeyError("the first time")
    return [float(ctx.rng.random()), {"text": "ü" * (x % 40), "data": b"\0" * x}, ctx.rng.random(8)]


def step(x: int) -> int:
    return x


def build(place: Path, *, finished: bool) -> None:
    """A yard with a described batch (done, or partly) and a listed one; everything in one file."""
    with ry.Yard(place) as yard:
        batch = ry.grid(varied, x=range(TASKS), seed=3, name="varied")
        result = yard.run(batch, backend="serial", retries=1, backoff=0.001, fail_fast=not finished)
        assert (result.stats.done == TASKS) is finished
        assert result.stats.done >= TASKS // 2
        chain = [
            ry.Task(step, {"x": n}, name=f"t{n}", after=(f"t{n - 1}",) if n else ())
            for n in range(20)
        ]
        yard.run(ry.tasks(chain, name="chain", seed=4), backend="serial")
    connection = sqlite3.connect(place / "yard.db")
    assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    connection.close()
    assert not (place / "yard.db-wal").exists() or not (place / "yard.db-wal").stat().st_size


def flipped(original: bytes, dice: random.Random) -> tuple[bytes, int]:
    """The file with one bit changed, and which."""
    at = dice.randrange(len(original) * 8)
    changed = bytearray(original)
    changed[at // 8] ^= 1 << (at % 8)
    return bytes(changed), at


READS: dict[str, Callable[[ry.Result], Any]] = {
    "digest": lambda result: result.digest,
    "outcomes": lambda result: encode([_plain(o) for o in result.outcomes()]),
    "failed": lambda result: encode([_plain(o) for o in result.outcomes("failed")]),
    "values": lambda result: encode(list(result.values())),
    "one": lambda result: encode(_plain(result.outcome(2))),
    "stats": lambda result: encode(_counts(result.stats)),
    "failures": lambda result: [group.line() for group in result.failures()],
    "seed": lambda result: result.seed,
}


def _plain(outcome: ry.Outcome) -> list[Any]:
    error = None if outcome.error is None else list(outcome.error)
    return [
        outcome.task, str(outcome.status), outcome.params, outcome.labels, outcome.value, error,
        outcome.attempt, outcome.started, outcome.seconds, outcome.wait, outcome.worker,
    ]  # fmt: skip


def _counts(stats: Any) -> list[Any]:
    return [stats.total, stats.queued, stats.running, stats.completed, stats.failed,
            stats.cancelled, stats.seconds]  # fmt: skip


def read_all(place: Path) -> dict[tuple[str, str], Any]:
    """Everything that can be read; an error of Runyard's own in place of what it refused."""
    found: dict[tuple[str, str], Any] = {}
    for batch in ("varied", "chain"):
        for name, read in READS.items():
            try:
                with ry.Yard(place) as yard:
                    found[batch, name] = read(yard.results(batch))
            except ry.RunyardError as error:
                found[batch, name] = error
    return found


def doctor(place: Path) -> list[str]:
    try:
        with ry.Yard(place) as yard:
            return list(yard.store.check())
    except ry.RunyardError as error:
        return [str(error)]


@pytest.mark.parametrize("flips", [small(40), full(600)])
def test_a_flipped_bit_is_found_or_changes_nothing(
    tmp_path: Path, measured: Note, flips: int
) -> None:
    build(tmp_path / "whole", finished=True)
    truth = read_all(tmp_path / "whole")
    assert not any(isinstance(value, Exception) for value in truth.values())
    assert doctor(tmp_path / "whole") == []
    original = (tmp_path / "whole" / "yard.db").read_bytes()
    dice, tally, mistakes = random.Random(flips), Counter[str](), list[str]()
    for _ in range(flips):
        damaged, at = flipped(original, dice)
        with _copy(tmp_path, damaged) as place:
            told = doctor(place)
        with _copy(tmp_path, damaged) as place:
            found = read_all(place)
        refused = [k for k, value in found.items() if isinstance(value, ry.RunyardError)]
        wrong = [k for k in found if k not in refused and found[k] != truth[k]]
        if wrong:
            mistakes.append(f"bit {at} makes {wrong} wrong; doctor says {told}")
        if refused and not told:
            mistakes.append(f"bit {at}: reading {refused} fails, doctor finds nothing")
        tally["found" if told or refused else "changes nothing"] += 1
    for what, count in tally.items():
        measured(what, count)
    assert not mistakes, "\n".join(mistakes)
    assert tally["found"] > tally["changes nothing"] / 3, "the flips hit nothing that matters"


CHANGES = {
    "gone": "DELETE FROM outcomes WHERE task = {task}",
    "another status": "UPDATE outcomes SET status = 5 - status WHERE task = {task}",
    "another number": "UPDATE outcomes SET task = 1000 WHERE task = {task}",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("task", [2, 156])
def test_an_outcome_that_is_gone_or_changed_is_missed_by_every_read(
    tmp_path: Path, change: str, task: int
) -> None:
    build(tmp_path / "yard", finished=True)
    truth = read_all(tmp_path / "yard")
    connection = sqlite3.connect(tmp_path / "yard" / "yard.db")
    connection.execute(CHANGES[change].format(task=task))
    connection.commit()
    connection.close()
    found = read_all(tmp_path / "yard")
    wrong = [key for key, value in found.items()
             if not isinstance(value, ry.RunyardError) and value != truth[key]]  # fmt: skip
    assert not wrong
    assert doctor(tmp_path / "yard")


@pytest.mark.parametrize("flips", [small(8), full(120)])
def test_a_batch_resumed_on_a_damaged_store_ends_right_or_in_an_error(
    tmp_path: Path, measured: Note, flips: int
) -> None:
    build(tmp_path / "whole", finished=True)
    build(tmp_path / "part", finished=False)
    with ry.Yard(tmp_path / "whole") as yard:
        truth = yard.results("varied").digest
    original = (tmp_path / "part" / "yard.db").read_bytes()
    dice, tally, mistakes = random.Random(flips), Counter[str](), list[str]()
    for _ in range(flips):
        damaged, at = flipped(original, dice)
        with _copy(tmp_path, damaged) as place:
            try:
                told = _resumed(place)
                tally["right"] += told == ("finished", truth)
                if told != ("finished", truth):
                    mistakes.append(f"bit {at}: {told}")
            except ry.RunyardError:
                tally["refused"] += 1
            except Exception as error:
                mistakes.append(f"bit {at}: {type(error).__name__}: {error}")
    for what, count in tally.items():
        measured(what, count)
    assert not mistakes, "\n".join(mistakes)


def test_outcomes_whose_numbers_changed_are_missed_and_not_waited_for(tmp_path: Path) -> None:
    build(tmp_path / "yard", finished=False)
    connection = sqlite3.connect(tmp_path / "yard" / "yard.db")
    connection.execute("UPDATE outcomes SET task = task + 1000 WHERE task BETWEEN 10 AND 12")
    connection.commit()
    connection.close()
    with pytest.raises(ry.RunyardError) as caught:
        assert _resumed(tmp_path / "yard")[0] != "deadline", "it waits for ever"
    assert "doctor" in str(caught.value)


@pytest.mark.parametrize("lost", ["claims", "outcomes"])
def test_tasks_that_nobody_holds_are_missed_and_not_waited_for(tmp_path: Path, lost: str) -> None:
    build(tmp_path / "yard", finished=False)
    connection = sqlite3.connect(tmp_path / "yard" / "yard.db")
    if lost == "outcomes":  # of a claim that is over
        connection.execute("DELETE FROM outcomes WHERE task < 3")
    else:
        assert connection.execute("DELETE FROM claims").rowcount
    connection.commit()
    connection.close()
    assert doctor(tmp_path / "yard")
    with pytest.raises(ry.RunyardError) as caught:
        assert _resumed(tmp_path / "yard")[0] != "deadline", "it waits for ever"
        list(ry.Yard(tmp_path / "yard").results("varied").outcomes())
    assert "doctor" in str(caught.value)


def _resumed(place: Path) -> tuple[str, str | None]:
    """How the unfinished batch ends, and its digest."""
    with ry.Yard(place) as yard:
        batch = ry.grid(varied, x=range(TASKS), seed=3, name="varied")
        result = yard.run(batch, backend="serial", retries=1, backoff=0.001, deadline=10)
        return result.end, result.digest


@contextlib.contextmanager
def _copy(folder: Path, content: bytes) -> Iterator[Path]:
    """A yard made of these bytes, gone afterwards."""
    place = folder / "damaged"
    place.mkdir()
    (place / "yard.db").write_bytes(content)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("cuts", [small(6), full(60)])
def test_a_store_cut_short_or_blanked_is_found(tmp_path: Path, cuts: int) -> None:
    build(tmp_path / "whole", finished=True)
    truth = read_all(tmp_path / "whole")
    original = (tmp_path / "whole" / "yard.db").read_bytes()
    dice = random.Random(cuts)
    for number in range(cuts):
        at = dice.randrange(1, len(original) // 4096)
        if number % 2:
            damaged = original[: at * 4096 + dice.randrange(4096)]
        else:
            damaged = original[: at * 4096] + bytes(4096) + original[(at + 1) * 4096 :]
        with _copy(tmp_path, damaged) as place:
            told = doctor(place)
        with _copy(tmp_path, damaged) as place:
            found = read_all(place)
        for key, value in found.items():
            if not isinstance(value, ry.RunyardError):
                assert value == truth[key], f"page {at}: {key} is wrong"
        assert told, f"page {at}"
