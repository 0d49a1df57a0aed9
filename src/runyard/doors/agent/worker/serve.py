"""The worker process of a queue: `start` launches it, and it ends when the queue is done."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runyard.modes import make_folder

LINGER = 2.0
"""Seconds that the worker waits for more tasks before it ends."""


def main(order: dict[str, Any]) -> int:
    """Fork the worker, wait until it is ready, and say so on stdout."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        with os.fdopen(read) as answer:
            told = answer.read()
        sys.stdout.write(told or json.dumps({"error": "it ended at once"}))
        return 0
    os.close(read)
    os.setsid()
    _redirect(Path(order["log"]))

    def tell(**what: Any) -> None:
        nonlocal write
        if write >= 0:
            os.write(write, json.dumps(what).encode())
            os.close(write)
            write = -1

    try:
        serve(order["queue"], order["lanes"], order["backend"], tell)
    except BaseException as error:
        from runyard.events import Redactor

        redact = Redactor().redact_text
        print(redact(traceback.format_exc()), flush=True)  # noqa: T201
        tell(error=redact(f"{type(error).__name__}: {error}"))
        return 1
    return 0


def serve(queue: str, lanes: int, backend: str, tell: Callable[..., None]) -> None:
    """Run the queue's tasks until none are left or a stop is requested."""
    from runyard.backends import open_backend

    place = open_backend(backend, lanes)  # its processes start while the rest is imported

    from runyard.events import BatchStarted, Redactor
    from runyard.schedule.ending import End
    from runyard.yard import Yard

    gc.set_threshold(100_000, 50, 50)  # claims are thousands of small objects without cycles
    with Yard() as yard:
        redact = Redactor().redact_text
        yard.bus.subscribe(BatchStarted, lambda _: tell(pid=os.getpid()))
        lock = yard.folder / "run" / f"serving-{queue}.lock"
        with _exclusive(lock, lambda: _is_served(yard, queue)) as is_only:
            if not is_only:
                place.close()
                tell(pid=None)
                return
            while True:
                end = _run(yard, queue, place)
                print(redact(f"the engine ended: {end.value}"), flush=True)  # noqa: T201
                if end is not End.FINISHED or not yard.recorded(queue).row.pending:
                    return
                place = place.again()


def _run(yard: Any, queue: str, place: Any) -> Any:
    from runyard import clock
    from runyard.errors import ClaimLost
    from runyard.events import Progress
    from runyard.reports.logged import logged
    from runyard.schedule.ending import End
    from runyard.schedule.engine import Engine
    from runyard.schedule.registration import Start
    from runyard.schedule.submissions import Submissions

    recorded = yard.recorded(queue)
    submissions = Submissions(recorded.row.next_task)
    idle_since: float | None = None

    def watch(progress: Progress) -> None:
        nonlocal idle_since
        done = progress.completed + progress.failed + progress.cancelled
        if done < progress.total:
            idle_since = None
        elif idle_since is None:
            idle_since = clock.monotonic()
        elif clock.monotonic() - idle_since > LINGER:
            submissions.close()

    engine = Engine(
        yard.store, Start(recorded), place, yard.folder, yard.bus.publish, submissions=submissions
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.callback(place.close)
        stack.enter_context(yard.bus.subscribe(Progress, watch))
        stack.enter_context(logged(yard.bus))
        try:
            return engine.run()
        except ClaimLost:  # this process was paused, and others have taken over
            return End.FINISHED


def _is_served(yard: Any, queue: str) -> bool:
    from runyard.doors.agent.queue.ledger import Ledger

    ledger = Ledger(yard, queue)
    with yard.store.snapshot() as view:
        return bool(ledger.own(ledger.engines(view, ledger.row(view))))


@contextlib.contextmanager
def _exclusive(path: Path, is_served: Callable[[], bool]) -> Iterator[bool]:
    """Whether this is the only worker on this machine that serves the queue.

    A worker that has the lock and serves nothing is about to end: wait for it.
    """
    make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _locked(descriptor, is_served)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, is_served: Callable[[], bool]) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if is_served():
                return False
        time.sleep(0.05)


def _redirect(log: Path) -> None:
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, source in ((0, nothing), (1, target), (2, target)):
        os.dup2(source, place)
    os.close(target)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
