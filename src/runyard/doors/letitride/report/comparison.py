"""Compares configurations on the same cards: session n of each is dealt the same hands.

Common variation cancels out, so far fewer sessions are needed to show a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.game.money import cents
from runyard.doors.letitride.report.results import SimulationResults
from runyard.errors import UsageError
from runyard.spec.seeds import choose_root
from runyard.stats.compare import compare
from runyard.stats.compare_many import adjusted, matches
from runyard.stats.compare_result import About, Better, Comparison

METRICS = ("profit", "won", "hands", "wagered", "drawdown", "ruined")
"""Metrics for comparing sessions: profit in base bets; won and ruined are true or false."""


def comparable(paths: Sequence[str], configs: Sequence[FullConfig]) -> dict[str, FullConfig]:
    """Configurations by name, all with the same seed; refuses those that can't be paired."""
    if len(paths) < 2:
        raise UsageError("a comparison needs at least two configurations", hint="name another one")
    given = (config.simulation.random_seed for config in configs)
    seeds = {seed for seed in given if seed is not None}
    if len(seeds) > 1:
        raise UsageError(
            f"the configurations have different seeds: {', '.join(map(str, sorted(seeds)))}",
            hint="sessions are paired by seed: pass --seed",
        )
    sizes = {config.simulation.num_sessions for config in configs}
    if len(sizes) > 1:
        raise UsageError(
            f"the configurations have {' and '.join(f'{n:,}' for n in sorted(sizes))} sessions",
            hint="sessions are compared in pairs: pass --sessions",
        )
    seed = seeds.pop() if seeds else choose_root()
    both = list(zip(paths, configs, strict=True))
    names = [config.metadata.name or Path(path).stem for path, config in both]
    names = names if len(set(names)) == len(names) else list(paths)
    if len(set(names)) < len(names):
        raise UsageError("a configuration is given twice", hint="name different ones")
    return {
        name: config.with_(simulation={"random_seed": seed})
        for name, config in zip(names, configs, strict=True)
    }


def compare_results(
    found: Mapping[str, SimulationResults], metric: str = "profit", level: float = 0.95
) -> list[Comparison]:
    """Compare all pairs of configurations by session; the seats of a table are averaged."""
    sizes = {name: results.total_sessions for name, results in found.items()}
    if len(set(sizes.values())) > 1:
        raise UsageError(
            f"sessions don't pair: {', '.join(f'{n} has {size:,}' for n, size in sizes.items())}",
            hint="give --sessions",
        )
    values = {name: per_session(results, metric) for name, results in found.items()}
    better: Better = "lower" if metric in ("drawdown", "ruined") else "higher"
    return adjusted(
        [
            compare(
                values[a], values[b], paired=True, level=level, about=About(a, b, metric, better)
            )
            for a, b in matches(values)
        ]
    )


def per_session(results: SimulationResults, metric: str) -> NDArray[Any]:
    """A metric for each session, in order; with several seats, their mean."""
    found = np.concatenate([_figure(results, columns, metric) for _, columns in results.blocks()])
    return found if results.seats == 1 else found.reshape(-1, results.seats).mean(axis=1)


def _figure(results: SimulationResults, columns: dict[str, Any], metric: str) -> NDArray[Any]:
    bankroll = results.config.bankroll
    base, start = cents(bankroll.base_bet), cents(bankroll.starting_amount)
    profit = columns["final_bankroll"] - start
    figures: dict[str, NDArray[Any]] = {
        "profit": profit / base,
        "won": profit > 0,
        "hands": columns["hands_played"],
        "wagered": columns["total_wagered"] / base,
        "drawdown": columns["max_drawdown"] / base,
        "ruined": columns["stop_reason"] == 3,
    }
    return figures[metric]
