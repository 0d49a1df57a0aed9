"""What travels between the engine, the driver and the worker actors.

    engine ── Open, Order, Rest ──▶ driver ── the content of an Order ──▶ actor
    engine ◀── Update, … ────────── driver ◀── ActorUpdate ─────────────── actor

The driver passes on the contents of `Order` and `Update` unread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from runyard.attempt.lane_status import IDLE
from runyard.attempt.wire import Chunk, Loss, LossCause, Report
from runyard.backends.ray.cluster import Requirements


class _Message(msgspec.Struct, tag=True):
    """One of several kinds, told apart by its class name."""


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


class DriverNotice(_Message):
    """A text for the user."""

    text: str


class Failed(_Message):
    """Why the driver or an actor can't continue."""

    message: str
    hint: str | None = None


# From the engine to the driver


class Open(_Message):
    """A batch begins."""

    job: bytes
    need: Requirements  # of one actor
    workers: int  # the most actors to start
    is_explicit: bool  # whether the user gave the number of workers
    runtime_env: dict[str, Any]
    excludes: list[str]  # files of the project that are not sent
    environment: Environment


class Order(_Message):
    """Something for an actor to do; dropped if that actor is gone."""

    actor: int
    content: bytes  # an encoded ActorOrder


class Rest(_Message):
    """The batch is over."""


# From the engine to an actor


class Work(_Message):
    """A chunk to run; dropped if the actor has lost more workers than the engine knew."""

    losses: int
    chunk: Chunk


class Stop(_Message):
    """Start nothing more of this chunk or earlier ones."""

    chunk: int


class EndAttempt(_Message):
    """End this attempt, if it still runs."""

    task: int
    attempt: int
    chunk: int
    cause: LossCause
    reason: str


# From the driver to the engine


class Alive(_Message):
    """Sent every second, and once when Ray is up."""

    lanes: int  # how many actors fit by its cores or, in a batch, are there or starting


class Up(_Message):
    """A lane is ready."""

    lane: int
    actor: int


class Down(_Message):
    """A lane's actor is gone."""

    lane: int
    is_alone: bool  # its process died; False: its node is gone
    reason: str


class Update(_Message):
    """News from a lane's actor."""

    lane: int
    content: bytes  # an encoded ActorUpdate


class Rested(_Message):
    """Nothing of the batch is left."""


# From an actor


class OpenReply(msgspec.Struct, frozen=True):
    """An actor's answer to a batch."""

    needs_code: bool = False  # it doesn't see the project's folder
    failure: Failed | None = None


class RunningAttempt(NamedTuple):
    """What a lane is running, as its actor saw it."""

    task: int
    attempt: int
    chunk: int
    seconds: float


class ActorUpdate(msgspec.Struct):
    """What happened on an actor since its last update, in this order."""

    files: list[bytes] = []  # archives with folders of ended tasks, if it doesn't see the yard
    reports: list[Report] = []
    loss: Loss | None = None  # of the worker that made the reports
    notices: list[str] = []  # for the user
    failure: Failed | None = None  # why it can't continue
    running: RunningAttempt = RunningAttempt(IDLE, 0, 0, 0.0)
    stopped: int = 0  # the last `Stop` that it has seen
    memory: int | None = None  # bytes that its task uses, if there is a limit


ToDriver = Open | Order | Rest
ActorOrder = Work | Stop | EndAttempt
ToEngine = Alive | Up | Down | Update | DriverNotice | Failed | Rested

encode = msgspec.msgpack.Encoder().encode
decode_to_driver = msgspec.msgpack.Decoder(ToDriver).decode
decode_to_engine = msgspec.msgpack.Decoder(ToEngine).decode
decode_actor_order = msgspec.msgpack.Decoder(ActorOrder).decode
decode_actor_update = msgspec.msgpack.Decoder(ActorUpdate).decode
decode_open_reply = msgspec.msgpack.Decoder(OpenReply).decode
decode_environment = msgspec.msgpack.Decoder(Environment).decode
