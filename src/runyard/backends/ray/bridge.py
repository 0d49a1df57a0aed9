"""The bridge: the process that is Ray's driver. It seats stations and passes on what they say.

    reader ── the engine's orders ──┐
    Ray ──── answers of stations ───┼──▶ events ──▶ main thread ──▶ engine, stations
    watcher ─ the cluster's nodes ──┘

All state belongs to the main thread. It ends when its socket closes, and takes along the stations
and, where it started one, its Ray.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from runyard.backends.processes import STILLBORN_LIMIT
from runyard.backends.ray import cluster, frames
from runyard.backends.ray.cluster import View
from runyard.backends.ray.frames import (
    CHUNK,
    DOWN,
    END,
    FAILED,
    HELLO,
    LIFE_BITS,
    NEWS,
    NOTICE,
    OPEN,
    PULSE,
    RENEW,
    REST,
    RESTED,
    STOP,
    UP,
    Frame,
    Opening,
    Parting,
    Trouble,
)
from runyard.backends.ray.nodes import answers, explain, look
from runyard.backends.ray.seats import Seat, seat_key, shared, start_seat
from runyard.backends.ray.travel import pack_project
from runyard.errors import RunyardError

LOOK_SECONDS = 0.5
PULSE_SECONDS = 1.0
JOINING_SECONDS = 5.0
"""So long may no node fit a task before that is an error: nodes may still be joining."""

SHORT_SECONDS = 2.0
"""So long may there be no station before the user hears what is waited for."""

IDLE_SECONDS = 15.0
"""Stations on a cluster that others use too are given back so long after a batch."""

REST_SECONDS = 10.0
LEAVE_SECONDS = 3.0
HEAD_TRIES = 3

Event = Callable[[], None]


class Bridge:
    """The main thread's side."""

    def __init__(self, engine: socket.socket, *, local: bool) -> None:
        self._engine = engine
        self._local = local
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._seats: dict[int, Seat] = {}
        self._lives = 0
        self._view = View()
        self._gone_nodes: set[str] = set()
        self._opening: Opening | None = None
        self._job: Any = None  # as stations are given it
        self._code: Any = None
        self._opened = 0.0
        self._closed = time.monotonic()
        self._resting: set[int] | None = None
        self._rest_until = 0.0
        self._warned = False
        self._stillborn = 0  # stations in a row that did not start
        self._going = True
        self.is_lost = False  # the cluster: there is nobody to say good-bye to
        self._pulse_at = 0.0

    def serve(self) -> None:
        """Until the engine is gone."""
        self._view = look()
        by_core = sum(int(offer.get("CPU", 0)) for offer in self._view.free.values())
        self._tell(Frame(HELLO, number=by_core))
        for target in (self._read, self._watch, self._look):
            threading.Thread(target=target, daemon=True).start()
        while self._going:
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=LOOK_SECONDS)()
            self._beat()

    # What others bring, each from a thread of its own

    def _read(self) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while part := self._engine.recv(1 << 20):
                buffer += part
                for frame in frames.take_frames(buffer):
                    self._events.put(partial(self._obey, frame))
        self._events.put(self._stop)

    def _watch(self) -> None:
        import ray

        head = ray.get_runtime_context().gcs_address
        missed = 0
        while True:
            time.sleep(LOOK_SECONDS)
            missed = 0 if answers(head) else missed + 1
            if missed >= HEAD_TRIES:
                trouble = Trouble(
                    f"the head of the Ray cluster at {head} is gone",
                    "start it again, then say `runyard resume` to go on",
                )
                self._events.put(partial(self._give_up, trouble))
                return

    def _look(self) -> None:
        """Apart from `_watch`: without a head, Ray lets whoever asks it wait for a minute."""
        while True:
            time.sleep(LOOK_SECONDS)
            with contextlib.suppress(Exception):
                self._events.put(partial(self._see, look()))

    def _ask(self, answer: Any, then: Callable[[Any, BaseException | None], None]) -> None:
        """Let the main thread know what a call brings."""

        def done(future: Any) -> None:
            error = future.exception()
            found = None if error is not None else future.result()
            self._events.put(partial(then, found, error))

        answer.future().add_done_callback(done)

    # Orders of the engine

    def _obey(self, frame: Frame) -> None:
        if frame.kind in (CHUNK, RENEW, STOP, END):
            seat = self._seats.get(frame.lane)
            if seat is not None and seat.is_open:
                seat.order(frame.kind, frame.number, frame.content)
        elif frame.kind == OPEN:
            self._open(frames.decode_opening(frame.content))
        elif frame.kind == REST:
            self._rest()

    def _open(self, opening: Opening) -> None:
        self._opening = opening
        self._job = self._code = None
        self._opened, self._warned = time.monotonic(), False
        for seat in list(self._seats.values()):
            if (
                seat.key != seat_key(opening.need, opening.runtime_env)
                or seat.lane >= opening.workers
            ):
                self._leave(seat)
            elif seat.is_ready:
                self._open_seat(seat)
        self._scale()

    def _rest(self) -> None:
        self._opening = self._job = self._code = None
        self._closed = time.monotonic()
        self._rest_until = self._closed + REST_SECONDS
        self._resting = set()
        for seat in self._seats.values():
            if seat.is_ready:
                seat.is_open = False
                self._resting.add(seat.lane)
                self._ask(seat.rest(), partial(self._has_rested, seat))
        self._check_rest()

    def _has_rested(self, seat: Seat, _: object, error: BaseException | None) -> None:
        if error is not None:
            self._forget(seat)
        if self._resting is not None:
            self._resting.discard(seat.lane)
        self._check_rest()

    def _check_rest(self) -> None:
        if self._resting is None:
            return
        if self._resting and time.monotonic() > self._rest_until:
            for lane in self._resting & self._seats.keys():
                self._leave(self._seats[lane])
            self._resting.clear()
        if not self._resting:
            self._resting = None
            self._tell(Frame(RESTED))

    # Stations

    def _see(self, view: View) -> None:
        self._gone_nodes &= view.total.keys()
        self._view = view.without(self._gone_nodes)
        self._scale()
        idle = time.monotonic() - self._closed > IDLE_SECONDS
        if self._opening is None and idle and not self._local:
            for seat in list(self._seats.values()):
                self._leave(seat)

    def _scale(self) -> None:
        """Start stations that there is room for; say so where there is none."""
        opening = self._opening
        if opening is None:
            return
        starting = Counter(seat.node for seat in self._seats.values() if not seat.is_ready)
        nodes = cluster.seats_to_add(
            self._view, opening.need, starting=starting, most=opening.workers - len(self._seats)
        )
        free = [lane for lane in range(opening.workers) if lane not in self._seats]
        for lane, node in zip(free, nodes, strict=False):
            try:
                seat = start_seat(lane, node, opening.need, opening.runtime_env)
            except Exception as error:
                self._fail(Trouble(f"Ray refuses what the batch asks for: {error}"))
                return
            self._seats[lane] = seat
            self._ask(seat.hello(), partial(self._greet, seat))
        self._explain(opening)

    def _explain(self, opening: Opening) -> None:
        """Let the user know where there is too little room, or none that there could ever be."""
        need, waited = opening.need, time.monotonic() - self._opened
        if not self._seats and not cluster.could_ever_hold(self._view, need):
            if waited > JOINING_SECONDS:
                self._fail(
                    Trouble(
                        f"no node of the Ray cluster has what a task needs ({need}); "
                        + cluster.largest(self._view, need),
                        "ask for less (cpus, gpus, memory, resources), or add a node",
                    )
                )
        elif waited > SHORT_SECONDS and not self._warned:
            self._warned = True
            ready = sum(seat.is_ready for seat in self._seats.values())
            text = cluster.shortage(
                self._view, need, ready=ready, starting=len(self._seats) - ready,
                wanted=opening.workers, asked=opening.asked,
            )  # fmt: skip
            if text is not None:
                self._tell(Frame(NOTICE, content=text.encode()))

    def _greet(self, seat: Seat, found: Any, error: BaseException | None) -> None:
        """A station has started, or could not."""
        if error is not None:
            if self._seats.get(seat.lane) is seat:
                self._bury(seat, error)
            return
        seat.host = found
        seat.is_ready = True
        self._stillborn = 0
        if self._seats.get(seat.lane) is seat and self._opening is not None:
            self._open_seat(seat)

    def _open_seat(self, seat: Seat, code: Any = None) -> None:
        assert self._opening is not None
        seat.is_open = False
        around = frames.encode(self._opening.surroundings)
        # A new life each time: what is meant for an earlier batch finds nobody.
        self._lives += 1
        seat.life = self._lives << LIFE_BITS
        if self._job is None:
            self._job = shared(self._opening.job)
        answer = seat.open(self._job, around, code)
        self._ask(answer, partial(self._welcome, seat, self._opening))

    def _welcome(
        self, seat: Seat, opening: Opening, found: Any, error: BaseException | None
    ) -> None:
        if self._seats.get(seat.lane) is not seat or self._opening is not opening:
            return
        if error is not None:
            self._bury(seat, error)
            return
        welcome = frames.decode_welcome(found)
        if welcome.needs_code:
            self._send_code(seat, opening)
        elif welcome.error:
            self._fail(Trouble(welcome.error, welcome.hint or None))
        else:
            seat.is_open = True
            self._tell(Frame(UP, seat.lane, seat.life))
            self._ask_news(seat)

    def _send_code(self, seat: Seat, opening: Opening) -> None:
        try:
            if self._code is None:
                project = Path(opening.surroundings.project)
                self._code = shared(pack_project(project, opening.excludes))
        except RunyardError as error:
            self._fail(Trouble(error.message, error.hint))
            return
        self._open_seat(seat, self._code)

    def _ask_news(self, seat: Seat) -> None:
        if not seat.is_asked:
            seat.is_asked = True
            patience = max(0.1, len(self._seats) / 500)
            self._ask(seat.news(patience), partial(self._pass_on, seat))

    def _pass_on(self, seat: Seat, found: Any, error: BaseException | None) -> None:
        seat.is_asked = False
        if self._seats.get(seat.lane) is not seat:
            return
        if error is not None:
            self._bury(seat, error)
        elif seat.is_open:
            self._tell(Frame(NEWS, seat.lane, content=found))
            self._ask_news(seat)

    def _bury(self, seat: Seat, error: BaseException) -> None:
        """A station is gone: with its node, or alone."""
        self._forget(seat)
        if not seat.is_ready:
            text, fatal = explain(error)
            self._stillborn += 1
            if fatal or self._stillborn > STILLBORN_LIMIT:
                self._fail(Trouble(f"a worker on Ray can't start: {text}"))
                return
        alone = answers(self._view.places.get(seat.node, ""))
        if not alone:
            self._gone_nodes.add(seat.node)
            self._job = self._code = None  # whose copies there Ray would ask for first
            self._view = self._view.without(self._gone_nodes)
        reason = f"its process on {seat.host} died" if alone else f"its node {seat.host} is gone"
        if seat.is_open:
            parting = Parting(alone, reason)
            self._tell(Frame(DOWN, seat.lane, content=frames.encode(parting)))

    def _leave(self, seat: Seat) -> None:
        self._forget(seat)
        if seat.is_ready:
            self._ask(seat.leave(), lambda *_: seat.kill())
        else:  # it may wait for room, and would not hear a call before it has some
            seat.kill()

    def _forget(self, seat: Seat) -> None:
        self._seats.pop(seat.lane, None)
        if self._resting is not None:
            self._resting.discard(seat.lane)

    # The engine's ear

    def _tell(self, frame: Frame) -> None:
        try:
            self._engine.sendall(frame.encode())
        except OSError:
            self._going = False

    def _beat(self) -> None:
        self._check_rest()
        if time.monotonic() > self._pulse_at:
            self._pulse_at = time.monotonic() + PULSE_SECONDS
            self._tell(Frame(PULSE, number=len(self._seats)))

    def _fail(self, trouble: Trouble) -> None:
        self._tell(Frame(FAILED, content=frames.encode(trouble)))
        self._opening = None

    def _give_up(self, trouble: Trouble) -> None:
        self._fail(trouble)
        self.is_lost, self._going = True, False

    def _stop(self) -> None:
        """The engine is gone: let the stations tidy up."""
        self._going = False
        import ray

        leaving = [seat.leave() for seat in self._seats.values() if seat.is_ready]
        if leaving:
            with contextlib.suppress(Exception):
                ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
