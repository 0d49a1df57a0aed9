from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from runyard.errors import EngineError, UsageError
from runyard.events import Event, EventBus, Notice, Progress, TaskEvent, TaskFailed


def notice(text: str = "x") -> Notice:
    return Notice(batch="b", text=text)


def failed(task: int = 1) -> TaskFailed:
    return TaskFailed(batch="b", task=task, error="E", message="", where="")


def progress() -> Progress:
    zeros = dict.fromkeys(("total", "completed", "failed", "cancelled", "running"), 0)
    return Progress(batch="b", retrying=0, workers=0, rate=0, eta=None, elapsed=0, **zeros)


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def bus_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("runyard-bus")]


@pytest.fixture
def bus() -> Iterator[EventBus]:
    bus = EventBus()
    yield bus
    bus.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds a handler until it is set, at the latest at the end of the test."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_subscriber_gets_its_class_and_subclasses_only(bus: EventBus) -> None:
    notices: list[Event] = []
    of_tasks: list[Event] = []
    everything: list[Event] = []
    bus.subscribe(Notice, notices.append)
    bus.subscribe(TaskEvent, of_tasks.append)
    bus.subscribe(Event, everything.append)
    first, second = notice(), failed()
    bus.publish(first)
    bus.publish(second)
    assert bus.flush()
    assert (notices, of_tasks, everything) == ([first], [second], [first, second])


def test_order_is_kept_per_subscriber(bus: EventBus) -> None:
    seen: list[int] = []
    bus.subscribe(TaskFailed, lambda event: seen.append(event.task))
    for task in range(5000):
        bus.publish(failed(task))
    assert bus.flush()
    assert seen == list(range(5000))


def test_many_threads_may_publish_at_once(bus: EventBus) -> None:
    seen: list[str] = []
    bus.subscribe(Notice, lambda event: seen.append(event.text), queue=100_000)

    def publish(name: str) -> None:
        for number in range(1000):
            bus.publish(notice(f"{name} {number}"))

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bus.flush()
    assert len(seen) == 4000
    for name in "abcd":
        assert [t for t in seen if t[0] == name] == [f"{name} {n}" for n in range(1000)]


def test_a_handler_may_publish_however_nested(bus: EventBus) -> None:
    seen: list[int] = []

    def handler(event: TaskFailed) -> None:
        seen.append(event.task)
        if event.task < 500:
            bus.publish(failed(event.task + 1))

    bus.subscribe(TaskFailed, handler, queue=1)
    bus.publish(failed(0))
    assert bus.flush()
    assert seen == list(range(501))


def test_two_handlers_may_publish_to_each_other_with_full_queues(bus: EventBus) -> None:
    def answer(_: Event) -> None:
        for _ in range(10):
            bus.publish(failed())
            bus.publish(notice())

    bus.subscribe(Notice, answer, queue=1)
    bus.subscribe(TaskFailed, answer, queue=1)
    bus.publish(notice())
    assert eventually(lambda: bus.dropped > 100)
    bus.close(0)
    assert eventually(lambda: not bus_threads())


def test_a_handler_may_subscribe_unsubscribe_flush_and_close(bus: EventBus) -> None:
    done = threading.Event()

    def handler(_: Event) -> None:
        bus.subscribe(Notice, lambda event: None).unsubscribe()
        bus.flush()
        bus.close()
        done.set()

    bus.subscribe(Notice, handler)
    bus.publish(notice())
    assert done.wait(60)
    assert eventually(lambda: not bus_threads())


def test_a_signal_handler_may_publish_at_any_point(bus: EventBus) -> None:
    seen: list[Event] = []
    bus.subscribe(Notice, seen.append, queue=1_000_000)
    interruptions = 0

    def interrupt(*_: object) -> None:
        nonlocal interruptions
        interruptions += 1
        bus.publish(notice())

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        published = 0
        while interruptions < 20:
            bus.publish(notice())
            published += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bus.flush(30)
    assert len(seen) == published + interruptions


def test_a_signal_that_publishes_while_a_thread_is_made_starts_no_second_one(
    bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Event] = []
    make = threading.Thread.__init__

    def interrupted(*args: object, **kwargs: object) -> None:
        monkeypatch.undo()
        bus.publish(notice())
        make(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(threading.Thread, "__init__", interrupted)
    bus.subscribe(Notice, seen.append)
    bus.publish(notice())
    bus.publish(notice())
    assert bus.flush()
    assert len(bus_threads()) == 1


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_failing_handler_hurts_nobody(bus: EventBus, error: BaseException) -> None:
    seen: list[Event] = []

    def fail(_: Event) -> None:
        raise error

    failing = bus.subscribe(Notice, fail)
    bus.subscribe(Notice, seen.append)
    for _ in range(3):
        bus.publish(notice())
    assert bus.flush()
    assert len(seen) == 3
    assert failing.errors == 3
    assert failing.last_error is error


def test_a_slow_handler_stalls_nobody_and_its_drops_are_counted(
    bus: EventBus, gate: threading.Event
) -> None:
    started = threading.Event()
    slow_seen: list[str] = []
    fast_seen: list[Event] = []

    def slow(event: Notice) -> None:
        started.set()
        gate.wait()
        slow_seen.append(event.text)

    stuck = bus.subscribe(Notice, slow, queue=5)
    bus.subscribe(Notice, fast_seen.append)
    bus.publish(notice("0"))
    assert started.wait(60)
    for number in range(1, 101):
        bus.publish(notice(str(number)))
    assert eventually(lambda: len(fast_seen) == 101)
    assert stuck.dropped == bus.dropped == 95
    gate.set()
    assert bus.flush()
    assert slow_seen == ["0", "1", "2", "3", "4", "5"]


def test_drops_are_still_counted_after_unsubscribing(bus: EventBus, gate: threading.Event) -> None:
    stuck = bus.subscribe(Notice, lambda event: gate.wait(), queue=1)
    while not bus.dropped:
        bus.publish(notice())
    dropped = bus.dropped
    stuck.unsubscribe()
    stuck.unsubscribe()
    assert bus.dropped == dropped


def test_after_unsubscribing_no_event_arrives(bus: EventBus) -> None:
    seen: list[Event] = []
    subscription = bus.subscribe(Notice, seen.append)
    bus.publish(notice())
    assert bus.flush()
    subscription.unsubscribe()
    bus.publish(notice())
    assert bus.flush()
    assert len(seen) == 1


def test_a_with_block_sees_all_that_was_published_in_it(bus: EventBus) -> None:
    seen: list[Event] = []
    with bus.subscribe(Notice, seen.append) as subscription:
        for _ in range(100):
            bus.publish(notice())
    bus.publish(notice())
    assert len(seen) == 100
    assert subscription.dropped == 0


def test_flush_waits_for_what_handlers_publish(bus: EventBus) -> None:
    seen: list[str] = []
    bus.subscribe(Notice, lambda event: seen.append(event.text))
    bus.subscribe(TaskFailed, lambda event: bus.publish(notice(str(event.task))))
    for task in range(100):
        bus.publish(failed(task))
        assert bus.flush()
        assert seen[-1] == str(task)


def test_flush_and_close_give_up_on_a_stuck_handler(gate: threading.Event) -> None:
    bus = EventBus()
    bus.subscribe(Notice, lambda event: gate.wait())
    bus.publish(notice())
    assert not bus.flush(0.01)
    assert not bus.close(0.01)
    gate.set()
    assert eventually(lambda: not bus_threads())


def test_a_thread_starts_with_the_first_event_and_none_is_left_after_close() -> None:
    bus = EventBus()
    seen: list[Event] = []
    for _ in range(5):
        bus.subscribe(Notice, seen.append)
    gone = bus.subscribe(TaskFailed, seen.append)
    assert not bus_threads()
    bus.publish(notice())
    bus.publish(failed())
    gone.unsubscribe()
    assert bus.close()
    assert not bus_threads()
    assert len(seen) >= 5
    assert bus.close()


def test_a_closed_bus_takes_events_quietly_and_refuses_subscribers() -> None:
    bus = EventBus()
    bus.close()
    bus.publish(notice())
    with pytest.raises(EngineError):
        bus.subscribe(Notice, print)


def test_a_queue_of_nothing_is_refused(bus: EventBus) -> None:
    with pytest.raises(UsageError):
        bus.subscribe(Notice, print, queue=0)


def test_the_history_is_bounded_by_class_and_without_progress() -> None:
    bus = EventBus(history=3)
    for task in range(5):
        bus.publish(failed(task))
        bus.publish(progress())
    bus.publish(notice())
    assert [event.task for event in bus.history(TaskFailed)] == [3, 4]
    assert len(bus.history()) == 3


def test_when_no_thread_can_be_started_the_event_counts_as_dropped(
    bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    seen: list[Event] = []
    bus.subscribe(Notice, seen.append)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        bus.publish(notice())
    assert bus.dropped == 1
    bus.publish(notice())
    assert bus.flush()
    assert len(seen) == 1
