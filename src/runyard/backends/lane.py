"""The engine's end of one worker process, and how its reports are told apart."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import msgspec

from runyard.attempt.slots import Note
from runyard.attempt.wire import Report
from runyard.backends.worker import HEAD, MARK
from runyard.errors import BackendError


class Lane:
    """The engine's end of one worker."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.channel: socket.socket | None = None
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.sent: list[int] = []  # chunks under way, oldest first
        self.tasks = 0  # since the worker started
        self.asked: float | None = None  # when the warden was asked for what it has not done
        self.cut_off: float | None = None  # when the worker was seen to have closed its channel
        self.renewing = False  # asked to end, since it has done its share
        self.ending: tuple[Note, str, str] | None = None  # asked to end, and why

    @property
    def is_busy(self) -> bool:
        """Whether its worker has something to do, or is being ended."""
        return bool(self.sent or self.ending or self.renewing)

    def frames(self, decode: Callable[[memoryview], Report]) -> Iterator[Report]:
        """Whole reports that have come in; raises BackendError at what is none."""
        at, buffer = 0, self.incoming
        while len(buffer) - at >= HEAD.size:
            mark, size = HEAD.unpack_from(buffer, at)
            if mark != MARK:
                raise self._garbled()
            end = at + HEAD.size + size
            if len(buffer) < end:
                break
            try:
                report = decode(memoryview(buffer)[at + HEAD.size : end])
            except msgspec.MsgspecError:
                raise self._garbled() from None
            yield report
            at = end
        del buffer[:at]

    def _garbled(self) -> BackendError:
        return BackendError(
            f"worker {self.number} sent what is no report",
            hint="one of its tasks has written to a file descriptor that is not its own",
        )
