"""Cohen's kappa, against statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from runyard.errors import UsageError
from runyard.stats.agreement import Weights, cohen_kappa


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_and_its_interval_are_those_of_statsmodels(seed: int, weights: Weights) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 80)
    second = np.where(rng.random(80) < 0.6, first, rng.integers(0, 4, 80))
    found = cohen_kappa(first.tolist(), second.tolist(), weights)
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    expected = cohens_kappa(table, wt=None if weights == "none" else weights)
    assert found.kappa == pytest.approx(expected.kappa)
    if weights == "none":
        assert found.interval is not None
        assert found.interval.half == pytest.approx(1.959964 * expected.std_kappa, rel=1e-5)


def test_known_values() -> None:
    same = cohen_kappa([1, 0, 1, 0], [1, 0, 1, 0])
    assert (same.kappa, same.observed, same.items) == (1.0, 1.0, 4)
    assert cohen_kappa([1, 0, 1, 0], [0, 1, 0, 1]).kappa == -1.0
    assert cohen_kappa([1, 1, 0, 0], [1, 0, 1, 0]).kappa == 0.0


def test_a_missing_rating_is_counted_and_no_rating() -> None:
    found = cohen_kappa(["good", "bad", None, "good"], ["good", "bad", "bad", None])
    assert (found.items, found.missing, found.kappa) == (2, 2, 1.0)
    assert "2 without both ratings" in found.words()


def test_ratings_that_never_vary_have_no_kappa() -> None:
    found = cohen_kappa([1, 1], [1, 1])
    assert math.isnan(found.kappa)
    assert found.to_data()["kappa"] is None
    assert "undefined" in found.words()


def test_unequal_lengths_and_nothing_to_compare_are_refused() -> None:
    with pytest.raises(UsageError, match="can't be matched"):
        cohen_kappa([1], [1, 2])
    with pytest.raises(UsageError, match="no item"):
        cohen_kappa([None], [1])
