"""Quantiles and histograms: exact as numpy's when small, within 0.1% when large."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.stats import Quantiles
from runyard.stats.quantiles import LIMIT, RELATIVE_ERROR

QS = [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 4096])
def test_few_distinct_values_give_numpys_own_quantiles(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    quantiles = Quantiles(values)
    assert quantiles.exact
    assert quantiles.quantiles(QS) == pytest.approx(np.quantile(values, QS).tolist(), rel=1e-14)
    assert quantiles.median == pytest.approx(np.median(values), rel=1e-14)


def test_many_values_of_which_few_are_distinct_stay_exact() -> None:
    rng = np.random.default_rng(1)
    for values in (rng.integers(-3, 4000, 200_000), np.round(rng.normal(size=200_000), 2)):
        quantiles = Quantiles(values)
        assert quantiles.exact
        assert quantiles.quantiles(QS) == pytest.approx(np.quantile(values, QS).tolist())
        distinct, counts = np.unique(values, return_counts=True)
        assert quantiles.counts() == dict(
            zip((distinct + 0.0).tolist(), counts.tolist(), strict=True)
        )


@pytest.mark.parametrize("kind", ["normal", "lognormal", "negative", "tiny", "huge", "wild"])
def test_a_sketch_is_within_its_stated_error_of_the_true_quantile(kind: str) -> None:
    rng = np.random.default_rng(2)
    values = {
        "normal": rng.normal(size=100_000),
        "lognormal": rng.lognormal(0, 4, 100_000),
        "negative": -rng.exponential(size=100_000),
        "tiny": rng.exponential(size=100_000) * 1e-300,
        "huge": rng.normal(size=100_000) * 1e307,
        "wild": 10.0 ** rng.uniform(-300, 300, 100_000) * rng.choice([-1, 1], 100_000),
    }[kind]
    quantiles = Quantiles(values)
    assert not quantiles.exact
    ordered = np.sort(values)
    ranks = rng.integers(1, len(values) - 1, 300)
    found = quantiles.quantiles(ranks / (len(values) - 1))
    for rank, got in zip(ranks.tolist(), found, strict=True):
        # Rounding the share may ask for a hair's breadth towards a neighbour.
        below, true, above = ordered[rank - 1 : rank + 2].tolist()
        hair = 1e-9 * max(above / 2 - true / 2, true / 2 - below / 2)
        assert abs(got - true) <= RELATIVE_ERROR * abs(true) + hair
    assert (quantiles.quantile(0), quantiles.quantile(1)) == (values.min(), values.max())


def test_zeros_and_both_signs_keep_their_places_in_a_sketch() -> None:
    spread = np.random.default_rng(3).exponential(size=10_000)
    quantiles = Quantiles(np.concatenate([-spread, np.zeros(10_000), spread]))
    assert not quantiles.exact
    assert quantiles.median == 0.0
    assert quantiles.quantile(0.4) == 0.0
    assert quantiles.quantile(1 / 6) == pytest.approx(-np.median(spread), rel=2e-3)
    assert quantiles.quantile(5 / 6) == pytest.approx(np.median(spread), rel=2e-3)


@pytest.mark.parametrize(("distinct", "exact"), [(LIMIT, True), (LIMIT + 1, False)])
def test_exactness_depends_on_how_many_values_are_distinct_and_not_on_their_order(
    distinct: int, exact: bool
) -> None:
    values = np.repeat(np.arange(distinct) + 0.5, 3)
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(4):
        rng.shuffle(values)
        whole = Quantiles()
        for part in np.array_split(values, 5):
            whole.add_array(part)
        assert whole.exact is exact
        seen.add(tuple(whole.quantiles(QS)))
    assert seen == {tuple(Quantiles(values).quantiles(QS))}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_quantiles_rise_and_stay_between_the_extremes_for_any_doubles(values: list[float]) -> None:
    exact, sketch = Quantiles(values), Quantiles(values)
    sketch._sketch()
    for quantiles in (exact, sketch):
        found = quantiles.quantiles(QS)
        assert found == sorted(found)
        assert (found[0], found[-1]) == (min(values), max(values))
        edges, counts = quantiles.histogram(5)
        assert counts.sum() == len(values)
        assert (counts >= 0).all()
        assert np.isfinite(edges).all()


def test_values_not_finite_are_counted_apart_and_nothing_gives_nan() -> None:
    quantiles = Quantiles([1.0, math.nan, math.inf])
    quantiles.add_array([None])
    assert (quantiles.count, quantiles.missing) == (1, 3)
    assert math.isnan(Quantiles().median)
    with pytest.raises(UsageError, match="between 0 and 1"):
        quantiles.quantile(50)


def test_a_histogram_of_exact_values_is_numpys() -> None:
    rng = np.random.default_rng(5)
    for values in (rng.integers(0, 30, 5000), np.round(rng.normal(size=5000), 2), [2.0, 2.0]):
        edges, counts = Quantiles(values).histogram(8)
        expected, expected_edges = np.histogram(values, 8)
        assert counts.tolist() == expected.tolist()
        assert edges.tolist() == expected_edges.tolist()


def test_a_histogram_of_a_sketch_is_close_to_numpys_and_loses_no_value() -> None:
    values = np.random.default_rng(6).normal(1000, 1, 200_000)
    edges, counts = Quantiles(values).histogram(10)
    expected, _ = np.histogram(values, 10)
    assert counts.sum() == len(values)
    assert edges[0] == values.min()
    assert np.abs(counts - expected).max() < 0.15 * len(values)
    spread_out = np.random.default_rng(7).normal(0, 1, 200_000)
    _, counts = Quantiles(spread_out).histogram(10)
    assert np.abs(counts - np.histogram(spread_out, 10)[0]).max() < 0.001 * len(values)
    assert Quantiles().histogram(3)[1].tolist() == [0, 0, 0]


def test_the_memory_of_a_sketch_is_bounded_by_its_bins_and_not_by_the_values() -> None:
    rng = np.random.default_rng(9)
    quantiles = Quantiles(rng.normal(size=100_000))
    before = len(quantiles._pages)
    for _ in range(5):
        quantiles.add_array(rng.normal(size=100_000))
    assert quantiles.count == 600_000
    assert len(quantiles._pages) < before * 1.3
