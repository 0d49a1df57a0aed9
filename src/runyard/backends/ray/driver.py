"""The driver process: starts worker actors on a Ray cluster, and passes on what they report.

    engine ── messages ──▶ _read ──▶ orders ──▶ actors
    engine ◀── updates ──── _attend, one for each actor ◀── answers
                            _watch_nodes: starts actors where there is room

All of it runs on one event loop. The process ends when its socket closes, with its actors and, if
it started one, its Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from runyard.backends.base import EarlyDeaths
from runyard.backends.channel import READ_BYTES, framed, take_messages
from runyard.backends.ray import cluster
from runyard.backends.ray import messages as wire
from runyard.backends.ray.actor_handle import ActorHandle, actor_key, shared, start_actor
from runyard.backends.ray.archives import pack_project
from runyard.backends.ray.cluster import ClusterNode, answers
from runyard.backends.ray.messages import (
    Alive,
    Down,
    DriverNotice,
    Failed,
    Open,
    Order,
    Rested,
    ToDriver,
    ToEngine,
    Up,
    Update,
)
from runyard.errors import RunyardError

CHECK_SECONDS = 0.5
HEARTBEAT_SECONDS = 1.0
JOINING_SECONDS = 5.0
"""How long to wait for a node that fits a task: nodes may still be joining."""

NOTICE_SECONDS = 2.0
"""How long workers may be missing before the user is told what they wait for."""

IDLE_SECONDS = 15.0
"""How long after a batch actors on a shared cluster are kept."""

REST_SECONDS = 10.0
LEAVE_SECONDS = 3.0
HEAD_TRIES = 3


class _Batch:
    """The current batch, and what is sent to its actors."""

    def __init__(self, request: Open) -> None:
        self.request = request
        self.opened = time.monotonic()
        self.has_warned = False
        self.environment = wire.encode(request.environment)
        self._job: Any = None
        self._code: Any = None

    def job(self) -> Any:
        """The job, as actors get it."""
        if self._job is None:
            self._job = shared(self.request.job)
        return self._job

    def code(self) -> Any:
        """The project's folder, for actors that don't see it."""
        if self._code is None:
            project = Path(self.request.environment.project)
            self._code = shared(pack_project(project, self.request.excludes))
        return self._code

    def copy_again(self) -> None:
        """A node is gone: Ray would first ask for the copies on it."""
        self._job = self._code = None


class Driver:
    """Serves one engine."""

    def __init__(self, engine: socket.socket, *, local: bool) -> None:
        self._engine = engine
        self._local = local  # Ray was started for this process
        self._actors: dict[int, ActorHandle] = {}  # by number
        self._started = 0  # actors so far
        self._nodes: dict[str, ClusterNode] = {}
        self._gone_nodes: set[str] = set()
        self._batch: _Batch | None = None
        self._has_batch = asyncio.Event()
        self._closed = time.monotonic()  # when the last batch was over
        self._early_deaths = EarlyDeaths()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost_head = False

    async def serve(self) -> None:
        """Serve the engine until it or the cluster's head is gone."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._engine)
        self._nodes = cluster.current_nodes()
        by_cores = sum(int(node.free.get("CPU", 0)) for node in self._nodes.values())
        await self._tell(Alive(by_cores))
        parts = (self._read(), self._watch_head(), self._watch_nodes(), self._send_heartbeats())
        work = [asyncio.ensure_future(part) for part in parts]
        ended, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        if not self.lost_head:
            leaving = [asyncio.ensure_future(each.leave()) for each in self._actors.values()]
            if leaving:
                await asyncio.wait(leaving, timeout=LEAVE_SECONDS)
        self._writer.close()
        with contextlib.suppress(OSError):  # TimeoutError is one
            await asyncio.wait_for(self._writer.wait_closed(), LEAVE_SECONDS)
        for each in ended:
            each.result()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The cluster

    async def _watch_head(self) -> None:
        import ray

        head = ray.get_runtime_context().gcs_address
        missed = 0
        while missed < HEAD_TRIES:
            await asyncio.sleep(CHECK_SECONDS)
            missed = 0 if await asyncio.to_thread(answers, head) else missed + 1
        self.lost_head = True
        hint = "start it again, then run `runyard resume`"
        await self._fail(f"the head of the Ray cluster at {head} is gone", hint)

    async def _watch_nodes(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with contextlib.suppress(Exception):  # `_watch_head` acts when Ray does not answer
                nodes = await asyncio.to_thread(cluster.current_nodes)
                self._gone_nodes &= nodes.keys()
                self._nodes = {n: node for n, node in nodes.items() if n not in self._gone_nodes}
            await self._scale()
            idle = time.monotonic() - self._closed > IDLE_SECONDS
            if self._batch is None and idle and not self._local:
                for actor in list(self._actors.values()):
                    self._dismiss(actor)

    async def _scale(self) -> None:
        """Start as many actors as there is room for; tell the user if there is none."""
        if self._batch is None:
            return
        request = self._batch.request
        starting = Counter(actor.node for actor in self._actors.values() if not actor.host)
        nodes = cluster.nodes_for_actors(
            self._nodes, request.need, starting=starting, most=request.workers - len(self._actors)
        )
        taken = {actor.lane for actor in self._actors.values()}
        free = (lane for lane in range(request.workers) if lane not in taken)
        for node, lane in zip(nodes, free, strict=False):
            self._started += 1
            try:
                actor = start_actor(self._started, lane, node, request.need, request.runtime_env)
            except Exception as error:
                await self._fail(f"Ray refuses what the batch asks for: {error}")
                return
            self._actors[actor.number] = actor
            self._spawn(self._attend(actor))
        await self._explain_shortage(self._batch)

    async def _explain_shortage(self, batch: _Batch) -> None:
        need, waited = batch.request.need, time.monotonic() - batch.opened
        if not self._actors and not cluster.could_ever_fit(self._nodes, need):
            if waited > JOINING_SECONDS:
                await self._fail(
                    f"no node of the Ray cluster has what a task needs ({need}); "
                    + cluster.closest_node(self._nodes, need),
                    "request less (cpus, gpus, memory, resources), or add a node",
                )
        elif waited > NOTICE_SECONDS and not batch.has_warned:
            batch.has_warned = True
            ready = sum(1 for actor in self._actors.values() if actor.host)
            text = cluster.shortage(
                self._nodes, need, ready=ready, starting=len(self._actors) - ready,
                wanted=batch.request.workers, is_explicit=batch.request.is_explicit,
            )  # fmt: skip
            if text is not None:
                await self._tell(DriverNotice(text))

    # An actor

    async def _attend(self, actor: ActorHandle) -> None:
        """From an actor's start to its end: one batch after another."""
        try:
            await actor.hello()
            self._early_deaths.reset()
            while True:
                await self._has_batch.wait()
                if actor.number not in self._actors:
                    return
                if self._batch is not None:  # else it has failed already
                    await self._run_batch(actor, self._batch)
        except Exception as error:
            if self._actors.pop(actor.number, None) is not None:
                actor.kill()
                await self._lose(actor, error)
        finally:
            actor.rested.set()

    async def _run_batch(self, actor: ActorHandle, batch: _Batch) -> None:
        actor.rested.clear()
        if await self._open(actor, batch):
            await self._tell(Up(actor.lane, actor.number))
            while self._batch is batch:
                content = await actor.update(patience=max(0.1, len(self._actors) / 500))
                if self._batch is batch:
                    await self._tell(Update(actor.lane, content))
        await actor.rest()
        actor.rested.set()

    async def _open(self, actor: ActorHandle, batch: _Batch) -> bool:
        """Prepare an actor for a batch, with the project's code if it does not see it."""
        reply = await actor.open(batch.job(), batch.environment, None)
        failure = reply.failure
        if reply.needs_code and self._batch is batch:
            try:
                code = batch.code()
            except RunyardError as error:
                failure = Failed(error.message, error.hint)
            else:
                failure = (await actor.open(batch.job(), batch.environment, code)).failure
        if failure is not None and self._batch is batch:
            await self._fail(failure.message, failure.hint)
        return self._batch is batch

    async def _lose(self, actor: ActorHandle, error: Exception) -> None:
        """An actor is gone: alone, or with its node."""
        if not actor.host:
            text, is_fatal = cluster.explain(error)
            if self._early_deaths.add() or is_fatal:
                await self._fail(f"a worker on Ray can't start: {text}")
                return
        is_alone = actor.node in self._nodes and answers(self._nodes[actor.node].address)
        reason = f"its process on {actor.host} died"
        if not is_alone:
            reason = f"its node {actor.host or actor.node[:8]} is gone"
            self._gone_nodes.add(actor.node)
            self._nodes.pop(actor.node, None)
            if self._batch is not None:
                self._batch.copy_again()
        await self._tell(Down(actor.lane, is_alone, reason))

    def _dismiss(self, actor: ActorHandle) -> None:
        del self._actors[actor.number]
        self._spawn(actor.leave())

    # The engine

    async def _read(self) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := await self._reader.read(READ_BYTES):
                buffer += data
                for message in take_messages(buffer, wire.decode_to_driver):
                    await self._handle(message)

    async def _handle(self, message: ToDriver) -> None:
        if isinstance(message, Order):
            if message.actor in self._actors:
                self._actors[message.actor].order(message.content)
        elif isinstance(message, Open):
            key = actor_key(message.need, message.runtime_env)
            for actor in list(self._actors.values()):
                if actor.key != key or actor.lane >= message.workers:
                    self._dismiss(actor)
            self._batch = _Batch(message)
            self._has_batch.set()
            await self._scale()
        else:
            await self._rest()

    async def _rest(self) -> None:
        """The batch is over: have every actor end what it runs; dismiss those that don't."""
        self._end_batch()
        resting = {asyncio.ensure_future(a.rested.wait()): a for a in self._actors.values()}
        for actor in resting.values():
            if not actor.rested.is_set():
                actor.hurry()
        if resting:
            _, late = await asyncio.wait(resting, timeout=REST_SECONDS)
            for each in late:
                if resting[each].number in self._actors:
                    self._dismiss(resting[each])
        await self._tell(Rested())

    def _end_batch(self) -> None:
        self._batch = None
        self._has_batch.clear()
        self._closed = time.monotonic()

    async def _fail(self, message: str, hint: str | None = None) -> None:
        self._end_batch()
        await self._tell(Failed(message, hint))

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._tell(Alive(len(self._actors)))

    async def _tell(self, message: ToEngine) -> None:
        with contextlib.suppress(OSError):  # `_read` notices that the engine is gone
            self._writer.write(framed(wire.encode(message)))
            await self._writer.drain()


def main(descriptor: int, address: str | None, cores: int) -> None:
    """Serve the engine at the other end of this socket until it is gone."""
    engine = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = None if address is not None else cluster.make_folder()
    code, lost_head = 1, False
    try:
        try:
            cluster.connect(address, cores, folder)
        except (Exception, SystemExit) as error:
            what = "Ray can't start" if address is None else f"no Ray cluster answers at {address}"
            lines = str(error).strip().splitlines() or [type(error).__name__]
            failed = Failed(f"{what}: {lines[0]}", "see what `ray status` says")
            with contextlib.suppress(OSError):
                engine.sendall(framed(wire.encode(failed)))
        else:
            # Not `asyncio.run`, which would wait for threads: without a head they hang for long.
            driver = Driver(engine, local=address is None)
            asyncio.new_event_loop().run_until_complete(driver.serve())
            code, lost_head = 0, driver.lost_head
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the engine shows the last lines
        sys.stderr.flush()
    finally:
        if not lost_head:
            cluster.disconnect()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(code)
