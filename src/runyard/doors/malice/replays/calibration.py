"""Compares a published batch with simulated ones: does it look like one of them?"""

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
    """A published figure and its range in simulated batches."""

    name: str
    published: float
    median: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether it is in the range of 95 of 100 simulated batches."""
        return self.low <= self.published <= self.high


@dataclass(frozen=True)
class Calibration:
    """All figures of a batch, or of several taken together."""

    folders: list[Path]
    tickets: list[int]  # of each run
    simulated: int
    figures: list[Calibrated]
    as_odd: float  # the share of simulated batches with as many figures outside, or more

    @property
    def holds(self) -> bool:
        """Whether every figure is inside its range."""
        return not self.outside

    @property
    def outside(self) -> list[str]:
        """The figures outside their range."""
        return [figure.name for figure in self.figures if not figure.inside]

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "folders": [str(each) for each in self.folders],
            "runs": len(self.tickets),
            "tickets": sum(self.tickets),
            "simulated": self.simulated,
            "inside": len(self.figures) - len(self.outside),
            "outside": self.outside,
            "as_odd": self.as_odd,
            "figures": [
                {
                    "figure": each.name,
                    "published": each.published,
                    "median": each.median,
                    "low": each.low,
                    "high": each.high,
                    "inside": each.inside,
                }
                for each in self.figures
            ],
        }


def simulate(ctx: Context, tickets: Sequence[int]) -> dict[str, float]:
    """The figures of one simulated batch; `tickets` has the number of each run."""
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
    """Simulate batches of the size of a published one; a folder of several is taken as one."""
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
    """The range ends at simulated values, so counts stay whole; it holds at least 95%."""
    ordered, last = sorted(simulated), len(simulated) - 1
    outside = int(last * (1 - LEVEL) / 2)  # on either side
    return Calibrated(
        name, published, median(ordered), low=ordered[outside], high=ordered[last - outside]
    )
