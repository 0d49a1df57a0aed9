"""The engine's side: lanes that are worker actors on a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from time import perf_counter
from typing import Self

from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.attempt.wire import Chunk, Job, Loss, LossCause, Report, encode_job
from runyard.backends.base import Backend, EarlyDeaths, SentChunks
from runyard.backends.processes import ProcessesBackend
from runyard.backends.ray import messages as wire
from runyard.backends.ray.archives import unpack_tasks
from runyard.backends.ray.client import (
    DriverClient,
    address_of,
    check_installed,
)
from runyard.backends.ray.cluster import Requirements
from runyard.backends.ray.messages import (
    ActorOrder,
    ActorUpdate,
    Alive,
    Down,
    DriverNotice,
    EndAttempt,
    Environment,
    Open,
    Order,
    Rest,
    Rested,
    Stop,
    ToEngine,
    Up,
    Update,
    Work,
)
from runyard.backends.ray.shared_files import inode_of, python_version, runyard_version
from runyard.errors import BackendError, StoreFull
from runyard.spec.hash_seed import VARIABLE, workers_seed

MOST_LANES = 1024
"""The most workers, unless the user asks for more."""

REST_SECONDS = 20.0


class _ActorLane:
    """What the engine knows of one actor."""

    def __init__(self, actor: int | None = None, losses: int = 0) -> None:
        self.actor = actor  # its number; None: there is none
        self.losses = losses  # workers that the actor has lost
        self.sent = SentChunks()
        self.ending: tuple[int, int, int] | None = None  # task, attempt and chunk asked to end
        self.stop_sent = 0
        self.stop_seen = 0
        self.memory: int | None = None


class RayBackend(Backend):
    """One actor per lane, as many as the cluster holds; they come and go with its nodes."""

    name = "ray"
    capabilities = ProcessesBackend.capabilities._replace(places=True)
    distance = 2.5
    hash_seed = staticmethod(workers_seed)

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        """At most `workers`, on the cluster at `address` or on a Ray started for this process."""
        super().__init__(workers or MOST_LANES)
        check_installed()
        self._workers = workers
        self._address = address_of(address)
        self._client: DriverClient | None = DriverClient.take(self._address, workers)
        self.lanes = max(1, min(self.most_lanes, self._client.room))
        self._lanes = [_ActorLane() for _ in range(self.most_lanes)]
        self._extent = 0
        self._ready: list[Report | Loss] = []
        self._job: Job | None = None
        self._token_file: Path | None = None
        self._early_deaths = EarlyDeaths()

    @classmethod
    def default_workers(cls) -> int:
        return MOST_LANES

    def again(self) -> Self:
        return type(self)(self._workers, self._address)

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        client = self._connected()
        self._job = job
        self._lane_status = lane_status
        settings = dict(job.options.runtime_env)
        folder = settings.get("working_dir")
        is_local = folder is None or "://" not in folder  # else Ray fetches it from there
        if is_local:
            settings.pop("working_dir", None)
        project = Path(job.root, folder or "") if is_local else None
        is_fresh = client.code.has_changed(job.code)
        request = Open(
            job=encode_job(job),
            need=Requirements.of(job.options),
            workers=self.most_lanes,
            is_explicit=self._workers is not None,
            excludes=[*settings.pop("excludes", []), *_yard_inside(job, project)],
            runtime_env=settings,
            environment=self._environment(job, project, fresh=is_fresh),
        )
        client.send(request)

    def send(self, lane: int, chunk: Chunk) -> None:
        state = self._lanes[lane]
        state.sent.add(chunk)
        self._order(state, Work(state.losses, chunk))

    def poll(self, timeout: float) -> list[Report | Loss]:
        self._forward_stops()
        for message in self._connected().receive(0 if self._ready else timeout):
            self._handle(message)
        found, self._ready = self._ready, []
        return found

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        state, wanted = self._lanes[lane], (status.task, status.attempt, status.chunk)
        if state.actor is not None and state.ending != wanted:
            state.ending = wanted
            self._order(state, EndAttempt(*wanted, cause, reason))

    def room(self, lane: int) -> int:
        state = self._lanes[lane]
        if state.actor is None or state.ending is not None:
            return 0
        recycle = self._job.options.recycle if self._job else None
        if state.sent.is_used_up(recycle):
            state.sent.tasks = 0  # the actor has its worker replaced
        return state.sent.room(recycle)

    def memory(self, lane: int) -> int | None:
        return self._lanes[lane].memory

    @property
    def extent(self) -> int:
        return self._extent

    def is_up(self, lane: int) -> bool:
        return self._lanes[lane].actor is not None

    def is_settled(self, lane: int) -> bool:
        self._forward_stop(lane)
        return self._lanes[lane].stop_seen >= self._lane_status.stopped(lane)

    def wake(self) -> None:
        if self._client is not None:
            self._client.poller.wake()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if self._job is None or self._rest(client):
                client.warm.keep(client)
            else:
                client.close()
        except BackendError:
            client.close()
        finally:
            if self._token_file is not None:
                self._token_file.unlink(missing_ok=True)

    def _rest(self, client: DriverClient) -> bool:
        """Have every actor end what it runs; whether all did."""
        client.send(Rest())
        until = time.monotonic() + REST_SECONDS
        while time.monotonic() < until:
            if any(isinstance(each, Rested) for each in client.receive(0.5)):
                return True
        return False

    def _connected(self) -> DriverClient:
        if self._client is None:
            raise BackendError("this backend is closed", hint="open another one")
        return self._client

    def _order(self, lane: _ActorLane, order: ActorOrder) -> None:
        if lane.actor is not None:
            self._connected().send(Order(lane.actor, wire.encode(order)))

    def _environment(self, job: Job, project: Path | None, *, fresh: bool) -> Environment:
        own = dict(os.environ) if self._connected().is_local else {}
        self._token_file = Path(job.spool, f"{job.engine}.token")
        token = secrets.token_hex(16)
        try:
            self._token_file.write_text(token)
        except OSError as error:
            raise StoreFull(f"can't write {self._token_file}: {error.strerror}") from error
        return Environment(
            project=str(project or job.root),
            inode=None if project is None else inode_of(str(project)),
            token_file=str(self._token_file),
            token=token,
            version=runyard_version(),
            python=python_version(),
            variables=own | {VARIABLE: workers_seed()},
            fresh=fresh,
        )

    def _handle(self, message: ToEngine) -> None:
        if isinstance(message, Update):
            self._handle_update(message.lane, wire.decode_actor_update(message.content))
        elif isinstance(message, Up):
            self._lanes[message.lane] = _ActorLane(message.actor)
            self._lane_status.clear(message.lane)
            self._extent = max(self._extent, message.lane + 1)
            self._count_lanes()
        elif isinstance(message, Down):
            self._lose_actor(message)
        elif isinstance(message, DriverNotice):
            self.notices.append(message.text)
        elif isinstance(message, Alive) and not self._extent:
            self.lanes = max(1, min(self.most_lanes, message.lanes))

    def _handle_update(self, number: int, update: ActorUpdate) -> None:
        assert self._job is not None
        lane = self._lanes[number]
        for archive in update.files:
            unpack_tasks(archive, Path(self._job.folder))
        for report in update.reports:
            self._early_deaths.reset()
            lane.sent.take(report)
            self._ready.append(report._replace(lane=number))
        if update.loss is not None:
            self._ready.append(update.loss._replace(lane=number))
            self._lanes[number] = lane = _ActorLane(lane.actor, lane.losses + 1)
            self._lane_status.clear(number)
        self.notices.extend(update.notices)
        if update.failure is not None:
            raise BackendError(update.failure.message, hint=update.failure.hint)
        task, attempt, chunk, seconds = update.running
        if task == IDLE:
            self._lane_status.idle(number)
        elif chunk in lane.sent.ids:
            since = perf_counter() - seconds
            self._lane_status.writer(number)(self._job.batch, task, attempt, chunk, since)
        if lane.ending is not None and lane.ending != (task, attempt, chunk):
            lane.ending = None
        lane.stop_seen = update.stopped
        lane.memory = update.memory

    def _lose_actor(self, lost: Down) -> None:
        """Add the loss of a lane. If its whole node is gone, no task is to blame."""
        number = lost.lane
        if not self.is_up(number):
            return
        status = self._lane_status.read(number)
        if self._early_deaths.add(was_running=status.task != IDLE or not lost.is_alone):
            raise BackendError(
                f"workers on Ray die as soon as they start: {lost.reason}",
                hint="see Ray's own logs of the node",
            )
        if not lost.is_alone:
            status = status._replace(task=IDLE)
        self._ready.append(Loss.of(number, status, LossCause.WORKER_DIED, lost.reason))
        self._lanes[number] = _ActorLane()
        self._lane_status.clear(number)
        while self._extent and not self.is_up(self._extent - 1):
            self._extent -= 1
        self._count_lanes()

    def _count_lanes(self) -> None:
        self.lanes = sum(map(self.is_up, range(self._extent)))

    def _forward_stops(self) -> None:
        for number in range(self._extent):
            if self._lanes[number].sent.ids:
                self._forward_stop(number)

    def _forward_stop(self, number: int) -> None:
        lane, chunk = self._lanes[number], self._lane_status.stopped(number)
        if chunk > lane.stop_sent:
            lane.stop_sent = chunk
            with contextlib.suppress(BackendError):  # the next `poll` reports it
                self._order(lane, Stop(chunk))


def _yard_inside(job: Job, project: Path | None) -> list[str]:
    """The yard's path if it lies inside the project: it is never sent."""
    yard = Path(job.spool).parent
    if project is None or not yard.is_relative_to(project):
        return []
    return [yard.relative_to(project).as_posix()]
