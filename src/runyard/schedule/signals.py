"""Ctrl-C and SIGTERM during a run: the first finishes running tasks, the second stops at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from runyard import interrupts
from runyard.attempt import forked
from runyard.attempt.runner import StopNow
from runyard.format import count
from runyard.schedule.ending import End
from runyard.schedule.loop import Loop


class Signals:
    """Handles signals from before a run begins until everything is in order."""

    def __init__(self, tell: Callable[[str], None], hurry: Callable[[], None]) -> None:
        self._tell = tell
        self._hurry = hurry  # makes slow operations give up soon
        self.loop: Loop | None = None  # which the first signal stops; None: it ends the run at once
        self._ends = False  # the run is being put in order, undisturbed
        self.first: int | None = None  # what interrupted the run

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Handle signals in this block, if they reach this thread."""
        here = forked.pid

        def hear(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            if forked.pid != here:  # a child that a task forked: it has nothing to finish
                signal.signal(number, before[number] or signal.SIG_DFL)
                signal.raise_signal(number)
                return
            self._hear(number)

        with interrupts.handled(hear) as before:
            try:
                yield
            finally:
                if self.first is not None:
                    interrupts.note_end()

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """Let signals end this block; later ones wait until the run is in order."""
        try:
            yield
        finally:
            self._ends = True

    def _hear(self, number: int) -> None:
        is_first, self.first = self.first is None, self.first or number
        if is_first and self.loop is not None and not self._ends:
            self.loop.stop(End.INTERRUPTED)
            tasks = count(self.loop.running, "running task")
            again = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            self._tell(f"finishing {tasks}; {again} again to stop at once")
            return
        self._hurry()
        if not self._ends:
            self._ends = True
            raise StopNow
