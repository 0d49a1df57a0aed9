"""The engine's side: lanes that are stations on a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path
from time import perf_counter
from typing import Self

from runyard.attempt.lane_status import IDLE, LaneStatus, LaneStatusFile
from runyard.attempt.wire import Chunk, Job, Loss, LossCause, Report, encode_chunk, encode_job
from runyard.backends.base import Backend
from runyard.backends.processes import STILLBORN_LIMIT, ProcessesBackend
from runyard.backends.ray import frames
from runyard.backends.ray.cluster import Need
from runyard.backends.ray.frames import (
    CHUNK,
    DOWN,
    END,
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
    Ending,
    Files,
    Frame,
    Lost,
    Opening,
    Reported,
    Surroundings,
    Word,
)
from runyard.backends.ray.link import (
    Link,
    address_of,
    check_installed,
    close_links,
    keep_link,
    take_link,
)
from runyard.backends.ray.sight import mark_of, python_version, runyard_version
from runyard.backends.ray.travel import unpack_tasks
from runyard.errors import BackendError, StoreFull
from runyard.spec.hash_seed import VARIABLE, workers_seed

__all__ = ["MOST_LANES", "RayBackend", "close_links"]

MOST_LANES = 1024
"""So many stations at most, where nobody says how many."""

REST_SECONDS = 20.0


class _Lane:
    """What the engine knows of one station."""

    def __init__(self) -> None:
        self.is_up = False
        self.life = 0
        self.sent: list[int] = []  # chunks under way, oldest first
        self.tasks = 0  # since its worker started
        self.ending: tuple[int, int, int] | None = None  # asked to end
        self.stop_sent = 0
        self.stop_seen = 0
        self.memory: int | None = None


class RayBackend(Backend):
    """One station a lane, as many as the cluster holds; they come and go with its nodes."""

    name = "ray"
    capabilities = ProcessesBackend.capabilities._replace(places=True)
    distance = 2.5
    hash_seed = staticmethod(workers_seed)

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        """With so many workers at most, on the cluster at an address or a Ray of its own."""
        super().__init__(workers or MOST_LANES)
        check_installed()
        self._workers = workers
        self._address = address_of(address)
        self._link: Link | None = take_link(self._address, workers)
        self.lanes = max(1, min(self.most_lanes, self._link.room))
        self._lanes = [_Lane() for _ in range(self.most_lanes)]
        self._extent = 0
        self._ready: list[Report | Loss] = []
        self._job: Job | None = None
        self._token_file: Path | None = None
        self._stillborn = 0

    @classmethod
    def default_workers(cls) -> int:
        return MOST_LANES

    def again(self) -> Self:
        return type(self)(self._workers, self._address)

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        link = self._connected()
        self._job = job
        self._slots = lane_status
        settings = dict(job.runtime_env)
        folder = settings.get("working_dir")
        travels = folder is None or "://" not in folder  # else Ray fetches it from there
        if travels:
            settings.pop("working_dir", None)
        project = Path(job.root, folder or "") if travels else None
        opening = Opening(
            job=encode_job(job),
            need=Need(
                cpus=1.0 if job.cpus is None else job.cpus,
                gpus=job.gpus or 0.0,
                memory=job.memory,
                resources=job.resources,
            ),
            workers=self.most_lanes,
            asked=self._workers is not None,
            excludes=[*settings.pop("excludes", []), *_yard_inside(job, project)],
            runtime_env=settings,
            surroundings=self._surroundings(job, project, fresh=link.code.has_changed(job.code)),
        )
        link.send(Frame(OPEN, content=frames.encode(opening)))

    def send(self, lane: int, chunk: Chunk) -> None:
        state = self._lanes[lane]
        state.sent.append(chunk.id)
        state.tasks += chunk.size
        self._connected().send(Frame(CHUNK, lane, state.life, encode_chunk(chunk)))

    def poll(self, timeout: float) -> list[Report | Loss]:
        self._forward_stops()
        for frame in self._connected().receive(0 if self._ready else timeout):
            self._take(frame)
        found, self._ready = self._ready, []
        return found

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        state, wanted = self._lanes[lane], (status.task, status.attempt, status.chunk)
        if state.is_up and state.ending != wanted:
            state.ending = wanted
            order = frames.encode(Ending(*wanted, cause, reason))
            self._connected().send(Frame(END, lane, content=order))

    def room(self, lane: int) -> int:
        state = self._lanes[lane]
        if not state.is_up or state.ending is not None:
            return 0
        share = self._job.recycle if self._job else None
        if share is None:
            return sys.maxsize
        if state.tasks >= share and not state.sent:
            state.tasks = 0
            self._connected().send(Frame(RENEW, lane))
        return max(0, share - state.tasks)

    def memory(self, lane: int) -> int | None:
        return self._lanes[lane].memory

    @property
    def extent(self) -> int:
        return self._extent

    def is_up(self, lane: int) -> bool:
        return self._lanes[lane].is_up

    def is_settled(self, lane: int) -> bool:
        self._forward_stop(lane)
        return self._lanes[lane].stop_seen >= self._slots.stopped(lane)

    def wake(self) -> None:
        if self._link is not None:
            self._link.wake()

    def close(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        try:
            if self._job is None or self._has_rested(link):
                keep_link(link)
            else:
                link.close()
        except BackendError:
            link.close()
        finally:
            if self._token_file is not None:
                self._token_file.unlink(missing_ok=True)

    def _has_rested(self, link: Link) -> bool:
        """Have every station end what it runs; whether they all said so."""
        link.send(Frame(REST))
        until = time.monotonic() + REST_SECONDS
        while time.monotonic() < until:
            if any(frame.kind == RESTED for frame in link.receive(0.5)):
                return True
        return False

    def _connected(self) -> Link:
        if self._link is None:
            raise BackendError("this backend is closed", hint="open another one")
        return self._link

    def _surroundings(self, job: Job, project: Path | None, *, fresh: bool) -> Surroundings:
        own = dict(os.environ) if self._connected().is_local else {}
        self._token_file = Path(job.spool, f"{job.engine}.token")
        token = secrets.token_hex(16)
        try:
            self._token_file.write_text(token)
        except OSError as error:
            raise StoreFull(f"can't write {self._token_file}: {error.strerror}") from error
        return Surroundings(
            project=str(project or job.root),
            mark=None if project is None else mark_of(str(project)),
            token_file=str(self._token_file),
            token=token,
            version=runyard_version(),
            python=python_version(),
            environment=own | {VARIABLE: workers_seed()},
            fresh=fresh,
        )

    def _take(self, frame: Frame) -> None:
        if frame.kind == NEWS:
            self._take_news(frame.lane, frame.content)
        elif frame.kind == UP:
            self._lanes[frame.lane] = lane = _Lane()
            lane.is_up, lane.life = True, frame.number
            lane.tasks = (self._job.recycle or 0) if self._job else 0  # it may be a warm worker
            self._slots.clear(frame.lane)
            self._extent = max(self._extent, frame.lane + 1)
            self._count()
        elif frame.kind == DOWN:
            self._bury(frame.lane, frames.decode_parting(frame.content))
        elif frame.kind == NOTICE:
            self.notices.append(frame.content.decode())
        elif frame.kind == PULSE and not self._extent:
            self.lanes = max(1, min(self.most_lanes, frame.number))

    def _take_news(self, number: int, content: bytes) -> None:
        lane, told = self._lanes[number], frames.decode_tidings(content)
        if not lane.is_up or told.life >> LIFE_BITS != lane.life >> LIFE_BITS:
            return
        for item in told.items:
            self._take_item(number, item)
        task, attempt, chunk, seconds = told.running
        if task == IDLE:
            self._slots.idle(number)
        elif chunk in lane.sent:
            assert self._job is not None
            since = perf_counter() - seconds
            self._slots.pen(number)(self._job.batch, task, attempt, chunk, since)
        if lane.ending is not None and lane.ending != (task, attempt, chunk):
            lane.ending = None
        lane.stop_seen = told.stopped
        lane.memory = told.memory

    def _take_item(self, number: int, item: frames.Item) -> None:
        lane = self._lanes[number]
        if isinstance(item, Reported):
            self._stillborn = 0
            report = item.report._replace(lane=number)
            if report.finished and report.chunk in lane.sent:
                lane.sent.remove(report.chunk)
            self._ready.append(report)
        elif isinstance(item, Lost):
            self._ready.append(item.loss._replace(lane=number))
            self._start_again(number)
        elif isinstance(item, Files):
            assert self._job is not None
            unpack_tasks(item.archive, Path(self._job.folder))
        elif isinstance(item, Word):
            self.notices.append(item.text)
        else:
            raise BackendError(item.trouble.message, hint=item.trouble.hint)

    def _start_again(self, number: int) -> None:
        """The lane's worker is gone, and its station has another one."""
        lane = self._lanes[number]
        lane.life += 1
        lane.sent.clear()
        lane.tasks = 0
        lane.ending = None
        self._slots.clear(number)
        lane.stop_sent = 0

    def _bury(self, number: int, parting: frames.Parting) -> None:
        """A station is gone: say what it cost. One that its node took along costs nobody."""
        lane = self._lanes[number]
        if not lane.is_up:
            return
        note = self._slots.read(number)
        running = parting.alone and note.task != IDLE
        self._stillborn = 0 if running or not parting.alone else self._stillborn + 1
        if self._stillborn > STILLBORN_LIMIT:
            raise BackendError(
                f"workers on Ray die as soon as they start: {parting.reason}",
                hint="see Ray's own logs of the node",
            )
        if not running:
            note = note._replace(task=IDLE)
        self._ready.append(Loss.of(number, note, LossCause.WORKER_DIED, parting.reason))
        self._lanes[number] = _Lane()
        self._slots.clear(number)
        while self._extent and not self._lanes[self._extent - 1].is_up:
            self._extent -= 1
        self._count()

    def _count(self) -> None:
        self.lanes = sum(1 for lane in self._lanes[: self._extent] if lane.is_up)

    def _forward_stops(self) -> None:
        for number in range(self._extent):
            if self._lanes[number].sent:
                self._forward_stop(number)

    def _forward_stop(self, number: int) -> None:
        lane, chunk = self._lanes[number], self._slots.stopped(number)
        if lane.is_up and chunk > lane.stop_sent:
            lane.stop_sent = chunk
            with contextlib.suppress(BackendError):  # the next `poll` says so
                self._connected().send(Frame(STOP, number, chunk))


def _yard_inside(job: Job, project: Path | None) -> list[str]:
    """The yard, where it lies inside the project under whatever name: it never travels."""
    yard = Path(job.spool).parent
    if project is None or not yard.is_relative_to(project):
        return []
    return [yard.relative_to(project).as_posix()]
