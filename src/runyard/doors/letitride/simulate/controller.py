"""Runs simulations: a configuration becomes a batch of blocks of sessions.

FullConfig ──▶ SimulationJob ──▶ batch of blocks ──▶ Yard ──▶ SimulationResults
                       │ each reports its progress from its worker
                       └──▶ progress_callback(completed, total)
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from runyard.attempt.context import Context
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine import blocks
from runyard.doors.letitride.engine.blocks import DONE, SimulationJob, job_of
from runyard.doors.letitride.engine.play import Warmth, game_from, warm_up
from runyard.doors.letitride.engine.reference import Players, players_of
from runyard.doors.letitride.game.betting import BettingSystem
from runyard.doors.letitride.game.bonus import BonusStrategy
from runyard.doors.letitride.game.strategies import Strategy
from runyard.doors.letitride.report.results import SessionSequence, SimulationResults
from runyard.errors import NotFound, TasksFailed
from runyard.events import Event, TaskEmitted
from runyard.reports.progress import ShowProgress
from runyard.spec.batch import Batch, grid
from runyard.spec.codec import encode
from runyard.spec.fingerprint import fingerprint
from runyard.spec.names import slug
from runyard.spec.seeds import check_root, choose_root
from runyard.yard import Yard

ProgressCallback = Callable[[int, int], None]
FEWEST_CALLS = 20
"""The least number of calls of a progress callback during a run."""


class SimulationController:
    """Runs the sessions of a configuration and records them in a yard.

    A session depends on its seed alone: results are the same with any number of workers on any
    backend. Recorded sessions are not run again. `strategy`, `betting_system` and `bonus_strategy`
    take your own classes; each is called to make a new instance for every session and seat.
    """

    def __init__(
        self,
        config: FullConfig | Mapping[str, Any],
        workers: int | None = None,
        *,
        backend: str | None = None,
        yard: Yard | str | Path | None = None,
        strategy: Callable[[], Strategy] | None = None,
        betting_system: Callable[[], BettingSystem] | None = None,
        bonus_strategy: Callable[[], BonusStrategy | None] | None = None,
    ) -> None:
        """Prepare a simulation; `workers` and `backend` override the configuration.

        One worker runs in this process, unless a backend is given.
        """
        # Checked again, since a configuration can be built without being read.
        data = config.to_data() if isinstance(config, FullConfig) else config
        self.config = FullConfig.from_data(data)
        asked = self.config.simulation.workers
        self.workers = workers if workers is not None else None if asked == "auto" else asked
        self.backend = backend or ("serial" if self.workers == 1 else "processes")
        self._yard = yard if isinstance(yard, Yard) else Yard(yard)
        own = {"strategy": strategy, "betting": betting_system, "bonus": bonus_strategy}
        self._own: dict[str, Callable[[], Any]] = {k: made for k, made in own.items() if made}

    @property
    def has_own_players(self) -> bool:
        """Whether a user's own class plays, which needs the reference engine."""
        return bool(self._own)

    def job(self, *, open_end: bool = False) -> SimulationJob:
        """The job with its root seed: the configured, the recorded or a new random one."""
        seed = self.config.simulation.random_seed
        job = job_of(self.config, -1, own_players=self.has_own_players, open_end=open_end)
        if seed is None:
            seed = self._recorded_seed(self._name(job))
        seed = choose_root() if seed is None else check_root(seed)
        return msgspec.structs.replace(job, seed=seed)

    def batch(self, job: SimulationJob) -> Batch:
        """The batch of a job."""
        name = self._name(
            msgspec.structs.replace(job, seed=-1)
            if self.config.simulation.random_seed is None
            else job
        )
        call: Callable[..., Any] = blocks.play_block
        if self._own:
            call = _played_by(self._players(job))
        params = msgspec.structs.asdict(job)
        return grid(call, params=params, replicates=job.blocks, seed=job.seed, name=name)

    def warm_up(self, job: SimulationJob) -> Warmth:
        """Prepare the kernel before workers start, so that it is compiled once."""
        return Warmth(0.0, compiled=False) if self._own else warm_up(game_from(job.game))

    def run(
        self,
        progress_callback: ProgressCallback | None = None,
        *,
        progress: ShowProgress = None,
        fresh: bool = False,
    ) -> SimulationResults:
        """Play all sessions that are not yet recorded.

        `progress_callback` gets (completed, total), increasing up to the total.
        """
        job = self.job()
        self.warm_up(job)
        return self.run_batch(self.batch(job), job, progress_callback, progress, fresh)

    def run_batch(
        self,
        batch: Batch,
        job: SimulationJob,
        progress_callback: ProgressCallback | None = None,
        progress: ShowProgress = None,
        fresh: bool = False,
    ) -> SimulationResults:
        """Run the batch of a job; raise if blocks failed."""
        there = 0 if fresh or progress_callback is None else self.recorded_sessions(batch, job)
        counter = Counter(self.config, job, progress_callback, there)
        result = self._yard.run(
            batch, backend=self.backend, workers=self.workers, progress=progress,
            on_event=counter.hear if progress_callback else None, fresh=fresh,
        )  # fmt: skip
        stats = result.stats
        if stats.failed:
            first = result.failures()[0]
            raise TasksFailed(
                f"{stats.failed} of {stats.total} blocks of sessions failed; "
                f"{first.kind}: {first.message}",
                hint=f"runyard results {result.name} --failures",
                result=result,
            )
        if stats.completed == stats.total:
            counter.finish()
        return SimulationResults(self.config, result)

    def recorded_blocks(self, batch: Batch) -> int:
        """The number of recorded blocks of a batch."""
        try:
            plan = self._yard.recorded(batch.record_name).plan
        except NotFound:
            return 0
        return plan.replicates if plan is not None else 0

    def recorded_sessions(self, batch: Batch, job: SimulationJob) -> int:
        """The number of recorded sessions of a batch."""
        try:
            done = self._yard.results(batch.record_name).stats.completed
        except NotFound:
            return 0
        return done * job.size if job.sessions is None else min(done * job.size, job.sessions)

    def _players(self, job: SimulationJob) -> Players:
        built_in = players_of(game_from(job.game))
        return Players(
            **{
                name: self._own.get(name, getattr(built_in, name))
                for name in Players.__match_args__
            }
        )

    def _name(self, job: SimulationJob) -> str:
        code = [fingerprint(made) for made in self._own.values()]
        content = encode([msgspec.structs.asdict(job), sorted(self._own), code])
        label = slug(self.config.metadata.name or "letitride")[:40]
        return f"{label}-{hashlib.sha256(content).hexdigest()[:8]}"

    def _recorded_seed(self, name: str) -> int | None:
        try:
            return self._yard.recorded(name).seed
        except NotFound:
            return None


def _played_by(players: Players) -> Callable[..., dict[str, Any]]:
    def play_block(
        ctx: Context, game: dict[str, Any], seed: int, sessions: int | None, size: int, log: bool
    ) -> dict[str, Any]:
        return blocks.block_value(ctx, SimulationJob(game, seed, sessions, size, log), players)

    return play_block


class Counter:
    """Adds up the progress of blocks, and calls a progress callback with increasing numbers."""

    def __init__(
        self,
        config: FullConfig,
        job: SimulationJob,
        callback: ProgressCallback | None,
        there: int = 0,
    ) -> None:
        """Start from the number of recorded sessions."""
        self.total = job.sessions or 0
        self._interval = min(config.simulation.progress_interval, -(-self.total // FEWEST_CALLS))
        self._callback = callback
        self._done: dict[int, int] = {}
        self._sum = self._told = there
        self._lock = threading.Lock()

    def hear(self, event: Event) -> None:
        """Handle an event of the batch."""
        if not isinstance(event, TaskEmitted) or event.kind != DONE:
            return
        with self._lock:
            before = self._done.get(event.task, 0)
            now = max(before, int(event.data["done"]))  # an attempt that starts over reports less
            self._done[event.task] = now
            self._sum += now - before
            if self._told + self._interval <= self._sum < self.total:
                self._tell(self._sum)

    def finish(self) -> None:
        """Report that every session is recorded."""
        with self._lock:
            self._tell(self.total)

    def _tell(self, done: int) -> None:
        self._told = done
        if self._callback is not None:
            self._callback(done, self.total)


class ParallelExecutor:
    """Plays the sessions of a configuration on several workers."""

    def __init__(
        self, workers: int | None = None, *, yard: Yard | str | Path | None = None
    ) -> None:
        self.workers = workers
        self._yard = yard

    def run_sessions(
        self, config: FullConfig, progress_callback: ProgressCallback | None = None
    ) -> SessionSequence:
        """Return every session's result, in order; by default on all cores."""
        workers, backend = self.workers, "processes"
        made = SimulationController(config, workers, backend=backend, yard=self._yard)
        return made.run(progress_callback).session_results
