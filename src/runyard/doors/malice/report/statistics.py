"""Statistics of the runs of a batch: rates with Wilson intervals, distributions, winners."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from runyard.doors.malice.run.record import RecordedRun
from runyard.doors.malice.society.state import MALLORY
from runyard.stats import Moments, Quantiles, Rate

Records = Sequence[RecordedRun]
NONE = "none"
SELF_VOTE_ALONE = 0.2
"""Mallory's score if only she has voted for her."""


def rate(successes: int, total: int) -> dict[str, Any]:
    """A rate with its confidence interval."""
    found = Rate(successes, total)
    if not total:
        return {"successes": successes, "total": 0, "rate": None, "low": None, "high": None}
    interval = found.interval()
    return {
        "successes": successes,
        "total": total,
        "rate": found.value,
        "low": interval.low,
        "high": interval.high,
    }


def distribution(values: Sequence[float]) -> dict[str, Any]:
    """Statistics of a distribution; None if there are too few values."""
    moments, quantiles = Moments(values, order=2), Quantiles(values)
    found = {
        "count": moments.count,
        "mean": moments.mean,
        "median": quantiles.median,
        "stdev": moments.sd if moments.count != 1 else 0.0,
        "min": moments.minimum,
        "max": moments.maximum,
    }
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def mallory_rates(batches: Sequence[Records]) -> dict[str, Any]:
    """How often mallory was a BINDER: at the end and ever, of all runs and of all batches."""
    runs = [record for records in batches for record in records]
    held = [records for records in batches if records]
    return {
        when: {
            "runs": rate(sum(record[field] for record in runs), len(runs)),
            "batches": rate(sum(any(r[field] for r in records) for records in held), len(held)),
        }
        for when, field in (("final", "mallory_became_binder"), ("ever", "mallory_ever_binder"))
    }


def winners(records: Records) -> dict[str, int]:
    """How many runs each user won, including `none`."""
    found = Counter(record["winner"] or NONE for record in records)
    return dict(sorted(found.items(), key=lambda each: (each[0] == NONE, -each[1], each[0])))


def gate_rate(records: Records) -> dict[str, Any]:
    """The share of mallory's messages that a gate blocked."""
    said = sum(r["user_final_states"].get(MALLORY, {}).get("messages_sent", 0) for r in records)
    return rate(sum(r["mallory_messages_blocked"] for r in records), said)


def immune_reliability(records: Records) -> dict[str, Any]:
    """The runs in which the immune system adjusted exactly once."""
    return rate(sum(r["immune_adjustments"] == 1 for r in records), len(records))


def _demoted_median(records: Records) -> float:
    """The median ticket at which mallory was demoted, counted from 0 like in the dataset."""
    at = [r["mallory_demoted_at"] - 1 for r in records if r["mallory_demoted_at"] is not None]
    return Quantiles(at).median


FIGURES: dict[str, Callable[[Records], float]] = {
    "promotions to BINDER": lambda runs: sum(r["promotions"] for r in runs),
    "runs in which mallory ends with 0.2": lambda runs: sum(
        math.isclose(r["mallory_final_score"], SELF_VOTE_ALONE) for r in runs
    ),
    "mallory's final score, mean": lambda runs: _mean(runs, "mallory_final_score"),
    "mallory's reputation, mean": lambda runs: _mean(runs, "mallory_reputation"),
    "mallory demoted, median ticket": _demoted_median,
    "demotions of others": lambda runs: sum(r["demotions_of_others"] for r in runs),
    "CIVIL blocks": lambda runs: sum(r["civil_gate_blocks"] for r in runs),
    "votes counted": lambda runs: sum(r["votes_counted"] for r in runs),
    "votes ignored as duplicates": lambda runs: sum(
        r["votes_ignored"].get("duplicate", 0) for r in runs
    ),
    "runs with mallory ever BINDER": lambda runs: sum(r["mallory_ever_binder"] for r in runs),
    "immune adjustments": lambda runs: sum(r["immune_adjustments"] for r in runs),
    "runs adjusted at ticket 8, LOW, three agents": lambda runs: sum(
        r["immune"] == [[8, "LOW", ["dave", "eve", "zara"]]] for r in runs
    ),
}
"""The published figures, each computed from the records of all runs."""


def figures(records: Records) -> dict[str, float]:
    """Every published figure of these runs."""
    return {name: float(figure(records)) for name, figure in FIGURES.items()}


def _mean(records: Records, field: str) -> float:
    return Moments([record[field] for record in records], order=1).mean
