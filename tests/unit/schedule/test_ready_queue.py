from __future__ import annotations

from itertools import takewhile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runyard.attempt.wire import Chunk, Item
from runyard.schedule.ready_queue import HeldClaim, ReadyQueue
from runyard.spec.batch import ListedTask, encode_listed
from runyard.spec.task import Target
from runyard.store.rows import Claim


def held_range(*ranges: tuple[int, int], priority: int = 1) -> HeldClaim:
    return HeldClaim(Claim(1, 1, "token", list(ranges), {}), priority)


def held_tasks(*tasks: int, priority: int = 1, **own: int) -> HeldClaim:
    """A claim of listed tasks; `t3=2` gives task 3 a priority of its own."""
    contents = {
        task: encode_listed(
            ListedTask(
                Target("import", "m:f"), {}, None, (), own.get(f"t{task}", priority), None, None
            )
        )
        for task in tasks
    }
    return HeldClaim(Claim(0, 1, "token", [], contents), priority)


def numbers(taken: tuple[HeldClaim, Chunk] | None) -> list[int]:
    return [] if taken is None else list(taken[1].tasks())


def drained(ready: ReadyQueue, most: int = 1000) -> list[int]:
    found: list[int] = []
    while (piece := ready.take(most)) is not None:
        found += numbers(piece)
    return found


def test_an_empty_queue_gives_nothing() -> None:
    ready = ReadyQueue()
    assert ready.take(10) is None
    assert (ready.size, ready.delayed, ready.next_due) == (0, 0, None)


def test_the_highest_priority_goes_first_and_inside_it_who_came_first() -> None:
    ready, held = ReadyQueue(), held_tasks(*range(6), t1=3, t3=0, t4=3, t5=2)
    for task in range(6):
        ready.add(held, held.item(task, 0))
    assert drained(ready, most=1) == [1, 4, 5, 0, 2, 3]


def test_ranges_are_cut_to_size_and_stay_in_order() -> None:
    ready, held = ReadyQueue(), held_range((0, 10), (20, 25))
    ready.add_range(held, 0, 10)
    ready.add_range(held, 20, 25)
    ready.add_range(held, 30, 30)
    assert ready.size == 15
    assert [numbers(ready.take(4)) for _ in range(4)] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [20, 21, 22, 23],
    ]  # fmt: skip
    assert ready.size == 1


def test_what_travels_together_belongs_to_one_claim() -> None:
    ready, one, other = ReadyQueue(), held_tasks(0, 1), held_tasks(2)
    for task, held in ((0, one), (1, one), (2, other)):
        ready.add(held, held.item(task, 0))
    first, second = ready.take(10), ready.take(10)
    assert (numbers(first), numbers(second)) == ([0, 1], [2])
    assert first is not None
    assert first[0] is one


def test_what_travels_together_has_one_priority() -> None:
    ready, held = ReadyQueue(), held_tasks(*range(5), t1=3, t3=3)
    assert ready.first is None
    for task in range(5):
        ready.add(held, held.item(task, 0))
    assert ready.first == (-3, 1)
    assert numbers(ready.take(10)) == [1, 3]
    assert ready.first == (-1, 0)
    assert numbers(ready.take(10)) == [0, 2, 4]


def test_what_comes_late_or_comes_back_stands_where_its_number_says() -> None:
    ready, held = ReadyQueue(), held_tasks(*range(6), t2=3)
    for task in (5, 2, 4, 0):
        ready.add(held, held.item(task, 0))
    assert numbers(ready.take(1)) == [2]
    assert numbers(ready.take(1)) == [0]
    for task in (0, 3):
        ready.add(held, held.item(task, 0))
    assert drained(ready) == [0, 3, 4, 5]


def test_a_retry_stands_in_line_when_it_is_due() -> None:
    ready, held = ReadyQueue(), held_tasks(0, 1, 2)
    ready.add_delayed(5.0, held, held.item(0, 1))
    ready.add_delayed(3.0, held, held.item(1, 1))
    assert (ready.size, ready.delayed, ready.next_due) == (0, 2, 3.0)
    ready.release_due(4.0)
    assert (ready.size, ready.delayed, ready.next_due) == (1, 1, 5.0)
    ready.add(held, held.item(2, 0))
    ready.release_due(5.0)
    assert drained(ready) == [0, 1, 2]


def test_what_is_removed_is_found_wherever_it_waits() -> None:
    ready, ranges, tasks = ReadyQueue(), held_range((0, 10)), held_tasks(20, 30)
    ready.add_range(ranges, 0, 10)
    ready.add(tasks, tasks.item(20, 0))
    ready.add_delayed(9.0, tasks, tasks.item(30, 2))
    found = ready.remove({0, 4, 5, 9, 20, 30, 99})
    assert sorted((task, held is tasks) for held, task in found) == [
        (0, False), (4, False), (5, False), (9, False), (20, True), (30, True),
    ]  # fmt: skip
    assert ready.size == 6
    assert drained(ready) == [1, 2, 3, 6, 7, 8]
    assert ready.delayed == 0


def test_a_retry_keeps_the_priority_that_its_task_asks_for() -> None:
    ready, held = ReadyQueue(), held_tasks(0, 1, 2, t1=3)
    for task in (0, 2):
        ready.add(held, held.item(task, 0))
    ready.add_delayed(1.0, held, held.item(1, 1))
    ready.release_due(1.0)
    assert drained(ready) == [1, 0, 2]


class QueueAgainstAList(RuleBasedStateMachine):
    """Nothing is lost, nothing comes twice, and the order is exact."""

    @initialize()
    def begin(self) -> None:
        self.ready = ReadyQueue()
        self.listed = [held_tasks(priority=priority) for priority in range(4)]
        self.ranged = held_range()
        self.holders: dict[int, HeldClaim] = {}
        self.now = 0.0
        self.queue: list[tuple[int, int]] = []  # -priority, task
        self.ranges: list[int] = []
        self.later: list[tuple[float, int]] = []  # due, task
        self.taken: list[int] = []

    def new_task(self, held: HeldClaim) -> int:
        task = len(self.holders)
        self.holders[task] = held
        return task

    def arrive(self, task: int) -> None:
        self.queue.append((-self.holders[task].priority, task))

    @rule(priority=st.integers(0, 3), count=st.integers(1, 4))
    def items_arrive(self, priority: int, count: int) -> None:
        for _ in range(count):
            task = self.new_task(self.listed[priority])
            self.ready.add(self.listed[priority], Item(task, 0, None))
            self.arrive(task)

    @rule(count=st.integers(0, 20))
    def a_range_arrives(self, count: int) -> None:
        new = [self.new_task(self.ranged) for _ in range(count)]
        self.ready.add_range(self.ranged, new[0] if new else 0, new[-1] + 1 if new else 0)
        self.ranges += new

    @rule(priority=st.integers(0, 3), wait=st.floats(0, 10))
    def a_retry_is_planned(self, priority: int, wait: float) -> None:
        task = self.new_task(self.listed[priority])
        self.ready.add_delayed(self.now + wait, self.listed[priority], Item(task, 1, None))
        self.later.append((self.now + wait, task))

    @rule(step=st.floats(0, 5))
    def time_passes(self, step: float) -> None:
        self.now += step
        self.ready.release_due(self.now)
        due = sorted(entry for entry in self.later if entry[0] <= self.now)
        self.later = [entry for entry in self.later if entry[0] > self.now]
        for _, task in due:
            self.arrive(task)

    @rule(most=st.integers(1, 8))
    def some_are_taken(self, most: int) -> None:
        piece = self.ready.take(most)
        got = numbers(piece)
        self.queue.sort()
        if self.queue:
            assert piece is not None
            first = self.holders[self.queue[0][1]]
            same = takewhile(lambda entry: self.holders[entry[1]] is first, self.queue[:most])
            expected = [task for _, task in same]
            assert piece[0] is first
            self.queue = self.queue[len(expected) :]
        else:
            # A piece never reaches beyond the range that it comes from.
            expected = self.ranges[: len(got)]
            assert bool(got) == bool(self.ranges)
            assert len(got) <= most
            self.ranges = self.ranges[len(got) :]
        assert got == expected
        self.taken += got

    @rule(data=st.data())
    def some_are_removed(self, data: st.DataObject) -> None:
        tasks = data.draw(st.sets(st.integers(0, max(1, len(self.holders))), max_size=5))
        found = self.ready.remove(tasks)
        waiting = {entry[-1] for entry in (*self.queue, *self.later)} | set(self.ranges)
        assert sorted(task for _, task in found) == sorted(tasks & waiting)
        assert all(held is self.holders[task] for held, task in found)
        self.queue = [entry for entry in self.queue if entry[1] not in tasks]
        self.later = [entry for entry in self.later if entry[1] not in tasks]
        self.ranges = [task for task in self.ranges if task not in tasks]
        self.taken += [task for _, task in found]

    @rule(count=st.integers(1, 5))
    def the_last_ones_come_back(self, count: int) -> None:
        back = sorted(set(self.taken[-count:]))
        self.taken = [task for task in self.taken if task not in back]
        for task in back:
            self.ready.add(self.holders[task], Item(task, 0, None))
            self.arrive(task)

    @invariant()
    def the_counts_are_right(self) -> None:
        assert self.ready.size == len(self.queue) + len(self.ranges)
        assert self.ready.delayed == len(self.later)
        due = min((entry[0] for entry in self.later), default=None)
        assert self.ready.next_due == due

    def teardown(self) -> None:
        if hasattr(self, "ready"):
            self.ready.release_due(float("inf"))
            everything = [*self.taken, *drained(self.ready)]
            assert sorted(everything) == list(range(len(self.holders)))


TestQueueAgainstAList = QueueAgainstAList.TestCase
TestQueueAgainstAList.settings = settings(max_examples=60, stateful_step_count=40)
