"""What travels between the engine, the driver and the worker actors.

A message of the socket is a head (kind, lane, number) and its content. For most kinds the driver
reads only the head.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec

from runyard.attempt.wire import Loss, LossCause, Report
from runyard.backends.ray.cluster import Requirements

HEAD = struct.Struct("<cIQ")  # kind, lane, number

# From the engine
OPEN = b"O"  # a batch begins: OpenRequest
CHUNK = b"C"  # for an actor; number: the generation of the lane that it is meant for
RENEW = b"W"  # for an actor: a fresh worker before the next chunk
STOP = b"S"  # number: the last chunk of which nothing more may be started
END = b"E"  # for an actor: EndRequest
REST = b"R"  # the batch is over

# From the driver
HELLO = b"H"  # Ray is up; number: how many actors fit by its cores
UP = b"U"  # a lane is ready; number: its generation
DOWN = b"D"  # a lane's actor is gone: ActorLost
UPDATE = b"N"  # from an actor: ActorUpdate
NOTICE = b"T"  # a text for the user
FAILED = b"F"  # it can't continue: RayFailure
HEARTBEAT = b"P"  # number: how many actors there are, or will be soon
RESTED = b"Z"  # nothing of the batch is left

WORKER_BITS = 32
"""A lane's generation is its actor's number × 2³² + how many workers that actor has lost."""


class Frame(NamedTuple):
    """One message of the socket."""

    kind: bytes
    lane: int = 0
    number: int = 0
    content: bytes = b""

    def parts(self) -> tuple[bytes, bytes]:
        """What is sent."""
        return HEAD.pack(self.kind, self.lane, self.number), self.content

    @classmethod
    def decode(cls, message: memoryview) -> Frame:
        """What was received."""
        kind, lane, number = HEAD.unpack_from(message)
        return cls(kind, lane, number, bytes(message[HEAD.size :]))


class Environment(msgspec.Struct, frozen=True):
    """How an actor finds out what it shares with the engine's machine."""

    project: str  # the folder to send to nodes that don't see it
    inode: int | None  # identifies the project's folder; None: Ray provides another one
    token_file: str  # a file in the yard
    token: str  # its content
    version: str  # of Runyard
    python: str  # its version
    variables: dict[str, str]  # environment variables to set
    fresh: bool  # code may have changed: replace warm workers


class OpenRequest(msgspec.Struct, frozen=True):
    """A batch begins."""

    job: bytes
    need: Requirements  # of one actor
    workers: int  # the most actors to start
    is_explicit: bool  # whether the user gave the number of workers
    runtime_env: dict[str, Any]
    excludes: list[str]  # files of the project that are not sent
    environment: Environment


class OpenReply(msgspec.Struct, frozen=True):
    """An actor's answer to a batch."""

    needs_code: bool = False  # it doesn't see the project's folder
    error: str = ""
    hint: str = ""


class EndRequest(msgspec.Struct, frozen=True):
    """End this attempt, if it still runs."""

    task: int
    attempt: int
    chunk: int
    cause: LossCause
    reason: str


class ActorLost(msgspec.Struct, frozen=True):
    """An actor is gone."""

    is_alone: bool  # its process died; False: its node is gone
    reason: str


class Running(NamedTuple):
    """What a lane is running, as its actor saw it."""

    task: int
    attempt: int
    chunk: int
    seconds: float


class WorkerReport(msgspec.Struct, frozen=True, tag=True):
    """A report of the lane's worker, as the worker encoded it."""

    report: Report


class WorkerLoss(msgspec.Struct, frozen=True, tag=True):
    """The lane's worker died or was ended."""

    loss: Loss


class TaskFiles(msgspec.Struct, frozen=True, tag=True):
    """Folders of ended tasks from a node that doesn't see the yard: a tar archive."""

    archive: bytes


class UserNotice(msgspec.Struct, frozen=True, tag=True):
    """A text for the user."""

    text: str


class RayFailure(msgspec.Struct, frozen=True, tag=True):
    """Why the driver or an actor can't continue."""

    message: str
    hint: str | None = None


UpdateItem = WorkerReport | WorkerLoss | TaskFiles | UserNotice | RayFailure


class ActorUpdate(msgspec.Struct, frozen=True):
    """What happened on an actor since its last update."""

    generation: int  # of the lane
    items: list[UpdateItem]
    running: Running
    stopped: int  # the last STOP that it has seen
    memory: int | None  # bytes that its task uses, if there is a limit


encode = msgspec.msgpack.Encoder().encode
decode_open_request = msgspec.msgpack.Decoder(OpenRequest).decode
decode_open_reply = msgspec.msgpack.Decoder(OpenReply).decode
decode_environment = msgspec.msgpack.Decoder(Environment).decode
decode_end_request = msgspec.msgpack.Decoder(EndRequest).decode
decode_actor_lost = msgspec.msgpack.Decoder(ActorLost).decode
decode_actor_update = msgspec.msgpack.Decoder(ActorUpdate).decode
decode_failure = msgspec.msgpack.Decoder(RayFailure).decode
