"""What travels between the engine, the bridge and the stations.

Each frame is a length, a head (kind, lane, number) and its content. For most kinds the bridge only
looks at the head.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from runyard.attempt.wire import Loss, LossCause, Report
from runyard.backends.ray.cluster import Need

LENGTH = struct.Struct("<I")
HEAD = struct.Struct("<cIQ")  # kind, lane, number

# From the engine
OPEN = b"O"  # a batch begins: Opening
CHUNK = b"C"  # for a station; number: which life of the lane it is meant for
RENEW = b"W"  # for a station: a fresh worker before the next chunk
STOP = b"S"  # number: the last chunk of which nothing more may be started
END = b"E"  # for a station: Ending
REST = b"R"  # the batch is over

# From the bridge
HELLO = b"H"  # Ray is there; number: how many stations it could hold by its cores
UP = b"U"  # a lane is ready; number: its life
DOWN = b"D"  # a lane's station is gone: Parting
NEWS = b"N"  # from a station: Tidings
NOTICE = b"T"  # a text for the user
FAILED = b"F"  # it can't go on: Trouble
PULSE = b"P"  # the bridge lives; number: how many stations there are or should be soon
RESTED = b"Z"  # nothing of the batch is left

LIFE_BITS = 32
"""A lane's life is its station's number × 2³² + the workers that this station has lost."""


class Frame(NamedTuple):
    """One message."""

    kind: bytes
    lane: int = 0
    number: int = 0
    content: bytes = b""

    def encode(self) -> bytes:
        """The message as it is sent."""
        head = HEAD.pack(self.kind, self.lane, self.number)
        return LENGTH.pack(len(head) + len(self.content)) + head + self.content


def take_frames(buffer: bytearray) -> Iterator[Frame]:
    """Whole messages at the start of the buffer, taken out of it."""
    while len(buffer) >= LENGTH.size:
        end = LENGTH.size + LENGTH.unpack_from(buffer)[0]
        if len(buffer) < end:
            return
        head, content = LENGTH.size, LENGTH.size + HEAD.size
        kind, lane, number = HEAD.unpack_from(buffer, head)
        frame = Frame(kind, lane, number, bytes(memoryview(buffer)[content:end]))
        del buffer[:end]
        yield frame


class Opening(msgspec.Struct, frozen=True):
    """A batch begins."""

    job: bytes
    need: Need  # of one station
    workers: int  # at most so many stations
    asked: bool  # whether somebody said how many
    runtime_env: dict[str, Any]
    excludes: list[str]  # what of the project does not travel
    surroundings: Surroundings


class Surroundings(msgspec.Struct, frozen=True):
    """How a station finds out what it shares with the engine's machine."""

    project: str  # the folder that travels where it is not to be seen
    mark: int | None  # how to know it; None: Ray brings another one
    token_file: str  # in the yard, with this text in it
    token: str
    version: str  # of Runyard
    python: str
    environment: dict[str, str]  # to take over; all, where the engine started the node itself
    fresh: bool  # code may have changed: workers that are warm have to go


class Welcome(msgspec.Struct, frozen=True):
    """A station's answer to a batch."""

    needs_code: bool = False  # the project's folder is not to be seen from there
    error: str = ""
    hint: str = ""


class Ending(msgspec.Struct, frozen=True):
    """End this attempt, if it is still what runs."""

    task: int
    attempt: int
    chunk: int
    cause: LossCause
    reason: str


class Parting(msgspec.Struct, frozen=True):
    """A station is gone."""

    alone: bool  # its process died; False: its node went with it
    reason: str


class Trouble(msgspec.Struct, frozen=True):
    """Why it can't go on."""

    message: str
    hint: str | None = None


class Running(NamedTuple):
    """What a lane is running, as its station saw it."""

    task: int
    attempt: int
    chunk: int
    seconds: float


class Files(msgspec.Struct, frozen=True, tag=True):
    """Folders of tasks that ended where the yard is not to be seen: a tar archive."""

    archive: bytes


class Word(msgspec.Struct, frozen=True, tag=True):
    """Something that the user should know."""

    text: str


class Reported(msgspec.Struct, frozen=True, tag=True):
    """A report of the lane's worker, as the worker encoded it."""

    report: Report


class Lost(msgspec.Struct, frozen=True, tag=True):
    """The lane's worker died or was ended."""

    loss: Loss


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The station can't go on."""

    trouble: Trouble


Item = Reported | Lost | Files | Word | Failed


class Tidings(msgspec.Struct, frozen=True):
    """What a station has to say."""

    life: int  # which batch and station it is from
    items: list[Item]
    running: Running
    stopped: int  # the last STOP that it has seen
    memory: int | None  # bytes that its task uses, where there is a limit


encode = msgspec.msgpack.Encoder().encode
decode_opening = msgspec.msgpack.Decoder(Opening).decode
decode_tidings = msgspec.msgpack.Decoder(Tidings).decode
decode_parting = msgspec.msgpack.Decoder(Parting).decode
decode_trouble = msgspec.msgpack.Decoder(Trouble).decode
decode_ending = msgspec.msgpack.Decoder(Ending).decode
decode_welcome = msgspec.msgpack.Decoder(Welcome).decode
