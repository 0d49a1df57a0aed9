"""Channels never block the engine, lose nothing, and notice when the other end is gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.backends.channel import (
    Channel,
    GarbledMessage,
    Poller,
    framed,
    received,
    take_messages,
)


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


@pytest.fixture
def ends(poller: Poller) -> Iterator[tuple[Channel, socket.socket]]:
    mine, theirs = socket.socketpair()
    channel = Channel(poller, mine)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_messages_larger_than_the_socket_takes_arrive_whole(
    poller: Poller, ends: tuple[Channel, socket.socket]
) -> None:
    channel, theirs = ends
    sent = [b"a" * 5_000_000, b"", b"c"]
    for message in sent:
        channel.send(message[:3], message[3:])  # does not block, although nothing reads yet
    found: list[bytes] = []

    def read() -> None:
        for message in received(theirs, bytes):
            found.append(message)
            if len(found) == len(sent):
                return

    thread = threading.Thread(target=read)
    thread.start()
    while thread.is_alive():
        poller.wait(0.05)
    assert found == sent


def test_what_arrives_in_pieces_is_taken_when_it_is_whole(
    poller: Poller, ends: tuple[Channel, socket.socket]
) -> None:
    channel, theirs = ends
    data = framed(b"one ", b"message") + framed(b"another")
    theirs.sendall(data[:-3])
    assert poller.wait(10) == [channel]
    assert channel.read()
    assert channel.take(bytes) == [b"one message"]
    assert not channel.read()
    theirs.sendall(data[-3:])
    assert channel.read()
    assert channel.take(bytes) == [b"another"]


def test_a_closed_other_end_is_noticed(poller: Poller, ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.close()
    assert poller.wait(10) == [channel]
    assert not channel.read()
    assert channel.at_end
    channel.send(b"to a closed socket")
    assert channel.is_broken
    assert poller.wait(0) == []  # a closed channel does not wake the engine again


def test_a_waiting_poller_can_be_woken(poller: Poller) -> None:
    thread = threading.Timer(0.05, poller.wake)
    thread.start()
    assert poller.wait(30) == []
    thread.join()


KEY = 0x1122334455667788


@given(st.lists(st.binary(max_size=40)), st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_what_others_write_between_messages_is_skipped(
    sent: list[bytes], garbage: list[bytes], step: int
) -> None:
    pieces = [framed(message, key=KEY) for message in sent]
    for at, foreign in enumerate(garbage):
        pieces.insert(2 * at, foreign)
    data, buffer, found, skipped = b"".join(pieces) + framed(key=KEY), bytearray(), [], []
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        found += take_messages(buffer, bytes, KEY, skipped.append)
    assert found == [*sent, b""]
    assert sum(skipped) == sum(map(len, garbage))
    assert not buffer


def test_what_others_write_into_a_message_is_noticed() -> None:
    encoded = msgspec.msgpack.encode([1, "a", [b"value"]])
    message = framed(encoded[:4], b"garbage", encoded[4:], key=KEY)
    with pytest.raises(GarbledMessage):
        take_messages(bytearray(message), msgspec.msgpack.decode, KEY, lambda size: None)
    with pytest.raises(GarbledMessage):
        take_messages(bytearray(b"garbage" + message), bytes, KEY)
