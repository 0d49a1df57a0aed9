"""Each database against a model in memory: the same operations on both, all that shows compared.

Numbers of batches, claims and engines are each store's own, so operations name them by their place
in a list, and what is compared leaves them out.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from store_kit import described, listed, outcome, store_of, task

from runyard import clock
from runyard.spec.outcome import Printed
from runyard.spec.status import CANCELLED, COMPLETED, FAILED
from runyard.store import pieces
from runyard.store.base import Store
from runyard.store.rows import AttemptRow, Claim, Recording

statuses = st.sampled_from([COMPLETED, COMPLETED, FAILED, CANCELLED])
picks = st.integers(0, 50)


class Taken(NamedTuple):
    """A claim on both stores."""

    batch: int
    listed: bool
    claims: tuple[Claim, Claim]
    tasks: list[int]


class StoresAgree(RuleBasedStateMachine):
    """Drives both stores; ids are looked up by place."""

    kind = "sqlite"

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.now = 1000.0
        self.stack.enter_context(clock.replaced(wall=lambda: self.now))
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(pieces, "IN_ROW", len("value 3"))  # so that some values are in pieces
        patch.setattr(pieces, "PIECE", 4)
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.stores: list[Store] = [store_of(kind, folder) for kind in (self.kind, "model")]
        for store in self.stores:
            self.stack.callback(store.close)
        self.batches: list[tuple[str, bool, list[int]]] = []  # name, listed, number on each store
        self.engines: list[list[int]] = []
        self.living: set[int] = set()
        self.taken: list[Taken] = []
        self.attempts = 0

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            for place in self.living:
                for store, number in zip(self.stores, self.engines[place], strict=True):
                    store.release_liveness(number)
            self.stack.close()

    def both(self, act: Any) -> list[Any]:
        """What an operation gives on each store; equal errors count as equal answers."""
        self.now += 1
        answers = []
        for side, store in enumerate(self.stores):
            with store.transaction() as tx:
                answers.append(act(side, tx))
        return answers

    def agreed(self, act: Any) -> Any:
        one, other = self.both(act)
        assert one == other
        return one

    def pick(self, things: list[Any], at: int) -> Any:
        return things[at % len(things)]

    # Batches

    @precondition(lambda self: len(self.batches) < 5)
    @rule(total=st.integers(1, 12))
    def a_numbered_batch_is_created(self, total: int) -> None:
        name = f"batch {len(self.batches)} {self.now}"
        ids = self.both(lambda _, tx: described(tx, name, total, started=1.0).id)
        self.batches.append((name, False, ids))

    @precondition(lambda self: len(self.batches) < 5)
    @rule()
    def a_listed_batch_is_created(self) -> None:
        name = f"batch {len(self.batches)} {self.now}"
        ids = self.both(lambda _, tx: listed(tx, name, started=1.0).id)
        self.batches.append((name, True, ids))

    @precondition(lambda self: self.batches)
    @rule(at=picks, more=st.integers(0, 4), data=st.data())
    def a_batch_grows(self, at: int, more: int, data: st.DataObject) -> None:
        _, is_listed, ids = self.pick(self.batches, at)
        with self.stores[1].snapshot() as view:
            found = view.batch_by_id(ids[1])
        assert found is not None
        if not is_listed:
            grown = found.total + more
            self.both(lambda side, tx: tx.update_batch(ids[side], total=grown, finished=None))
            return
        added = []
        for number in range(found.total, found.total + more):
            before = st.sets(st.integers(0, number - 1), max_size=3) if number else st.just(set())
            after = sorted(data.draw(before))
            added.append(task(f"t{number}", data.draw(st.integers(0, 3)), after))
        self.both(lambda side, tx: tx.add_tasks(ids[side], added))

    @precondition(lambda self: len(self.batches) > 2)
    @rule(at=picks)
    def a_batch_is_forgotten(self, at: int) -> None:
        entry = self.pick(self.batches, at)
        self.both(lambda side, tx: tx.delete_batch(entry[2][side]))
        self.batches.remove(entry)
        self.taken = [each for each in self.taken if each.batch != entry[2][0]]

    # Engines

    @precondition(lambda self: len(self.living) < 3)
    @rule()
    def an_engine_signs_on(self) -> None:
        numbers = self.both(lambda _, tx: tx.sign_on("host", 1, "serial", 1))
        for store, number in zip(self.stores, numbers, strict=True):
            store.acquire_liveness(number)
        self.living.add(len(self.engines))
        self.engines.append(numbers)

    @precondition(lambda self: self.living)
    @rule(at=picks)
    def an_engine_dies(self, at: int) -> None:
        place = self.pick(sorted(self.living), at)
        for store, number in zip(self.stores, self.engines[place], strict=True):
            store.release_liveness(number)
        self.living.discard(place)

    @precondition(lambda self: self.living)
    @rule(at=picks, running=st.integers(0, 4), stop=st.integers(0, 1))
    def an_engine_says_what_it_does(self, at: int, running: int, stop: int) -> None:
        ids = self.engines[self.pick(sorted(self.living), at)]
        self.both(lambda side, tx: tx.update_engine(ids[side], running=running, stop=stop))

    # Work

    @precondition(lambda self: self.batches and self.living)
    @rule(at=picks, who=picks, want=st.integers(0, 6))
    def tasks_are_claimed(self, at: int, who: int, want: int) -> None:
        _, is_listed, ids = self.pick(self.batches, at)
        numbers = self.engines[self.pick(sorted(self.living), who)]
        one, other = self.both(lambda side, tx: tx.claim(ids[side], numbers[side], want))
        assert (one is None) == (other is None)
        if one is None:
            return
        assert (one.ranges, one.tasks) == (other.ranges, other.tasks)
        assert one.awaited == other.awaited
        assert list(one.tasks) == list(other.tasks)
        tasks = [n for low, high in one.ranges for n in range(low, high)] + list(one.tasks)
        self.taken.append(Taken(ids[0], is_listed, (one, other), tasks))

    @precondition(lambda self: self.taken)
    @rule(at=picks, count=st.integers(0, 5), status=statuses)
    def outcomes_are_recorded(self, at: int, count: int, status: int) -> None:
        taken = self.pick(self.taken, at)
        if not self.agreed(lambda side, tx: tx.holds(taken.claims[side])):
            return
        numbers = taken.tasks[:count]

        def act(side: int, tx: Any) -> Recording:
            batch = taken.claims[side].batch
            rows = [outcome(batch, n, status, started=self.now) for n in numbers]
            return tx.record(batch, rows)

        self.agreed(act)

    @precondition(lambda self: self.taken)
    @rule(at=picks, finished=st.booleans())
    def a_claim_is_given_up(self, at: int, finished: bool) -> None:
        taken = self.pick(self.taken, at)
        with self.stores[1].snapshot() as view:
            done = all(view.outcome(taken.claims[1].batch, n) is not None for n in taken.tasks)
        self.both(lambda side, tx: tx.release(taken.claims[side], finished=finished and done))

    @precondition(lambda self: self.batches)
    @rule(at=picks, numbers=st.sets(st.integers(0, 12), max_size=4))
    def outcomes_are_taken_away(self, at: int, numbers: set[int]) -> None:
        _, _, ids = self.pick(self.batches, at)
        with self.stores[1].snapshot() as view:
            known = [n for n in numbers if view.outcome(ids[1], n) is not None]
        self.both(lambda side, tx: tx.requeue(ids[side], known))

    @precondition(lambda self: self.batches)
    @rule(at=picks, numbers=st.lists(st.integers(0, 12), max_size=4), status=statuses)
    def outcomes_come_from_elsewhere(self, at: int, numbers: list[int], status: int) -> None:
        """A cancel without an engine, and outcomes that are there already."""
        _, _, ids = self.pick(self.batches, at)
        with self.stores[1].snapshot() as view:
            found = view.batch_by_id(ids[1])
        assert found is not None
        mine = [n for n in numbers if n < found.total]
        self.agreed(
            lambda side, tx: tx.record(ids[side], [outcome(ids[side], n, status) for n in mine])
        )

    @precondition(lambda self: self.batches and self.living)
    @rule(at=picks, who=picks, numbers=st.sets(st.integers(0, 12), max_size=4))
    def listed_tasks_are_taken(self, at: int, who: int, numbers: set[int]) -> None:
        _, is_listed, ids = self.pick(self.batches, at)
        engines = self.engines[self.pick(sorted(self.living), who)]
        token = f"token {self.now}"
        one, other = self.both(
            lambda side, tx: tx.take(ids[side], engines[side], token, sorted(numbers))
        )
        assert (one is None) == (other is None)
        if one is not None:
            assert is_listed
            assert list(one.tasks.items()) == list(other.tasks.items())
            assert one.awaited == other.awaited
            self.taken.append(Taken(ids[0], is_listed, (one, other), list(one.tasks)))

    @precondition(lambda self: self.batches)
    @rule(at=picks)
    def what_is_doomed_is_cancelled(self, at: int) -> None:
        _, _, ids = self.pick(self.batches, at)
        self.agreed(lambda side, tx: tx.cancel_doomed(ids[side]))

    @precondition(lambda self: self.batches)
    @rule(at=picks, number=st.integers(0, 12), crash=st.integers(0, 1))
    def an_attempt_fails(self, at: int, number: int, crash: int) -> None:
        _, _, ids = self.pick(self.batches, at)
        self.attempts += 1
        self.both(
            lambda side, tx: tx.add_attempts(
                [AttemptRow(ids[side], number, self.attempts, crash, b"e", self.now, 0.5)]
            )
        )

    @precondition(lambda self: self.batches)
    @rule(at=picks, number=st.integers(0, 12), attempt=st.integers(0, 1), text=st.binary())
    def an_attempt_prints(self, at: int, number: int, attempt: int, text: bytes) -> None:
        _, _, ids = self.pick(self.batches, at)
        rows = [Printed(number, attempt, text, None)]
        self.both(lambda side, tx: tx.keep_printed(ids[side], rows))

    @precondition(lambda self: self.batches)
    @rule(at=picks, number=st.integers(0, 12), wanted=st.booleans())
    def somebody_cancels_or_thinks_better_of_it(self, at: int, number: int, wanted: bool) -> None:
        _, _, ids = self.pick(self.batches, at)
        self.both(
            lambda side, tx: (tx.request_cancel if wanted else tx.clear_cancel)(ids[side], number)
        )

    @precondition(lambda self: self.taken)
    @rule(at=picks, count=st.integers(1, 4))
    def a_unit_of_work_fails(self, at: int, count: int) -> None:
        taken = self.pick(self.taken, at)

        def act(side: int, tx: Any) -> None:
            claim = taken.claims[side]
            rows = [outcome(claim.batch, n) for n in taken.tasks[:count]]
            tx.record(claim.batch, rows)
            tx.release(claim, finished=False)
            raise ZeroDivisionError

        for side, store in enumerate(self.stores):
            with pytest.raises(ZeroDivisionError), store.transaction() as tx:
                act(side, tx)

    # What can be seen

    @invariant()
    def both_look_the_same(self) -> None:
        if hasattr(self, "stores"):
            one, other = (self.seen(side) for side in (0, 1))
            assert one == other

    def seen(self, side: int) -> list[Any]:
        engines = {numbers[side]: place for place, numbers in enumerate(self.engines)}
        found: list[Any] = []
        with self.stores[side].transaction() as tx:
            for name, _, ids in self.batches:
                batch = ids[side]
                row = tx.batch(name)
                assert row == tx.batch_by_id(batch)
                found.append(_columns(row, "id"))
                found.append([r[:-1] for r in tx.outcomes(batch)])
                found.append([r[:-1] for r in tx.outcomes(batch, statuses=[FAILED], limit=2)])
                found.append([_columns(r, "batch") for r in tx.attempts(batch)])
                found.append([_columns(r, "batch") for r in tx.tasks(batch)])
                found.append([tx.printed(batch, n) for n in range(13)])
                found.append(
                    [
                        (r.task, r.priority, r.waiting, engines.get(r.engine))
                        for r in tx.queue(batch)
                    ]
                )
                found.append(
                    sorted((r.low, r.high, engines.get(r.engine, -1)) for r in tx.claims(batch))
                )
                found.append(tx.cancel_requests(batch))
                found.append(tx.pending(batch))
                found.append([(r.before, r.task) for r in tx.edges(batch)])
                found.append([round(number, 6) for number in tx.timings(batch)])
            found.append([engines[r.id] for r in tx.engines()])
            found.append([_columns(r, "id") for r in tx.engines()])
            found.append(len(tx.batches()))
            found.append([tx.holds(taken.claims[side]) for taken in self.taken])
        return found


def _columns(row: Any, without: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__ if name != without}


class PostgresAgrees(StoresAgree):
    """The same with PostgreSQL."""

    kind = "postgres"


TestSqliteAgrees = StoresAgree.TestCase
TestSqliteAgrees.settings = settings(max_examples=25, stateful_step_count=30)
TestPostgresAgrees = PostgresAgrees.TestCase
TestPostgresAgrees.settings = settings(max_examples=15, stateful_step_count=30)
