"""A thread-safe event bus whose handlers can disturb neither the run nor each other.

    publish ──▶ history (bounded)
       └──────▶ a bounded queue per subscription ──▶ its own thread ──▶ handler

`publish` only puts events into queues, so it never waits for a handler; handlers may publish too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from runyard import clock
from runyard.errors import EngineError, UsageError
from runyard.events.types import Event

E = TypeVar("E", bound=Event)

_PATIENCE = 5.0


class Subscription:
    """A handler's subscription; as a context manager, it flushes and unsubscribes on exit.

    `dropped` counts events lost because the queue was full, `errors` counts handler calls that
    raised, and `last_error` is the latest exception.
    """

    def __init__(
        self, bus: EventBus, event_type: type[Event], handler: Callable[[Any], object], limit: int
    ) -> None:
        self.event_type = event_type
        self.dropped = 0
        self.errors = 0
        self.last_error: BaseException | None = None
        self._bus = bus
        self._handler = handler
        self._limit = limit
        # Both the lock and `SimpleQueue.put` are reentrant: a signal handler may publish anywhere.
        self._lock = threading.RLock()
        self._queue: SimpleQueue[Event | threading.Event | None] = SimpleQueue()
        self._accepted = 0
        self._taken = 0
        self._stopped = False
        name = f"runyard-bus-{event_type.__name__}"
        self._thread = threading.Thread(target=self._deliver, name=name, daemon=True)
        self._unstarted = [self._thread]

    def unsubscribe(self) -> None:
        """Accept no more events and discard queued ones; a handler call in progress finishes."""
        with self._lock:
            self._stopped = True
            self._queue.put(None)
        self._bus._forget(self)

    def flush(self, timeout: float = _PATIENCE) -> bool:
        """Wait until the handler has processed all events queued so far; False on timeout."""
        with self._lock:
            if self._stopped or self._unstarted or self._thread is threading.current_thread():
                return True
            passed = threading.Event()
            self._queue.put(passed)
        return passed.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self.unsubscribe()

    def _offer(self, event: Event) -> None:
        with self._lock:
            if self._stopped:
                return
            if self._accepted - self._taken >= self._limit or not self._started():
                self.dropped += 1
                return
            self._accepted += 1
            self._queue.put(event)

    def _started(self) -> bool:
        try:
            thread = self._unstarted.pop()  # atomic: a signal handler can't start it again
        except IndexError:
            return True
        try:
            thread.start()
        except RuntimeError:  # out of threads, or the interpreter is shutting down
            self._unstarted.append(thread)
            return False
        return True

    def _deliver(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            self._taken += 1
            if self._stopped:
                continue
            try:
                self._handler(item)
            except BaseException as error:  # even SystemExit must not end this thread
                self.errors += 1
                self.last_error = error


class EventBus:
    """Delivers each published event to the handlers subscribed to its class or a base class.

    Order is kept per subscriber. A slow handler loses events that don't fit into its queue, and
    they are counted; errors of a handler are counted, and it is called for the next event.
    """

    def __init__(self, *, history: int = 1000) -> None:
        self._history: deque[Event] = deque(maxlen=history)
        self._lock = threading.RLock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._leaving: list[threading.Thread] = []
        self._dropped_by_gone = 0
        self._closed = False

    @property
    def dropped(self) -> int:
        """The number of events lost to full queues, ended subscriptions included."""
        with self._lock:
            return self._dropped_by_gone + sum(each.dropped for each in self._subscriptions)

    def subscribe(
        self, event_type: type[E], handler: Callable[[E], object], *, queue: int = 10_000
    ) -> Subscription:
        """Call `handler` in its own thread for each event of this class or a subclass."""
        if queue < 1:
            raise UsageError(f"a subscription needs a queue of at least 1 event, not {queue}")
        subscription = Subscription(self, event_type, handler, queue)
        with self._lock:
            if self._closed:
                raise EngineError("the event bus is closed")
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def publish(self, event: Event) -> None:
        """Queue the event for its subscribers without waiting, from any thread or handler."""
        if not event.live_only:
            self._history.append(event)
        for subscription in self._subscriptions:
            if isinstance(event, subscription.event_type):
                subscription._offer(event)

    def history(self, event_type: type[E] = Event) -> list[E]:  # type: ignore[assignment]
        """Return the latest events of this class, oldest first."""
        # `deque.copy` is a single C call, so `publish` needs no lock.
        return [event for event in self._history.copy() if isinstance(event, event_type)]

    def flush(self, timeout: float = _PATIENCE) -> bool:
        """Wait until all events are handled, including those handlers publish meanwhile."""
        deadline = clock.monotonic() + timeout
        before = None
        while before != (now := [(each, each._accepted) for each in self._subscriptions]):
            before = now
            for each, _ in now:
                if not each.flush(max(0.0, deadline - clock.monotonic())):
                    return False
        return True

    def close(self, timeout: float = _PATIENCE) -> bool:
        """Let the handlers finish, then end their threads; False if one does not end in time."""
        deadline = clock.monotonic() + timeout
        finished = self.flush(timeout)
        with self._lock:
            self._closed = True
            for each in self._subscriptions:
                each.unsubscribe()
            leaving = [t for t in self._leaving if t is not threading.current_thread()]
        for thread in leaving:
            thread.join(max(0.0, deadline - clock.monotonic()))
        return finished and not any(thread.is_alive() for thread in leaving)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self, subscription: Subscription) -> None:
        with self._lock:
            if subscription not in self._subscriptions:
                return
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)
            self._dropped_by_gone += subscription.dropped
            threads = [*self._leaving, subscription._thread]
            self._leaving = [thread for thread in threads if thread.is_alive()]
