"""Comparisons of variants: false alarms between equal ones, and the power that a report states."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from bench_cells import cells_of, table_of

from runyard.reports.comparing import compare_groups
from runyard.stats.compare_result import Comparison

BENCHES = 1_000
FloatRng = np.random.Generator


def bench(
    rng: FloatRng,
    score: Callable[[float, FloatRng], float],
    variants: int,
    cases: int,
    repetitions: int,
    better: float = 0.0,
) -> list[Comparison]:
    """A simulated bench: each case has its difficulty, and the last variant may be better."""
    difficulty = rng.normal(0, 1, cases)

    def cell(v: int, c: int, r: int) -> float:
        return score(difficulty[c] + better * (v == variants - 1), rng)

    names = [f"v{n}" for n in range(variants)]
    table = table_of(cells_of(cell, names, cases, repetitions))
    return compare_groups(table.groups("score"), "score")


def passes(level: float, rng: FloatRng) -> float:
    return float(rng.random() < 1 / (1 + math.exp(-level)))


def graded(level: float, rng: FloatRng) -> float:
    return level + rng.normal(0, 0.5)


@pytest.mark.parametrize(
    ("score", "variants", "cases", "repetitions"),
    [
        (passes, 2, 40, 1),
        (graded, 2, 20, 1),
        (passes, 2, 15, 4),
        (graded, 3, 12, 1),
        (passes, 3, 12, 3),
        (passes, 2, 1, 20),
    ],
)
def test_equal_variants_give_at_most_5_percent_false_alarms(
    score: Callable[[float, FloatRng], float], variants: int, cases: int, repetitions: int
) -> None:
    rng = np.random.default_rng([2026, cases, repetitions, variants])
    alarms = sum(
        any(found.shown for found in bench(rng, score, variants, cases, repetitions))
        for _ in range(BENCHES)
    )
    # Three standard errors of a simulation of this size.
    assert alarms / BENCHES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / BENCHES)


@pytest.mark.parametrize(("cases", "repetitions"), [(30, 1), (15, 4)])
def test_a_difference_is_found_with_the_power_that_the_report_states(
    cases: int, repetitions: int
) -> None:
    rng = np.random.default_rng([7, cases])
    null = [bench(rng, graded, 2, cases, repetitions)[0] for _ in range(200)]
    detectable = float(np.mean([each.detectable for each in null]))
    found = [bench(rng, graded, 2, cases, repetitions, detectable)[0] for _ in range(BENCHES)]
    power = float(np.mean([each.winner == "v1" for each in found]))
    stated = found[0].power
    assert abs(power - stated) <= 3 * math.sqrt(stated * (1 - stated) / BENCHES) + 0.01


def test_variants_that_differ_by_case_but_not_on_average_are_no_alarm() -> None:
    """Repetitions of a case are no further evidence: 12 cases run ten times are 12 values."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(BENCHES):
        own = rng.normal(0, 1, (2, 12))
        table = table_of(
            cells_of(lambda v, c, r, own=own: own[v, c] + rng.normal(0, 0.1), ("a", "b"), 12, 10)
        )
        alarms += compare_groups(table.groups("score"), "score")[0].shown
    assert alarms / BENCHES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / BENCHES)
