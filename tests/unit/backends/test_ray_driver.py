"""What the driver process does with actors, batch after batch. Without Ray."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from runyard.backends.channel import framed, take_messages
from runyard.backends.ray import driver as driver_module
from runyard.backends.ray import messages as wire
from runyard.backends.ray.actor_handle import ActorHandle, actor_key
from runyard.backends.ray.cluster import ClusterNode, Requirements
from runyard.backends.ray.driver import Driver
from runyard.backends.ray.messages import (
    Down,
    Environment,
    Failed,
    Open,
    OpenReply,
    Order,
    Rest,
    Rested,
    ToDriver,
    ToEngine,
    Up,
    Update,
)

M = TypeVar("M")


class FakeActor(ActorHandle):
    """An actor that answers as it is told."""

    def __init__(self, number: int, lane: int, node: str, need: Requirements) -> None:
        super().__init__(number, lane, node, actor_key(need, {}), None)
        self.updates: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.reply = OpenReply()
        self.rests = True
        self.done: list[str] = []

    async def hello(self) -> None:
        self.host = "host"

    async def open(self, job: Any, environment: bytes, code: Any) -> OpenReply:
        self.done.append("open")
        return self.reply

    async def update(self, patience: float) -> bytes:
        found = await self.updates.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def rest(self) -> None:
        if not self.rests:
            await asyncio.Event().wait()
        self.done.append("rest")

    async def leave(self) -> None:
        self.done.append("leave")

    def kill(self) -> None:
        self.done.append("kill")

    def order(self, content: bytes) -> None:
        self.done.append(content.decode())

    def hurry(self) -> None:
        self.updates.put_nowait(b"")


class Engine:
    """The engine's end of the socket, and the actors that the driver starts."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray()
        self._heard: list[ToEngine] = []
        self.actors: list[FakeActor] = []
        self.reply = OpenReply()

    async def send(self, message: ToDriver) -> None:
        data = framed(wire.encode(message))
        await asyncio.get_running_loop().sock_sendall(self._end, data)

    async def hear(self, kind: type[M]) -> M:
        """The next message of a kind; those before it are dropped."""
        while True:
            while self._heard:
                message = self._heard.pop(0)
                if isinstance(message, kind):
                    return message
            self._buffer += await asyncio.get_running_loop().sock_recv(self._end, 1 << 16)
            self._heard += take_messages(self._buffer, wire.decode_to_engine)

    def start_actor(self, number: int, lane: int, node: str, need: Requirements, _: Any) -> Any:
        actor = FakeActor(number, lane, node, need)
        actor.reply = self.reply
        self.actors.append(actor)
        return actor


Scenario = Callable[[Engine], Coroutine[Any, Any, None]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    """Run a scenario against a driver, on a cluster with room for two actors."""

    async def forever(self: Driver) -> None:
        await asyncio.Event().wait()

    async def run(scenario: Scenario) -> None:
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        engine = Engine(mine)
        monkeypatch.setattr(driver_module, "start_actor", engine.start_actor)
        serving = asyncio.ensure_future(Driver(theirs, local=True).serve())
        await asyncio.wait_for(scenario(engine), 60)
        mine.close()
        await asyncio.wait_for(serving, 60)
        assert all(actor.done[-1] in ("leave", "kill") for actor in engine.actors)
        theirs.close()

    nodes = {"node": ClusterNode({"CPU": 2.0}, {"CPU": 2.0})}
    monkeypatch.setattr(driver_module.cluster, "current_nodes", lambda: nodes)
    monkeypatch.setattr(driver_module, "answers", lambda address: True)
    monkeypatch.setattr(Driver, "_watch_head", forever)
    monkeypatch.setattr(Driver, "_watch_nodes", forever)
    return lambda scenario: asyncio.run(run(scenario))


def batch(need: Requirements | None = None) -> Open:
    around = Environment("/p", None, "", "", "1", "3.11", {}, fresh=False)
    return Open(b"job", need or Requirements(), 2, True, {}, [], around)


def test_actors_serve_one_batch_after_another(play: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine) -> None:
        for number in range(2):
            await engine.send(batch())
            lanes = {(await engine.hear(Up)).lane for _ in range(2)}
            assert lanes == {0, 1}
            engine.actors[1].updates.put_nowait(b"news %d" % number)
            assert await engine.hear(Update) == Update(1, b"news %d" % number)
            await engine.send(Rest())
            await engine.hear(Rested)
        assert [actor.done for actor in engine.actors] == [["open", "rest"] * 2] * 2

    play(scenario)


def test_an_actor_of_other_needs_makes_room(play: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine) -> None:
        await engine.send(batch())
        await engine.hear(Up)
        await engine.send(Rest())
        await engine.hear(Rested)
        await engine.send(batch(Requirements(cpus=2.0)))
        assert (await engine.hear(Up)).actor == 3
        assert [actor.done[-1] for actor in engine.actors[:2]] == ["leave", "leave"]

    play(scenario)


def test_an_actor_that_does_not_rest_is_dismissed(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "REST_SECONDS", 0.05)

    async def scenario(engine: Engine) -> None:
        await engine.send(batch())
        await engine.hear(Up)
        await engine.hear(Up)
        engine.actors[0].rests = False
        await engine.send(Rest())
        await engine.hear(Rested)
        await engine.send(batch())
        assert {(await engine.hear(Up)).actor for _ in range(2)} == {2, 3}
        assert engine.actors[0].done == ["open", "leave"]

    play(scenario)


def test_a_lost_actor_is_reported_and_orders_for_it_are_dropped(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(engine: Engine) -> None:
        await engine.send(batch())
        numbers = {(await engine.hear(Up)).actor for _ in range(2)}
        assert numbers == {1, 2}
        engine.actors[0].updates.put_nowait(OSError("gone"))
        assert await engine.hear(Down) == Down(0, True, "its process on host died")
        await engine.send(Order(1, b"for the first"))
        await engine.send(Order(2, b"for the second"))
        await engine.send(Rest())
        await engine.hear(Rested)
        assert [actor.done for actor in engine.actors] == [
            ["open", "kill"], ["open", "for the second", "rest"],
        ]  # fmt: skip

    play(scenario)


def test_actors_outlive_a_batch_that_they_refuse(play: Callable[[Scenario], None]) -> None:
    async def scenario(engine: Engine) -> None:
        engine.reply = OpenReply(failure=Failed("another version", "install it"))
        await engine.send(batch())
        assert await engine.hear(Failed) == Failed("another version", "install it")
        await engine.send(Rest())
        await engine.hear(Rested)
        for actor in engine.actors:
            actor.reply = OpenReply()
        await engine.send(batch())
        assert {(await engine.hear(Up)).actor for _ in range(2)} == {1, 2}

    play(scenario)
