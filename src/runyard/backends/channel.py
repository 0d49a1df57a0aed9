"""Messages between the processes of a run: each is a key, its length, then its bytes.

Each worker has a random key, so that what a task writes into its worker's channel is not taken for
a message. The engine's end never blocks: a `Poller` waits for all its channels at once. The other
ends block.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

HEAD = struct.Struct("<QI")  # key, length
MARK = int.from_bytes(b"\x9drunyard", "little")
"""The key of channels that no task can reach."""

LARGEST = (1 << 32) - 1
"""The most bytes of a message."""

READ_BYTES = 1 << 18


class GarbledMessage(Exception):
    """Bytes on a channel that are not a message."""


def framed(*parts: bytes, key: int = MARK) -> bytes:
    """One message made of these parts, as it is sent."""
    return b"".join((HEAD.pack(key, sum(map(len, parts))), *parts))


def take_messages(
    buffer: bytearray,
    decode: Callable[[memoryview], T],
    key: int = MARK,
    skip: Callable[[int], object] | None = None,
) -> list[T]:
    """The whole messages at the start of the buffer, decoded and removed from it.

    Bytes between two messages are an error or, with `skip`, removed; it is given their number.
    """
    found, at = [], 0
    while len(buffer) - at >= HEAD.size:
        its_key, size = HEAD.unpack_from(buffer, at)
        if its_key != key:
            if skip is None:
                raise GarbledMessage
            begin = buffer.find(key.to_bytes(8, "little"), at)
            if begin < 0:  # all but what may be the start of a key
                begin = len(buffer) - 7
            skip(begin - at)
            at = begin
            continue
        begin = at + HEAD.size
        end = begin + size
        if len(buffer) < end:
            break
        try:
            found.append(decode(memoryview(buffer)[begin:end]))
        except msgspec.MsgspecError as error:
            raise GarbledMessage from error
        at = end
    del buffer[:at]
    return found


def received(end: socket.socket, decode: Callable[[memoryview], T], key: int = MARK) -> Iterator[T]:
    """Messages as they arrive, until the other end closes. Blocks."""
    buffer = bytearray()
    while part := end.recv(READ_BYTES):
        buffer += part
        yield from take_messages(buffer, decode, key)


class Poller:
    """Waits for channels and for `wake`, which any thread may call."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.scratch = memoryview(bytearray(READ_BYTES))  # what all channels read into
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self.selector.register(self._wake_out, selectors.EVENT_READ, None)

    def wait(self, timeout: float) -> list[Any]:
        """What can be read: channels, or what other sockets were registered with.

        Channels that can be written to again are flushed on the way.
        """
        readable = []
        for key, mask in self.selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(OSError):
                    self._wake_out.recv(4096)
                continue
            if mask & selectors.EVENT_WRITE:
                key.data.flush()
            if mask & selectors.EVENT_READ:
                readable.append(key.data)
        return readable

    def wake(self) -> None:
        """Let a `wait` return at once."""
        with contextlib.suppress(OSError):
            self._wake_in.send(b"w")

    def close(self) -> None:
        """Close what is this poller's own; channels are closed by those who made them."""
        self.selector.close()
        self._wake_in.close()
        self._wake_out.close()


class Channel:
    """The engine's end of a socket: queues what the socket does not take at once."""

    owner: Any = None  # what it belongs to

    def __init__(self, poller: Poller, end: socket.socket, key: int = MARK) -> None:
        end.setblocking(False)
        self.skipped = 0  # bytes that were not part of a message
        self.is_broken = False  # the other end no longer reads
        self.at_end = False  # the other end has closed, and all that it sent was read
        self._key = key
        self._poller = poller
        self._socket = end
        self._incoming = bytearray()
        self._outgoing = bytearray()
        poller.selector.register(end, selectors.EVENT_READ, self)

    def send(self, *parts: bytes) -> None:
        """Queue a message, and send what fits."""
        self._outgoing += HEAD.pack(self._key, sum(map(len, parts)))
        for part in parts:
            self._outgoing += part
        self.flush()

    def flush(self) -> None:
        """Send what is queued; wait for room for the rest."""
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.is_broken = True
            self._outgoing.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        with contextlib.suppress(KeyError):
            selector = self._poller.selector
            if selector.get_key(self._socket).events != wanted:
                selector.modify(self._socket, wanted, self)

    def read(self) -> bool:
        """Read once; False where nothing more comes now, which may be the end."""
        if self.at_end:
            return False
        try:
            size = self._socket.recv_into(self._poller.scratch)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        if not size:
            self.ignore()
            return False
        self._incoming += self._poller.scratch[:size]
        return True

    def take(self, decode: Callable[[memoryview], T]) -> list[T]:
        """The whole messages that were read; what lies between them is skipped."""
        return take_messages(self._incoming, decode, self._key, self._skip)

    def ignore(self) -> None:
        """Read nothing more."""
        self.at_end = True
        self._unregister()

    def close(self) -> None:
        """Close the socket."""
        self._unregister()
        self._socket.close()

    def _skip(self, size: int) -> None:
        self.skipped += size

    def _unregister(self) -> None:
        with contextlib.suppress(KeyError, ValueError, RuntimeError):  # gone with its poller
            self._poller.selector.unregister(self._socket)
