"""What every store does. One suite, once for each store."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_kit import KINDS, described, listed, outcome, outcomes, store_of, task

from runyard import clock
from runyard.errors import NotFound, StoreConflict, StoreError
from runyard.spec.outcome import ErrorInfo, OutcomeRow, Printed
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.store.base import Store, Transaction
from runyard.store.rows import AttemptRow, Claim, Recording


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = store_of(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def tx(store: Store) -> Iterator[Transaction]:
    with store.transaction() as unit:
        yield unit


def engine_of(store: Store, tx: Transaction, *, lives: bool = True) -> int:
    number = tx.sign_on("host", os.getpid(), "serial", 1)
    if lives:
        store.acquire_liveness(number)
    return number


def claimed(claim: Claim | None) -> list[int]:
    assert claim is not None
    return [n for low, high in claim.ranges for n in range(low, high)] + list(claim.tasks)


# Batches


def test_a_batch_is_found_by_name_and_by_number(tx: Transaction) -> None:
    with clock.replaced(wall=lambda: 123.0):
        row = described(tx, "b", 10)
    assert tx.batch("b") == tx.batch_by_id(row.id) == row
    assert (row.name, row.total, row.frontier, row.done, row.pending) == ("b", 10, 0, 0, 10)
    assert (row.created, row.started, row.finished, row.control) == (123.0, None, None, None)
    assert (row.seed, row.plan, row.seconds) == (str(2**100), b"plan", 0.0)


def test_what_is_not_there_is_none_or_empty(tx: Transaction) -> None:
    assert tx.batch("x") is None
    assert tx.batch_by_id(99) is None
    assert tx.outcome(99, 0) is None
    assert tx.task(99, 0) is None
    assert list(tx.outcomes(99)) == []
    for rows in (tx.attempts(99), tx.tasks(99), tx.queue(99), tx.claims(99), tx.batches()):
        assert rows == []
    assert tx.engines() == []
    assert tx.cancel_requests(99) == []
    assert tx.claim(99, 1, 5) is None
    assert tx.take(99, 1, "token", [0]) is None


def test_batches_come_oldest_first(tx: Transaction) -> None:
    for name in ("c", "a", "b"):
        described(tx, name)
    assert [row.name for row in tx.batches()] == ["c", "a", "b"]


def test_a_change_of_a_batch_changes_what_was_named_and_nothing_else(tx: Transaction) -> None:
    row, other = described(tx, "a"), described(tx, "b")
    changed = tx.update_batch(row.id, total=99, control="cancel", started=1.5)
    assert changed == tx.batch("a")
    assert (changed.total, changed.control, changed.started) == (99, "cancel", 1.5)
    assert (changed.name, changed.identity, changed.created) == ("a", row.identity, row.created)
    assert tx.batch("b") == other


def test_a_change_of_a_batch_that_is_gone_says_so(tx: Transaction) -> None:
    with pytest.raises(NotFound):
        tx.update_batch(99, total=1)


def test_a_forgotten_batch_leaves_nothing_and_its_neighbour_alone(
    store: Store, tx: Transaction
) -> None:
    engine = engine_of(store, tx)
    for name in ("gone", "kept"):
        row = listed(tx, name)
        tx.add_tasks(row.id, [task("a"), task("b", after=[0])])
        tx.record(row.id, [outcome(row.id, 0)])
        tx.add_attempts([AttemptRow(row.id, 1, 1, 0, b"e", 1.0, 1.0)])
        tx.keep_printed(row.id, [Printed(0, 0, b"out", b"")])
        tx.request_cancel(row.id, 1)
        numbered = described(tx, f"{name}-numbered")
        tx.claim(numbered.id, engine, 4)
    gone, kept = tx.batch("gone"), tx.batch("kept")
    assert gone is not None
    assert kept is not None
    tx.delete_batch(gone.id)
    assert tx.batch("gone") is None
    for rows in (tx.tasks, tx.queue, tx.attempts, tx.claims, tx.cancel_requests):
        assert rows(gone.id) == []
    assert list(tx.outcomes(gone.id)) == tx.printed(gone.id, 0) == []
    assert tx.edges(gone.id) == []
    assert len(tx.tasks(kept.id)) == 2
    assert tx.attempts(kept.id) != []
    assert tx.printed(kept.id, 0) != []
    assert tx.cancel_requests(kept.id) == [1]
    assert len(list(tx.outcomes(kept.id))) == 1
    numbered = tx.batch("gone-numbered")
    assert numbered is not None
    assert len(tx.claims(numbered.id)) == 1


def test_a_name_is_free_again_when_its_batch_is_forgotten(tx: Transaction) -> None:
    old = described(tx, "b")
    tx.record(old.id, [outcome(old.id, 0)])
    tx.delete_batch(old.id)
    new = described(tx, "b")
    assert list(tx.outcomes(new.id)) == []
    assert new.done == 0


def test_two_batches_of_one_name_are_refused(store: Store) -> None:
    with store.transaction() as tx:
        described(tx, "b")
    with pytest.raises(StoreError), store.transaction() as tx:
        described(tx, "b")
    with store.snapshot() as view:
        assert len(view.batches()) == 1


def test_the_number_of_a_forgotten_batch_is_not_given_to_another(tx: Transaction) -> None:
    old = described(tx, "a")
    tx.delete_batch(old.id)
    assert described(tx, "b").id != old.id


# Outcomes


def test_outcomes_come_back_as_they_went_in_and_in_order(tx: Transaction) -> None:
    batch = described(tx).id
    rows = [
        outcome(batch, n, status) for n, status in ((4, FAILED), (0, COMPLETED), (2, CANCELLED))
    ]
    assert tx.record(batch, rows).count == 3
    assert list(tx.outcomes(batch)) == sorted(rows)
    assert tx.outcome(batch, 4) == rows[0]
    assert tx.outcome(batch, 3) is None


def test_recording_plain_tuples_is_recording_rows(tx: Transaction) -> None:
    batch = described(tx).id
    tx.record(batch, [tuple(outcome(batch, 1))])  # type: ignore[list-item]
    assert tx.outcome(batch, 1) == outcome(batch, 1)
    assert next(tx.outcomes(batch)).task == 1


def test_an_outcome_is_recorded_once_whatever_comes_later(tx: Transaction) -> None:
    batch = described(tx).id
    first = outcome(batch, 1)
    assert tx.record(batch, [first]).count == 1
    late = [outcome(batch, 1, FAILED), outcome(batch, 2)]
    assert tx.record(batch, late).count == 1
    assert tx.outcome(batch, 1) == first
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.completed, row.failed) == (2, 0)


def test_the_same_outcome_twice_in_one_go_counts_once(tx: Transaction) -> None:
    batch = described(tx).id
    rows = [outcome(batch, 1), outcome(batch, 1), outcome(batch, 1, FAILED)]
    assert tx.record(batch, rows).count == 1
    row = tx.batch_by_id(batch)
    assert row is not None
    assert row.done == 1


@pytest.mark.parametrize("size", [1, 49, 50, 51, 100, 120])
def test_any_number_of_outcomes_at_once_is_counted_right(tx: Transaction, size: int) -> None:
    batch = described(tx, total=1000).id
    assert tx.record(batch, outcomes(batch, range(size))).count == size
    assert tx.record(batch, outcomes(batch, range(size + 3))).count == 3
    assert [row.task for row in tx.outcomes(batch)] == list(range(size + 3))


def test_recording_nothing_changes_nothing(tx: Transaction) -> None:
    before = described(tx)
    assert tx.record(before.id, []).count == 0
    assert tx.batch_by_id(before.id) == before


def test_counts_follow_outcomes_and_the_last_one_finishes_the_batch(tx: Transaction) -> None:
    batch = described(tx, total=4).id
    tx.record(batch, outcomes(batch, [0, 1]))
    tx.record(batch, outcomes(batch, [2], FAILED))
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.completed, row.failed, row.cancelled, row.pending) == (2, 1, 0, 1)
    assert row.finished is None
    with clock.replaced(wall=lambda: 77.0):
        tx.record(batch, outcomes(batch, [3], CANCELLED))
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.cancelled, row.pending, row.finished) == (1, 0, 77.0)


def test_outcomes_are_paged_and_filtered(tx: Transaction) -> None:
    batch = described(tx, total=20).id
    rows = [outcome(batch, n, FAILED if n % 3 else COMPLETED) for n in range(20)]
    tx.record(batch, rows)
    assert [r.task for r in tx.outcomes(batch, after=15)] == [16, 17, 18, 19]
    assert [r.task for r in tx.outcomes(batch, after=3, limit=4)] == [4, 5, 6, 7]
    assert [r.task for r in tx.outcomes(batch, statuses=[COMPLETED], limit=3)] == [0, 3, 6]
    assert [r.task for r in tx.outcomes(batch, after=6, statuses=[COMPLETED])] == [9, 12, 15, 18]
    assert list(tx.outcomes(batch, statuses=[CANCELLED])) == []
    assert list(tx.outcomes(batch, limit=0)) == []
    assert len(list(tx.outcomes(batch, statuses=[COMPLETED, FAILED]))) == 20


def test_outcomes_of_many_pages_are_all_there(tx: Transaction) -> None:
    batch = described(tx, total=5000).id
    tx.record(batch, outcomes(batch, range(5000)))
    assert [row.task for row in tx.outcomes(batch)] == list(range(5000))
    assert [row.task for row in tx.outcomes(batch, limit=4001)] == list(range(4001))


def test_timings_leave_cancelled_tasks_out(tx: Transaction) -> None:
    batch = described(tx).id
    assert tuple(tx.timings(batch)) == (0, 0.0, 0.0, 0.0)
    tx.update_batch(batch, started=10.0)
    tx.record(
        batch,
        [
            outcome(batch, 0, started=11.0, seconds=1.0),
            outcome(batch, 1, FAILED, started=13.0, seconds=3.0),
            outcome(batch, 2, CANCELLED, started=99.0, seconds=99.0),
        ],
    )
    assert tuple(tx.timings(batch)) == (2, 2.0, 3.0, 2.0)


# Claims of numbered tasks


def test_claims_take_numbers_in_order_until_there_are_none(store: Store, tx: Transaction) -> None:
    batch, engine = described(tx, total=10).id, engine_of(store, tx)
    taken = [claimed(tx.claim(batch, engine, 4)) for _ in range(3)]
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert tx.claim(batch, engine, 4) is None
    row = tx.batch_by_id(batch)
    assert row is not None
    assert row.frontier == 10
    assert [(c.low, c.high, c.engine) for c in tx.claims(batch)] == [
        (0, 4, engine), (4, 8, engine), (8, 10, engine),
    ]  # fmt: skip


def test_a_claim_holds_at_least_one_task(store: Store, tx: Transaction) -> None:
    batch, engine = described(tx).id, engine_of(store, tx)
    assert claimed(tx.claim(batch, engine, 0)) == [0]


def test_what_a_living_engine_holds_is_not_given_to_another(store: Store, tx: Transaction) -> None:
    batch = described(tx, total=6).id
    one, other = engine_of(store, tx), engine_of(store, tx)
    assert claimed(tx.claim(batch, one, 4)) == [0, 1, 2, 3]
    assert claimed(tx.claim(batch, other, 4)) == [4, 5]
    assert tx.claim(batch, other, 4) is None


def test_what_a_dead_engine_held_is_taken_over_without_what_it_finished(
    store: Store, tx: Transaction
) -> None:
    batch = described(tx, total=6).id
    one, other = engine_of(store, tx), engine_of(store, tx)
    lost = tx.claim(batch, one, 6)
    assert lost is not None
    tx.record(batch, outcomes(batch, [1, 4]))
    store.release_liveness(one)
    taken = tx.claim(batch, other, 2)
    assert taken is not None
    assert taken.ranges == [(0, 1), (2, 4), (5, 6)]
    assert tx.holds(taken)
    assert not tx.holds(lost)


def test_a_released_claim_is_free_and_a_finished_one_is_gone(store: Store, tx: Transaction) -> None:
    batch = described(tx, total=6).id
    one, other = engine_of(store, tx), engine_of(store, tx)
    first, second = (tx.claim(batch, one, 3) for _ in range(2))
    assert first is not None
    assert second is not None
    tx.record(batch, outcomes(batch, [0, 1, 2]))
    tx.release(first, finished=True)
    tx.release(second, finished=False)
    assert [(c.low, c.high, c.engine) for c in tx.claims(batch)] == [(3, 6, None)]
    assert not tx.holds(first)
    assert claimed(tx.claim(batch, other, 9)) == [3, 4, 5]


def test_a_claim_that_was_taken_over_is_not_released_by_its_old_owner(
    store: Store, tx: Transaction
) -> None:
    batch = described(tx, total=3).id
    one, other = engine_of(store, tx), engine_of(store, tx)
    lost = tx.claim(batch, one, 3)
    assert lost is not None
    store.release_liveness(one)
    taken = tx.claim(batch, other, 3)
    assert taken is not None
    for finished in (True, False):
        tx.release(lost, finished=finished)
    assert tx.holds(taken)
    assert tx.claim(batch, one, 3) is None


def test_a_batch_that_grew_has_more_to_claim(store: Store, tx: Transaction) -> None:
    batch, engine = described(tx, total=2).id, engine_of(store, tx)
    assert claimed(tx.claim(batch, engine, 9)) == [0, 1]
    tx.update_batch(batch, total=5)
    assert claimed(tx.claim(batch, engine, 9)) == [2, 3, 4]


def test_a_claim_leaves_out_what_was_cancelled_beforehand(store: Store, tx: Transaction) -> None:
    batch, engine = described(tx, total=5).id, engine_of(store, tx)
    tx.record(batch, outcomes(batch, [1, 3], CANCELLED))
    assert claimed(tx.claim(batch, engine, 5)) == [0, 2, 4]


def test_pending_is_every_task_without_an_outcome_whoever_holds_it(
    store: Store, tx: Transaction
) -> None:
    batch, engine = described(tx, total=10).id, engine_of(store, tx)
    assert tx.pending(batch) == [(0, 10)]
    claim = tx.claim(batch, engine, 4)
    assert claim is not None
    tx.record(batch, outcomes(batch, [1]))
    assert tx.pending(batch) == [(0, 1), (2, 4), (4, 10)]
    tx.release(claim, finished=False)
    assert tx.pending(batch) == [(0, 1), (2, 4), (4, 10)]


def test_pending_leaves_out_what_was_cancelled_before_anybody_claimed_it(tx: Transaction) -> None:
    batch = described(tx, total=5).id
    tx.record(batch, outcomes(batch, [3], CANCELLED))
    left = [n for low, high in tx.pending(batch) for n in range(low, high)]
    assert left == [0, 1, 2, 4]


def test_outcomes_are_found_by_the_engines_that_made_them(tx: Transaction) -> None:
    batch, other = described(tx, "a", 9).id, described(tx, "b", 9).id
    for number, engine in enumerate([0, 1, 2, 2, 3]):
        tx.record(batch, [outcome(batch, number, worker=engine << 16 | 5)])
    tx.record(batch, [outcome(batch, 7, FAILED, worker=2 << 16)])
    tx.record(batch, [outcome(batch, 8, CANCELLED, worker=2 << 16)])
    tx.record(other, [outcome(other, 0, worker=2 << 16)])
    assert tx.made_by(batch, 2, 3) == [2, 3, 7]
    assert tx.made_by(batch, 0, 2) == [0, 1]
    assert tx.made_by(batch, 3, 1 << 31) == [4]


# Requeue


def test_requeued_tasks_have_no_outcome_and_run_again(store: Store, tx: Transaction) -> None:
    batch, engine = described(tx, total=6).id, engine_of(store, tx)
    claim = tx.claim(batch, engine, 6)
    assert claim is not None
    tx.record(batch, outcomes(batch, [0, 1, 2]))
    tx.record(batch, outcomes(batch, [3, 4, 5], FAILED))
    tx.release(claim, finished=True)
    tx.add_attempts([AttemptRow(batch, n, 1, 0, b"e", 1.0, 1.0) for n in (2, 4)])
    tx.keep_printed(batch, [Printed(n, at, b"out", b"") for n in (2, 4, 5) for at in (0, 1)])
    tx.update_batch(batch, control="cancel")
    tx.requeue(batch, [4, 3, 5])
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.completed, row.failed, row.finished, row.control) == (3, 0, None, None)
    assert [r.task for r in tx.outcomes(batch)] == [0, 1, 2]
    assert [a.task for a in tx.attempts(batch)] == [2]
    assert [len(tx.printed(batch, n)) for n in range(6)] == [0, 0, 2, 0, 0, 0]
    assert tx.pending(batch) == [(3, 6)]
    assert claimed(tx.claim(batch, engine, 9)) == [3, 4, 5]


def test_a_requeued_task_is_asked_for_once_even_inside_a_claim_that_is_still_there(
    store: Store, tx: Transaction
) -> None:
    batch, engine = described(tx, total=4).id, engine_of(store, tx)
    claim = tx.claim(batch, engine, 4)
    assert claim is not None
    tx.record(batch, outcomes(batch, [1], FAILED))
    tx.release(claim, finished=False)
    tx.requeue(batch, [1])
    left = [n for low, high in tx.pending(batch) for n in range(low, high)]
    assert sorted(left) == [0, 1, 2, 3]
    taken: list[int] = []
    while (again := tx.claim(batch, engine, 9)) is not None:
        taken += claimed(again)
    assert sorted(taken) == [0, 1, 2, 3]


def test_requeueing_what_nobody_claimed_yet_leaves_it_to_the_frontier(
    store: Store, tx: Transaction
) -> None:
    batch, engine = described(tx, total=3).id, engine_of(store, tx)
    tx.record(batch, outcomes(batch, [2], CANCELLED))
    tx.requeue(batch, [2])
    assert tx.claims(batch) == []
    assert claimed(tx.claim(batch, engine, 9)) == [0, 1, 2]


@pytest.mark.parametrize("is_listed", [False, True])
def test_requeueing_a_task_without_an_outcome_changes_nothing(
    store: Store, tx: Transaction, is_listed: bool
) -> None:
    engine = engine_of(store, tx)
    if is_listed:
        batch = listed(tx).id
        tx.add_tasks(batch, [task("a"), task("b")])
    else:
        batch = described(tx, total=2).id
    claim = tx.claim(batch, engine, 2)
    assert claim is not None
    before = tx.claims(batch), tx.queue(batch)
    tx.requeue(batch, [0, 1, 7])
    assert (tx.claims(batch), tx.queue(batch)) == before
    assert tx.holds(claim)


# Listed tasks


def test_listed_tasks_are_numbered_as_they_come(tx: Transaction) -> None:
    batch = listed(tx).id
    with clock.replaced(wall=lambda: 9.0):
        tx.add_tasks(batch, [task("a"), task(None, 3)])
    tx.add_tasks(batch, [task("c", 0)])
    row = tx.batch_by_id(batch)
    assert row is not None
    assert row.total == 3
    first = tx.task(batch, 0)
    assert first is not None
    assert (first.name, first.priority, first.content) == ("a", 1, b"content of a")
    assert first.created == 9.0
    assert [r.task for r in tx.tasks(batch)] == [0, 1, 2]
    assert [r.task for r in tx.tasks(batch, after=0, limit=1)] == [1]
    assert tx.task(batch, 3) is None


def test_tasks_can_be_an_engines_own_from_the_start(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task("a"), task("b")], engine=engine, token="mine")
    tx.add_tasks(batch, [task("c")])
    assert [(row.engine, row.token) for row in tx.queue(batch)] == [
        (engine, "mine"), (engine, "mine"), (None, None)
    ]  # fmt: skip
    assert tx.holds(Claim(0, batch, "mine", [], {}), [0, 1])
    assert claimed(tx.claim(batch, engine, 9)) == [2]


def test_an_engine_takes_the_very_tasks_it_names(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    dead = engine_of(store, tx, lives=False)
    names = [task(name) for name in "abcd"]
    tx.add_tasks(batch, [*names, task("e", 3), task("f", after=[0]), task("g")])
    tx.record(batch, [outcome(batch, 2)])
    living = engine_of(store, tx)
    assert claimed(tx.take(batch, dead, "dead", [1])) == [1]
    assert claimed(tx.take(batch, living, "theirs", [4, 3])) == [4, 3]
    for _ in range(2):  # who does not know whether it went through asks again
        taken = tx.take(batch, engine, "mine", [1, 2, 3, 5, 6, 9])
        assert claimed(taken) == [1, 6]
    assert {row.task: row.token for row in tx.queue(batch)} == {
        0: None, 1: "mine", 3: "theirs", 4: "theirs", 5: None, 6: "mine"
    }  # fmt: skip
    assert not tx.holds(Claim(0, batch, "dead", [], {}), [1])
    assert tx.take(batch, engine, "mine", [2, 9]) is None
    assert tx.take(batch, engine, "mine", []) is None


def test_new_tasks_open_a_finished_batch_again(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a")])
    tx.record(batch, [outcome(batch, 0)])
    row = tx.batch_by_id(batch)
    assert row is not None
    assert row.finished is not None
    tx.add_tasks(batch, [task("b")])
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.finished, row.pending) == (None, 1)


def test_listed_tasks_are_claimed_by_priority_then_in_order(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task(None, p) for p in (1, 3, 0, 3, 1)])
    assert [row.task for row in tx.queue(batch)] == [1, 3, 0, 4, 2]
    first = tx.claim(batch, engine, 3)
    assert first is not None
    assert first.tasks == {1: b"content of None", 3: b"content of None", 0: b"content of None"}
    assert claimed(first) == [1, 3, 0]
    assert claimed(tx.claim(batch, engine, 3)) == [4, 2]
    assert tx.claim(batch, engine, 3) is None
    assert tx.pending(batch) == [(0, 5)]


def test_a_listed_task_with_an_outcome_is_no_longer_queued(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task("a"), task("b"), task("c")])
    claim = tx.claim(batch, engine, 3)
    assert claim is not None
    tx.record(batch, [outcome(batch, 1)])
    assert [row.task for row in tx.queue(batch)] == [0, 2]
    assert tx.pending(batch) == [(0, 1), (2, 3)]
    assert tx.holds(claim)
    tx.release(claim, finished=False)
    assert all(row.engine is None and row.token is None for row in tx.queue(batch))
    assert not tx.holds(claim)


def test_listed_tasks_of_a_dead_engine_are_taken_over(store: Store, tx: Transaction) -> None:
    batch = listed(tx).id
    one, other = engine_of(store, tx), engine_of(store, tx)
    tx.add_tasks(batch, [task("a"), task("b")])
    lost = tx.claim(batch, one, 2)
    assert lost is not None
    assert tx.claim(batch, other, 2) is None
    store.release_liveness(one)
    taken = tx.claim(batch, other, 2)
    assert claimed(taken) == [0, 1]
    assert taken is not None
    assert tx.holds(taken)
    assert not tx.holds(lost)


def test_a_follower_waits_for_all_that_it_comes_after(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task("a"), task("b"), task("c", 3, after=[0, 1])])
    assert [(row.task, row.waiting) for row in tx.queue(batch)] == [(2, 2), (0, 0), (1, 0)]
    assert claimed(tx.claim(batch, engine, 9)) == [0, 1]
    for number, freed in ((0, []), (1, [2])):
        assert tx.claim(batch, engine, 9) is None
        assert tx.record(batch, [outcome(batch, number)]) == Recording(1, freed)
    assert tx.edges(batch) == []
    assert claimed(tx.claim(batch, engine, 9)) == [2]


def test_an_outcome_that_is_recorded_twice_frees_followers_once(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a"), task("b"), task("c", after=[0, 1])])
    for count in (1, 0):
        assert tx.record(batch, [outcome(batch, 0)]) == Recording(count, [])
    assert {row.task: row.waiting for row in tx.queue(batch)} == {1: 0, 2: 1}


def test_tasks_that_completed_together_free_what_came_after_them(tx: Transaction) -> None:
    batch = listed(tx).id
    after = [[], [], [], [0, 1], [2], [1, 4]]
    tx.add_tasks(batch, [task(f"t{n}", after=before) for n, before in enumerate(after)])
    assert tx.record(batch, outcomes(batch, [0, 1, 2])) == Recording(3, [3, 4])
    assert {row.task: row.waiting for row in tx.queue(batch)} == {3: 0, 4: 0, 5: 1}
    assert tx.record(batch, outcomes(batch, [3, 4, 5])) == Recording(3, [])
    assert tx.edges(batch) == []


@pytest.mark.parametrize("status", [FAILED, CANCELLED])
def test_all_that_comes_after_a_task_that_did_not_complete_is_cancelled(
    tx: Transaction, status: int
) -> None:
    batch = listed(tx).id
    after = [[], [], [0, 1], [2], [2, 3], [1]]
    tx.add_tasks(batch, [task(f"t{n}", after=before) for n, before in enumerate(after)])
    rows = [outcome(batch, 0, status), outcome(batch, 1)]
    assert tx.record(batch, rows) == Recording(5, [5])
    ended = {row.task: row for row in tx.outcomes(batch)}
    assert {n: row.status for n, row in ended.items()} == {
        0: status, 1: COMPLETED, 2: CANCELLED, 3: CANCELLED, 4: CANCELLED
    }  # fmt: skip
    for number, before in ((2, 0), (3, 2), (4, 2)):
        error = ended[number].error
        assert error is not None
        info = ErrorInfo.decode(error)
        assert info.kind == "DependencyFailed"
        assert f"task {before}," in info.message
    row = tx.batch_by_id(batch)
    assert row is not None
    assert (row.done, row.pending) == (5, 1)
    tx.requeue(batch, [0, 2, 3, 4])
    assert {row.task: row.waiting for row in tx.queue(batch)} == {0: 0, 2: 1, 3: 1, 4: 2, 5: 0}


def test_an_outcome_that_comes_too_late_frees_nothing(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a"), task("b", after=[0])])
    tx.record(batch, [outcome(batch, 0, FAILED)])
    tx.requeue(batch, [1])
    assert tx.record(batch, [outcome(batch, 0)]) == Recording(1, [])
    assert [row.status for row in tx.outcomes(batch)] == [FAILED, CANCELLED]


def test_what_was_added_after_a_task_that_had_failed_can_be_cancelled(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a"), task("b"), task("c")])
    tx.record(batch, [outcome(batch, 0, FAILED), outcome(batch, 1)])
    tx.add_tasks(batch, [task("d", after=[0, 1]), task("e", after=[3]), task("f", after=[1, 2])])
    assert tx.cancel_doomed(batch) == 2
    assert tx.cancel_doomed(batch) == 0
    assert [row.task for row in tx.queue(batch)] == [2, 5]


def test_a_claim_tells_which_of_its_tasks_others_come_after(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task("a"), task("b", after=[0]), task("c"), task("d", after=[0, 1])])
    first = tx.claim(batch, engine, 9)
    assert claimed(first) == [0, 2]
    assert first is not None
    assert first.awaited == {0}
    tx.record(batch, outcomes(batch, [0, 2]))
    second = tx.take(batch, engine, "token", [1, 3])
    assert claimed(second) == [1]
    assert second is not None
    assert second.awaited == {1}


def test_a_new_task_does_not_wait_for_one_that_has_completed(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a"), task("b")])
    tx.record(batch, [outcome(batch, 0)])
    tx.add_tasks(batch, [task("c", after=[0, 1])])
    assert {row.task: row.waiting for row in tx.queue(batch)} == {1: 0, 2: 1}


def test_followers_with_an_outcome_are_not_freed(tx: Transaction) -> None:
    batch = listed(tx).id
    tx.add_tasks(batch, [task("a"), task("b", after=[0]), task("c", after=[0])])
    tx.record(batch, [outcome(batch, 1, CANCELLED)])
    assert tx.record(batch, [outcome(batch, 0)]) == Recording(1, [2])
    assert tx.queued(batch, 1) is None


def test_requeued_listed_tasks_wait_again_for_what_has_not_completed(
    store: Store, tx: Transaction
) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task("a", 2), task("b", after=[0])])
    tx.record(batch, [outcome(batch, 0, FAILED), outcome(batch, 1, CANCELLED)])
    assert tx.queue(batch) == []
    tx.requeue(batch, [0, 1])
    assert [(r.task, r.priority, r.waiting) for r in tx.queue(batch)] == [(0, 2, 0), (1, 1, 1)]
    assert claimed(tx.claim(batch, engine, 9)) == [0]


# Attempts, cancels, engines


def test_the_task_that_is_next_is_the_one_a_claim_gets(store: Store, tx: Transaction) -> None:
    row = listed(tx)
    assert tx.next_free(row.id) is None
    tx.add_tasks(row.id, [task("a", 1), task("b", 3, [0]), task("c", 2), task("d", 2)])
    free = tx.next_free(row.id)
    assert free is not None
    assert free.task == 2
    assert claimed(tx.claim(row.id, engine_of(store, tx), 1)) == [2]
    free = tx.next_free(row.id)
    assert free is not None
    assert free.task == 3


def test_a_list_knows_whether_priorities_differ(tx: Transaction) -> None:
    row = listed(tx)
    assert not tx.has_priorities(row.id)
    tx.add_tasks(row.id, [task("a", 2), task("b", 2)])
    assert not tx.has_priorities(row.id)
    tx.add_tasks(row.id, [task("c", 1)])
    assert tx.has_priorities(row.id)


def test_what_comes_before_a_task_is_counted_whoever_holds_it(
    store: Store, tx: Transaction
) -> None:
    row = listed(tx)
    tx.add_tasks(row.id, [task("a"), task("b", 3), task("c", 3, [0]), task("d"), task("e", 0)])
    tx.claim(row.id, engine_of(store, tx), 1)
    ahead = {}
    for number in (0, 1, 3, 4):
        queued = tx.queued(row.id, number)
        assert queued is not None
        ahead[number] = tx.ahead(queued)
    assert ahead == {0: 1, 1: 0, 3: 2, 4: 3}
    tx.record(row.id, outcomes(row.id, [1]))
    assert tx.queued(row.id, 1) is None


def test_the_latest_outcomes_are_those_with_the_highest_numbers(tx: Transaction) -> None:
    row = described(tx, total=20)
    tx.record(row.id, outcomes(row.id, [3, 1, 9, 12]))
    assert [found.task for found in tx.latest(row.id, 3)] == [12, 9, 3]
    assert tx.latest(row.id, 3)[0] == outcome(row.id, 12)


def test_forgetting_removes_what_has_ended_and_gives_no_number_again(
    store: Store, tx: Transaction
) -> None:
    row, other = listed(tx, "b"), listed(tx, "other")
    for each in (row, other):
        tx.add_tasks(each.id, [task("a"), task("b", 1, [0]), task("c"), task("d")])
        tx.record(each.id, [outcome(each.id, 0), outcome(each.id, 2, FAILED)])
        tx.add_attempts([AttemptRow(each.id, 2, 1, 0, b"", 1.0, 1.0)])
        tx.keep_printed(each.id, [Printed(n, 0, b"out", b"") for n in (0, 1)])
    assert tx.forget(row.id) == 2
    found = tx.batch_by_id(row.id)
    assert found is not None
    assert (found.total, found.done, found.pending, found.next_task) == (2, 0, 2, 4)
    assert [each.task for each in tx.tasks(row.id)] == [1, 3]
    assert list(tx.outcomes(row.id)) == tx.attempts(row.id) == tx.edges(row.id) == []
    assert [len(tx.printed(row.id, n)) for n in (0, 1)] == [0, 1]
    assert [len(tx.printed(other.id, n)) for n in (0, 1)] == [1, 1]
    tx.add_tasks(row.id, [task("e", 1, [1])])
    assert [each.task for each in tx.tasks(row.id)] == [1, 3, 4]
    assert tx.forget(row.id) == 0
    assert claimed(tx.claim(row.id, engine_of(store, tx), 9)) == [1, 3]
    assert len(tx.tasks(other.id)) == 4
    assert len(list(tx.outcomes(other.id))) == len(tx.attempts(other.id)) + 1 == 2


def test_a_late_outcome_of_a_forgotten_task_is_not_this_engine_s_to_record(
    store: Store, tx: Transaction
) -> None:
    row = listed(tx)
    tx.add_tasks(row.id, [task("a"), task("b")])
    claim = tx.claim(row.id, engine_of(store, tx), 2)
    assert claim is not None
    tx.record(row.id, outcomes(row.id, [0]))
    assert tx.holds(claim, [0, 1])
    tx.forget(row.id)
    assert not tx.holds(claim, [0])
    assert tx.holds(claim, [1])


def test_attempts_come_in_order_by_task(tx: Transaction) -> None:
    batch = described(tx).id
    rows = [AttemptRow(batch, t, n, t % 2, b"e", 1.5, 0.5) for t, n in ((3, 1), (1, 2), (1, 1))]
    tx.add_attempts(rows)
    tx.add_attempts([])
    assert tx.attempts(batch) == [rows[2], rows[1], rows[0]]
    assert tx.attempts(batch, 1) == [rows[2], rows[1]]
    assert tx.attempts(batch, 9) == []


def test_what_attempts_printed_is_kept_as_bytes_and_by_attempt(tx: Transaction) -> None:
    batch, other = described(tx, "a").id, described(tx, "b").id
    rows = [Printed(3, n, bytes(range(256)), text) for n, text in enumerate((None, b"\n" * 70_000))]
    tx.keep_printed(batch, [rows[1], Printed(4, 0, b"four", b""), rows[0]])
    tx.keep_printed(other, [])
    assert tx.printed(batch, 3) == rows
    assert tx.printed(batch, 5) == tx.printed(other, 3) == []


def test_what_an_attempt_prints_in_its_last_execution_is_what_is_kept(tx: Transaction) -> None:
    batch = described(tx).id
    tx.keep_printed(batch, [Printed(1, 0, b"died", None), Printed(1, 1, b"other attempt", b"")])
    tx.keep_printed(batch, [Printed(1, 0, b"in between", b""), Printed(1, 0, b"last", b"")])
    assert [row.stdout for row in tx.printed(batch, 1)] == [b"last", b"other attempt"]


def test_cancel_requests_are_kept_until_seen_to(tx: Transaction) -> None:
    batch, other = described(tx, "a").id, described(tx, "b").id
    for number in (5, 2, 5):
        tx.request_cancel(batch, number)
    tx.request_cancel(other, 9)
    assert tx.cancel_requests(batch) == [2, 5]
    tx.clear_cancel(batch, 5)
    tx.clear_cancel(batch, 5)
    assert (tx.cancel_requests(batch), tx.cancel_requests(other)) == ([2], [9])


def test_an_engine_signs_on_says_what_it_does_and_signs_off(tx: Transaction) -> None:
    with clock.replaced(wall=lambda: 3.0):
        one = tx.sign_on("host", 123, "threads", 4)
    other = tx.sign_on("host", 124, "serial", 1)
    tx.update_engine(one, batch=7, running=2, rate=1.5, stop=1)
    tx.update_engine(99, stop=1)
    first, second = tx.engines()
    assert (first.id, first.host, first.pid, first.backend) == (one, "host", 123, "threads")
    assert (first.workers, first.started, first.batch) == (4, 3.0, 7)
    assert (first.running, first.rate, first.stop) == (2, 1.5, 1)
    assert (second.id, second.stop, second.batch) == (other, 0, None)
    tx.sign_off(one)
    tx.sign_off(one)
    assert [row.id for row in tx.engines()] == [other]


def test_the_number_of_an_engine_is_not_given_to_another(tx: Transaction) -> None:
    old = tx.sign_on("host", 1, "serial", 1)
    tx.sign_off(old)
    assert tx.sign_on("host", 2, "serial", 1) != old


def test_an_engine_lives_from_when_it_says_so_until_it_stops_saying_so(store: Store) -> None:
    assert not store.alive(1)
    store.acquire_liveness(1)
    assert store.alive(1)
    assert not store.alive(2)
    store.release_liveness(1)
    assert not store.alive(1)


def test_an_engine_that_fails_to_take_up_its_work_is_not_there(store: Store) -> None:
    numbers: list[int] = []

    def take_up(tx: Transaction, engine: int) -> int:
        numbers.append(engine)
        if len(numbers) == 1:
            raise ValueError("not today")
        if len(numbers) == 2:
            raise StoreConflict("not yet")
        assert store.alive(engine)
        return engine

    with pytest.raises(ValueError, match="not today"):
        store.sign_on("serial", 1, take_up)
    assert not store.alive(numbers[0])
    living = store.sign_on("serial", 1, take_up)  # at its second try
    with store.snapshot() as view:
        assert [row.id for row in view.engines() if store.alive(row.id)] == [living]
    with pytest.raises(ValueError, match="too late"):
        store.sign_off(living, lambda tx: int("too late"))
    assert not store.alive(living)


# Units of work


def test_a_unit_of_work_that_fails_leaves_no_trace(store: Store) -> None:
    with store.transaction() as tx:
        batch = listed(tx, "before").id
        tx.add_tasks(batch, [task("a"), task("b", after=[0])])
        engine = engine_of(store, tx)
    with store.snapshot() as view:
        before = everything(view, batch)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.record(batch, [outcome(batch, 0)])
        tx.claim(batch, engine, 5)
        tx.add_attempts([AttemptRow(batch, 1, 1, 0, b"e", 1.0, 1.0)])
        tx.keep_printed(batch, [Printed(0, 0, b"out", b"")])
        tx.request_cancel(batch, 1)
        tx.update_engine(engine, stop=1)
        described(tx, "after")
        raise ZeroDivisionError
    with store.snapshot() as view:
        assert everything(view, batch) == before
    with store.transaction() as tx:
        assert tx.record(batch, [outcome(batch, 0)]).count == 1


def everything(view: Any, batch: int) -> list[Any]:
    parts = [view.batches(), view.engines(), list(view.outcomes(batch))]
    of_batch = (view.tasks, view.queue, view.claims, view.attempts, view.cancel_requests)
    return parts + [read(batch) for read in of_batch] + [view.printed(batch, 0)]


def test_a_snapshot_does_not_see_what_is_written_after_its_first_look(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx).id
    with store.snapshot() as view:
        assert list(view.outcomes(batch)) == []
        with store.transaction() as tx:
            tx.record(batch, outcomes(batch, range(5)))
            described(tx, "new")
        assert list(view.outcomes(batch)) == []
        assert view.batch("new") is None
        found = view.batch_by_id(batch)
        assert found is not None
        assert found.completed == 0
    with store.snapshot() as view:
        assert len(list(view.outcomes(batch))) == 5


def test_a_unit_of_work_inside_another_is_refused_or_part_of_it(store: Store) -> None:
    with store.transaction() as tx:
        described(tx, "outer")
        try:
            with store.transaction() as inner:
                described(inner, "inner")
        except Exception:
            return
    with store.snapshot() as view:
        assert [row.name for row in view.batches()] == ["outer", "inner"]


def test_eight_threads_write_at_once_and_nothing_is_lost(store: Store) -> None:
    with store.transaction() as tx:
        batch = described(tx, total=0).id
    errors: list[BaseException] = []

    def write(lane: int) -> None:
        try:
            for step in range(25):
                with store.transaction() as tx:
                    found = tx.batch_by_id(batch)
                    assert found is not None
                    tx.update_batch(batch, total=found.total + 1)
                    tx.record(batch, [outcome(batch, lane * 1000 + step)])
                with store.snapshot() as view:
                    seen = view.batch_by_id(batch)
                    assert seen is not None
                    assert seen.total == seen.completed
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with store.snapshot() as view:
        found = view.batch_by_id(batch)
        assert found is not None
        assert (found.total, found.completed) == (200, 200)
        assert len(list(view.outcomes(batch))) == 200


def test_a_whole_store_has_nothing_wrong_with_it(store: Store) -> None:
    with store.transaction() as tx:
        batch = listed(tx).id
        tx.add_tasks(batch, [task("a"), task("b", after=[0])])
        tx.record(batch, [outcome(batch, 0, FAILED)])
        tx.claim(described(tx, "n").id, engine_of(store, tx), 3)
        tx.add_attempts([AttemptRow(batch, 1, 1, 0, b"e", 1.0, 1.0)])
        tx.request_cancel(batch, 1)
    assert list(store.check()) == []


def test_outcomes_can_be_read_in_the_order_of_their_ends(tx: Transaction) -> None:
    batch = described(tx, "b", 10).id
    times = [(FAILED, 5.0, 4.0), (COMPLETED, 1.0, 1.0), (COMPLETED, 0.0, 9.0), (FAILED, 7.0, 1.0)]
    for number, (status, started, seconds) in enumerate(times):
        row = OutcomeRow.with_checksum(batch, number, status, 0, None, None, started, seconds, 0)
        tx.record(batch, [row])

    def numbers(limit: int, **how: Any) -> list[int]:
        return [row.task for row in tx.by_end(batch, limit, **how)]

    assert numbers(9) == [1, 3, 0, 2]
    assert numbers(2, offset=1, latest_first=True) == [0, 3]
    assert numbers(9, statuses=[FAILED]) == [3, 0]
    assert tx.by_end(99, 9) == []


def test_what_waits_in_a_list_can_be_read_in_part(store: Store, tx: Transaction) -> None:
    batch, engine = listed(tx).id, engine_of(store, tx)
    tx.add_tasks(batch, [task(None, p) for p in (1, 3, 0, 3, 1)])
    tx.claim(batch, engine, 3)
    assert [row.task for row in tx.queue(batch, limit=2)] == [1, 3]
    assert [row.task for row in tx.queue(batch, engine=engine)] == [1, 3, 0]
    assert tx.queue(batch, limit=0) == []
