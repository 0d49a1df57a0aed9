"""Claims: taking, checking and releasing them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from runyard import faults
from runyard.spec.outcome import damaged
from runyard.store import schema
from runyard.store.rows import Claim, ClaimRow, first_free, gaps
from runyard.store.writing import SqlWriter

_QUEUE = "q.batch, q.task, q.priority, q.waiting, q.engine, q.token, q.checksum"
_WIDTH = 7  # columns of a queue row, including its checksum
_WITH_TASK = f"""
    SELECT {_QUEUE},
        t.batch, t.task, t.name, t.priority, t.content, t.created, t.checksum,
        EXISTS (SELECT 1 FROM edges e WHERE e.batch = q.batch AND e.before = q.task)
    FROM queue q LEFT JOIN tasks t ON t.batch = q.batch AND t.task = q.task
    WHERE q.batch = :batch
"""
"""Queue rows, each with its task and whether it has followers."""

_BEST_FIRST = "ORDER BY q.priority DESC, q.task"
_READY = f"""
    {_WITH_TASK} AND q.engine IS NULL AND q.waiting = 0
    {_BEST_FIRST} LIMIT :want FOR UPDATE OF q SKIP LOCKED
"""
_NAMED = f"{_WITH_TASK} AND q.task = ANY(:tasks) AND q.waiting = 0 {_BEST_FIRST} FOR UPDATE OF q"
_OWN = f"{_WITH_TASK} AND q.engine = :engine AND q.token = :token {_BEST_FIRST}"
_HOLDERS = "SELECT DISTINCT engine FROM queue WHERE batch = :batch AND engine IS NOT NULL"
_HELD_BY = f"""
    SELECT {_QUEUE} FROM queue q WHERE q.batch = :batch AND q.engine = :engine
    FOR UPDATE SKIP LOCKED
"""
_HELD = f"SELECT {_QUEUE} FROM queue q WHERE q.batch = :batch AND q.token = :token"
_ANY_HELD = "SELECT 1 FROM queue WHERE batch = :batch AND token = :token LIMIT 1"
_TOKENS = "SELECT task, token FROM queue WHERE batch = :batch AND task = ANY(:tasks) FOR UPDATE"
_ENDED = "SELECT count(*) FROM outcomes WHERE batch = :batch AND task = ANY(:tasks)"

_CLAIMED = "batch = :batch AND token = :token"
_DONE = """
    SELECT task FROM outcomes WHERE batch = :batch AND task >= :low AND task < :high ORDER BY task
"""


class SqlClaims(SqlWriter):
    """Claims on ranges of grids and on rows of lists."""

    def __init__(self, alive: Callable[[int], bool], known: dict[int, bool]) -> None:
        super().__init__()
        self._alive = alive
        self._known = known  # whether a batch is a list, from earlier transactions
        self.found: dict[int, bool] = {}  # and from this one

    def claim(
        self,
        batch: int,
        engine: int,
        want: int,
        *,
        token: str | None = None,
        again: bool = False,
    ) -> Claim | None:
        """Take unclaimed tasks, at least one and about `want`; None if there are none.

        If it is unknown whether a claim succeeded, repeat it with the same token and `again`.
        """
        faults.point("claim")
        token = token or secrets.token_hex(8)
        listed = self._is_listed(batch)
        if again:
            found = self._claimed(batch, engine, token, listed=listed)
            if found is not None:
                return found
        take = self._claim_listed if listed else self._claim_range
        return take(batch, engine, max(1, want), token)

    def take(self, batch: int, engine: int, token: str, tasks: Sequence[int]) -> Claim | None:
        """Claim those of these tasks of a list that no other engine holds and that may start.

        Tasks that the engine already holds under this token are part of the claim, too.
        """
        rows = self.run(_NAMED, batch=batch, tasks=list(tasks)).fetchall()
        alive = {holder: self._alive(holder) for holder in {row[4] for row in rows} - {None}}
        mine = [row for row in rows if row[5] == token or not alive.get(row[4])]
        return self._give_claim(batch, engine, token, mine)

    def holds(self, claim: Claim, tasks: Sequence[int] = ()) -> bool:
        """Whether the engine still holds the claim; for a list: these tasks of it."""
        if tasks and claim.id == 0:
            tokens = dict(self.run(_TOKENS, batch=claim.batch, tasks=list(tasks)).fetchall())
            if any(token != claim.token for token in tokens.values()):
                return False
            ended = [task for task in tasks if task not in tokens]  # or were deleted
            found = self.run(_ENDED, batch=claim.batch, tasks=ended) if ended else None
            return found is None or found.fetchone()[0] == len(set(ended))
        if claim.id == 0:
            found = self.run(_ANY_HELD, batch=claim.batch, token=claim.token)
            return found.fetchone() is not None
        row = self._get(schema.claims, claim.id, lock="FOR UPDATE")
        return row is not None and row.token == claim.token

    def release(self, claim: Claim, *, finished: bool) -> None:
        """Give up a claim: finished (every task has an outcome), or free for others."""
        if not finished:
            self._notify(claim.batch)
        if claim.id == 0:
            rows = self.run(_HELD, batch=claim.batch, token=claim.token).fetchall()
            self._give(rows, None, None)
            return
        table = schema.claims
        for held in self._all(table, _CLAIMED, batch=claim.batch, token=claim.token):
            if finished:
                self._drop(table, held.id)
            else:
                self._put(table, msgspec.structs.replace(held, engine=None))

    def _is_listed(self, batch: int) -> bool:
        """Whether the batch is a list; this never changes."""
        found = self._known.get(batch, self.found.get(batch))
        if found is None:
            row = self.run("SELECT plan IS NULL FROM batches WHERE id = :batch", batch=batch)
            kind = row.fetchone()
            if kind is None:
                return False
            found = self.found[batch] = bool(kind[0])
        return found

    def _claimed(self, batch: int, engine: int, token: str, *, listed: bool) -> Claim | None:
        """The claim that this engine already took under this token without receiving the reply."""
        if listed:
            rows = self.run(_OWN, batch=batch, engine=engine, token=token).fetchall()
            return self._listed_claim(batch, token, rows)
        where = f"{_CLAIMED} AND engine = :engine"
        named: dict[str, Any] = {"batch": batch, "token": token, "engine": engine}
        ranges = self._all(schema.claims, where, order="low", **named)
        return self._range_claim(batch, token, ranges, again=True)

    def _claim_range(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        table = schema.claims
        free = first_free(self.claims(batch), self._is_free, want)
        if free:
            numbers = [row.id for row in free]
            lock = "FOR UPDATE SKIP LOCKED"
            locked = self._all(table, "id = ANY(:ids)", order="low", lock=lock, ids=numbers)
            free = [row for row in locked if self._is_free(row)]
            mine = [msgspec.structs.replace(row, engine=engine, token=token) for row in free]
            self._put_many(table, mine)
        if free:
            return self._range_claim(batch, token, free, again=True)
        found = self.batch_by_id(batch)
        if found is None or found.frontier >= found.total:
            return None
        high = min(found.frontier + want, found.total)
        row = self._insert_claim(batch, found.frontier, high, engine, token)
        self._put_batch(msgspec.structs.replace(found, frontier=high))
        return self._range_claim(batch, token, [row])

    def _range_claim(
        self, batch: int, token: str, rows: list[ClaimRow], *, again: bool = False
    ) -> Claim | None:
        left = []
        for row in rows:
            left += gaps(row.low, row.high, self._done_in(batch, row.low, row.high))
        return Claim(rows[0].id, batch, token, left, {}, again) if rows else None

    def _claim_listed(self, batch: int, engine: int, want: int, token: str) -> Claim | None:
        for (other,) in self.run(_HOLDERS, batch=batch).fetchall():
            if not self._alive(other):
                left = self.run(_HELD_BY, batch=batch, engine=other).fetchall()
                self._give(left, None, None)
        rows = self.run(_READY, batch=batch, want=want).fetchall()
        return self._give_claim(batch, engine, token, rows)

    def _give_claim(self, batch: int, engine: int, token: str, rows: Sequence[Any]) -> Claim | None:
        claim = self._listed_claim(batch, token, rows)
        self._give((row[:_WIDTH] for row in rows), engine, token)
        return claim

    def _listed_claim(self, batch: int, token: str, rows: Sequence[Any]) -> Claim | None:
        """A claim on these queue rows, each with its task, in the order in which they run."""
        contents, awaited = {}, set()
        for row in rows:
            number = row[1]
            if row[_WIDTH] is None:
                raise damaged("tasks", f"task {number}")
            contents[number] = schema.tasks.checked([row[_WIDTH:-1]])[0].content
            if row[-1]:
                awaited.add(number)
        if not contents:
            return None
        return Claim(0, batch, token, [], contents, again=True, awaited=frozenset(awaited))

    def _give(self, rows: Iterable[Any], engine: int | None, token: str | None) -> None:
        """Give tasks of a list to an engine, or set them free."""
        table = schema.queue
        given = [
            (row.batch, row.task, row.priority, row.waiting, engine, token)
            for row in table.checked(rows)
        ]
        if given:
            self._put_rows(table, table.with_checksums(given))

    def _is_free(self, claim: ClaimRow) -> bool:
        return claim.engine is None or not self._alive(claim.engine)

    def _insert_claim(
        self, batch: int, low: int, high: int, engine: int | None, token: str
    ) -> ClaimRow:
        columns = {"batch": batch, "low": low, "high": high, "engine": engine, "token": token}
        return self._insert(schema.claims, columns)

    def _done_in(self, batch: int, low: int, high: int) -> list[int]:
        found = [task for (task,) in self.run(_DONE, batch=batch, low=low, high=high)]
        if found and (found[0] < low or found[-1] >= high or found != sorted(set(found))):
            raise damaged("outcomes", f"the order of tasks {low} to {high}")
        return found
