"""The driver process: starts worker actors on a Ray cluster, and passes on what they report.

    reader ── messages of the engine ──┐
    Ray ───── answers of actors ───────┼──▶ events ──▶ main thread ──▶ engine, actors
    watchers ─ the cluster's nodes ────┘

All state belongs to the main thread. The process ends when its socket closes, with its actors and,
if it started one, its Ray.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from runyard.backends.base import EarlyDeaths
from runyard.backends.channel import framed, received
from runyard.backends.ray import cluster
from runyard.backends.ray import messages as wire
from runyard.backends.ray.actor_handle import ActorHandle, actor_key, shared, start_actor
from runyard.backends.ray.archives import pack_project
from runyard.backends.ray.cluster import ClusterState, answers
from runyard.backends.ray.messages import Frame, OpenRequest, RayFailure
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

Action = Callable[[], None]


class Driver:
    """The main thread of the driver process."""

    def __init__(self, engine: socket.socket, *, local: bool) -> None:
        self._engine = engine
        self._local = local  # Ray was started for this process
        self._events: queue.SimpleQueue[Action] = queue.SimpleQueue()
        self._actors: dict[int, ActorHandle] = {}  # by lane
        self._started = 0  # actors opened so far
        self._state = ClusterState()
        self._gone_nodes: set[str] = set()
        self._request: OpenRequest | None = None  # of the current batch
        self._job: Any = None  # as actors get it
        self._code: Any = None
        self._opened = 0.0
        self._closed = time.monotonic()
        self._resting: set[int] | None = None  # lanes that have not ended the last batch yet
        self._rest_until = 0.0
        self._warned = False
        self._early_deaths = EarlyDeaths()
        self._running = True
        self.lost_head = False
        self._heartbeat_at = 0.0

    def serve(self) -> None:
        """Serve the engine until it is gone."""
        self._state = cluster.current_state()
        by_cores = sum(int(offer.get("CPU", 0)) for offer in self._state.free.values())
        self._tell(Frame(wire.HELLO, number=by_cores))
        for target in (self._read, self._watch_head, self._watch_nodes):
            threading.Thread(target=target, daemon=True).start()
        while self._running:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=CHECK_SECONDS)()
            self._check_rest()
            self._send_heartbeat()

    # Sources of events, each in a thread of its own

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for frame in received(self._engine, Frame.decode):
                self._events.put(partial(self._handle, frame))
        self._events.put(self._stop)

    def _watch_head(self) -> None:
        import ray

        head = ray.get_runtime_context().gcs_address
        missed = 0
        while missed < HEAD_TRIES:
            time.sleep(CHECK_SECONDS)
            missed = 0 if answers(head) else missed + 1
        failure = RayFailure(
            f"the head of the Ray cluster at {head} is gone",
            "start it again, then run `runyard resume`",
        )
        self._events.put(partial(self._give_up, failure))

    def _watch_nodes(self) -> None:
        """Apart from `_watch_head`: without a head, Ray's calls block for a minute."""
        while True:
            time.sleep(CHECK_SECONDS)
            with contextlib.suppress(Exception):
                self._events.put(partial(self._see, cluster.current_state()))

    def _ask(self, answer: Any, then: Callable[[Any, BaseException | None], None]) -> None:
        """Have the main thread handle the answer to a call."""

        def done(future: Any) -> None:
            error = future.exception()
            found = None if error is not None else future.result()
            self._events.put(partial(then, found, error))

        answer.future().add_done_callback(done)

    # Messages of the engine

    def _handle(self, frame: Frame) -> None:
        if frame.kind in (wire.CHUNK, wire.RENEW, wire.STOP, wire.END):
            actor = self._actors.get(frame.lane)
            if actor is not None and actor.is_open:
                actor.order(frame.kind, frame.number, frame.content)
        elif frame.kind == wire.OPEN:
            self._open(wire.decode_open_request(frame.content))
        elif frame.kind == wire.REST:
            self._rest()

    def _open(self, request: OpenRequest) -> None:
        self._request = request
        self._job = self._code = None
        self._opened, self._warned = time.monotonic(), False
        key = actor_key(request.need, request.runtime_env)
        for actor in list(self._actors.values()):
            if actor.key != key or actor.lane >= request.workers:
                self._dismiss(actor)
            elif actor.is_ready:
                self._open_actor(actor)
        self._scale()

    def _rest(self) -> None:
        self._request = self._job = self._code = None
        self._closed = time.monotonic()
        self._rest_until = self._closed + REST_SECONDS
        self._resting = set()
        for actor in self._actors.values():
            if actor.is_ready:
                actor.is_open = False
                self._resting.add(actor.lane)
                self._ask(actor.rest(), partial(self._has_rested, actor))
        self._check_rest()

    def _has_rested(self, actor: ActorHandle, _: object, error: BaseException | None) -> None:
        if error is not None:
            self._forget(actor)
        if self._resting is not None:
            self._resting.discard(actor.lane)
        self._check_rest()

    def _check_rest(self) -> None:
        if self._resting is None:
            return
        if self._resting and time.monotonic() > self._rest_until:
            for lane in self._resting & self._actors.keys():
                self._dismiss(self._actors[lane])
            self._resting.clear()
        if not self._resting:
            self._resting = None
            self._tell(Frame(wire.RESTED))

    # Actors

    def _see(self, state: ClusterState) -> None:
        self._gone_nodes &= state.total.keys()
        self._state = state.without(self._gone_nodes)
        self._scale()
        idle = time.monotonic() - self._closed > IDLE_SECONDS
        if self._request is None and idle and not self._local:
            for actor in list(self._actors.values()):
                self._dismiss(actor)

    def _scale(self) -> None:
        """Start as many actors as there is room for; tell the user if there is none."""
        request = self._request
        if request is None:
            return
        starting = Counter(actor.node for actor in self._actors.values() if not actor.is_ready)
        nodes = cluster.nodes_for_actors(
            self._state, request.need, starting=starting, most=request.workers - len(self._actors)
        )
        free = [lane for lane in range(request.workers) if lane not in self._actors]
        for lane, node in zip(free, nodes, strict=False):
            try:
                actor = start_actor(lane, node, request.need, request.runtime_env)
            except Exception as error:
                self._fail(RayFailure(f"Ray refuses what the batch asks for: {error}"))
                return
            self._actors[lane] = actor
            self._ask(actor.hello(), partial(self._has_started, actor))
        self._explain_shortage(request)

    def _explain_shortage(self, request: OpenRequest) -> None:
        need, waited = request.need, time.monotonic() - self._opened
        if not self._actors and not cluster.could_ever_fit(self._state, need):
            if waited > JOINING_SECONDS:
                self._fail(
                    RayFailure(
                        f"no node of the Ray cluster has what a task needs ({need}); "
                        + cluster.closest_node(self._state, need),
                        "ask for less (cpus, gpus, memory, resources), or add a node",
                    )
                )
        elif waited > NOTICE_SECONDS and not self._warned:
            self._warned = True
            ready = sum(actor.is_ready for actor in self._actors.values())
            text = cluster.shortage(
                self._state, need, ready=ready, starting=len(self._actors) - ready,
                wanted=request.workers, is_explicit=request.is_explicit,
            )  # fmt: skip
            if text is not None:
                self._tell(Frame(wire.NOTICE, content=text.encode()))

    def _has_started(self, actor: ActorHandle, host: Any, error: BaseException | None) -> None:
        if error is not None:
            if self._actors.get(actor.lane) is actor:
                self._lose(actor, error)
            return
        actor.host = host
        actor.is_ready = True
        self._early_deaths.reset()
        if self._actors.get(actor.lane) is actor and self._request is not None:
            self._open_actor(actor)

    def _open_actor(self, actor: ActorHandle, code: Any = None) -> None:
        assert self._request is not None
        actor.is_open = False
        # A new generation each time, so that messages meant for an earlier batch are dropped.
        self._started += 1
        actor.generation = self._started << wire.WORKER_BITS
        if self._job is None:
            self._job = shared(self._request.job)
        answer = actor.open(self._job, wire.encode(self._request.environment), code)
        self._ask(answer, partial(self._has_opened, actor, self._request))

    def _has_opened(
        self, actor: ActorHandle, request: OpenRequest, found: Any, error: BaseException | None
    ) -> None:
        if self._actors.get(actor.lane) is not actor or self._request is not request:
            return
        if error is not None:
            self._lose(actor, error)
            return
        reply = wire.decode_open_reply(found)
        if reply.needs_code:
            self._send_code(actor, request)
        elif reply.error:
            self._fail(RayFailure(reply.error, reply.hint or None))
        else:
            actor.is_open = True
            self._tell(Frame(wire.UP, actor.lane, actor.generation))
            self._ask_update(actor)

    def _send_code(self, actor: ActorHandle, request: OpenRequest) -> None:
        try:
            if self._code is None:
                project = Path(request.environment.project)
                self._code = shared(pack_project(project, request.excludes))
        except RunyardError as error:
            self._fail(RayFailure(error.message, error.hint))
            return
        self._open_actor(actor, self._code)

    def _ask_update(self, actor: ActorHandle) -> None:
        if not actor.is_asked:
            actor.is_asked = True
            patience = max(0.1, len(self._actors) / 500)
            self._ask(actor.update(patience), partial(self._pass_on, actor))

    def _pass_on(self, actor: ActorHandle, found: Any, error: BaseException | None) -> None:
        actor.is_asked = False
        if self._actors.get(actor.lane) is not actor:
            return
        if error is not None:
            self._lose(actor, error)
        elif actor.is_open:
            self._tell(Frame(wire.UPDATE, actor.lane, content=found))
            self._ask_update(actor)

    def _lose(self, actor: ActorHandle, error: BaseException) -> None:
        """An actor is gone: alone, or with its node."""
        self._forget(actor)
        if not actor.is_ready:
            text, is_fatal = cluster.explain(error)
            if self._early_deaths.add() or is_fatal:
                self._fail(RayFailure(f"a worker on Ray can't start: {text}"))
                return
        is_alone = answers(self._state.addresses.get(actor.node, ""))
        if not is_alone:
            self._gone_nodes.add(actor.node)
            self._job = self._code = None  # Ray would first ask for the copies on that node
            self._state = self._state.without(self._gone_nodes)
        host = actor.host
        reason = f"its process on {host} died" if is_alone else f"its node {host} is gone"
        if actor.is_open:
            lost = wire.ActorLost(is_alone, reason)
            self._tell(Frame(wire.DOWN, actor.lane, content=wire.encode(lost)))

    def _dismiss(self, actor: ActorHandle) -> None:
        self._forget(actor)
        if actor.is_ready:
            self._ask(actor.leave(), lambda *_: actor.kill())
        else:  # it may wait for room, and would not answer a call before it has some
            actor.kill()

    def _forget(self, actor: ActorHandle) -> None:
        self._actors.pop(actor.lane, None)
        if self._resting is not None:
            self._resting.discard(actor.lane)

    # Messages to the engine

    def _tell(self, frame: Frame) -> None:
        try:
            self._engine.sendall(framed(*frame.parts()))
        except OSError:
            self._running = False

    def _send_heartbeat(self) -> None:
        if time.monotonic() > self._heartbeat_at:
            self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
            self._tell(Frame(wire.HEARTBEAT, number=len(self._actors)))

    def _fail(self, failure: RayFailure) -> None:
        self._tell(Frame(wire.FAILED, content=wire.encode(failure)))
        self._request = None

    def _give_up(self, failure: RayFailure) -> None:
        self._fail(failure)
        self.lost_head, self._running = True, False

    def _stop(self) -> None:
        """The engine is gone: let the actors clean up."""
        self._running = False
        import ray

        leaving = [actor.leave() for actor in self._actors.values() if actor.is_ready]
        if leaving:
            with contextlib.suppress(Exception):
                ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)


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
            failure = RayFailure(f"{what}: {lines[0]}", "see what `ray status` says")
            with contextlib.suppress(OSError):
                frame = Frame(wire.FAILED, content=wire.encode(failure))
                engine.sendall(framed(*frame.parts()))
        else:
            driver = Driver(engine, local=address is None)
            driver.serve()
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
