"""Simulated batches beside a published one: does what was published look like one of them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from runyard.attempt.context import Context
from runyard.doors.malice.logs.dataset import batch_folders
from runyard.doors.malice.replays.replay import replay
from runyard.doors.malice.report.statistics import FIGURES, figures
from runyard.doors.malice.run.experiment import Config, MaliceExperiment
from runyard.errors import EngineError
from runyard.spec.batch import batch
from runyard.yard import Yard

BATCHES = 200
LEVEL = 0.95


@dataclass(frozen=True)
class Calibrated:
    """One published figure among the simulated ones."""

    name: str
    published: float
    median: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether it lies where 95 of 100 simulated batches do."""
        return self.low <= self.published <= self.high


@dataclass(frozen=True)
class Calibration:
    """Every figure of a batch, or of several taken together."""

    folders: list[Path]
    tickets: list[int]  # of each run
    simulated: int
    figures: list[Calibrated]
    as_odd: float  # the share of simulated batches with as many figures outside, or more

    @property
    def holds(self) -> bool:
        """Whether every figure lies inside."""
        return all(figure.inside for figure in self.figures)


def simulate(ctx: Context, tickets: Sequence[int]) -> dict[str, float]:
    """The figures of one simulated batch with a run of so many tickets each."""
    seeds = ctx.rng.integers(0, 2**63, len(tickets)).tolist()
    return figures(
        [
            MaliceExperiment(Config(run_id=number, seed=seed, tickets=count)).run()
            for number, (seed, count) in enumerate(zip(seeds, tickets, strict=True), start=1)
        ]
    )


def calibrate(
    folder: str | Path,
    *,
    batches: int = BATCHES,
    seed: int = 0,
    yard: Yard | str | Path | None = None,
    **place: Any,
) -> Calibration:
    """Simulate batches of a published one's size; a folder of several is taken as one."""
    folders = batch_folders(Path(folder))
    records = [record for each in folders for record in replay(each).records]
    tickets = [record["tickets_processed"] for record in records]
    described = batch(
        simulate, params={"tickets": tickets}, replicates=batches, seed=seed,
        common_random_numbers=True,
    )  # fmt: skip
    home = yard if isinstance(yard, Yard) else Yard(yard)
    result = home.run(described, **place)
    simulated = list(result.values())
    if len(simulated) < batches:
        raise EngineError(
            f"{len(simulated)} of {batches} simulated batches completed",
            hint=f"see: runyard results {result.name}",
        )
    published = figures(records)
    found = [_calibrated(name, published[name], [s[name] for s in simulated]) for name in FIGURES]
    outside = sum(not figure.inside for figure in found)
    odd = sum(_outside(each, found) >= outside for each in simulated)
    return Calibration(folders, tickets, batches, found, odd / batches)


def _outside(batch: Mapping[str, float], figures: Sequence[Calibrated]) -> int:
    return sum(not figure.low <= batch[figure.name] <= figure.high for figure in figures)


def _calibrated(name: str, published: float, simulated: Sequence[float]) -> Calibrated:
    """Counts stay counts: the range ends at simulated values, and holds at least so many."""
    ordered, last = sorted(simulated), len(simulated) - 1
    outside = int(last * (1 - LEVEL) / 2)  # on either side
    return Calibrated(
        name, published, median(ordered), low=ordered[outside], high=ordered[last - outside]
    )
