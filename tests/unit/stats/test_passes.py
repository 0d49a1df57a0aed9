"""pass@k and pass^k."""

from __future__ import annotations

from itertools import combinations, product
from math import isnan
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.stats.passes import over_cases, pass_all_k, pass_at_k


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_they_are_the_means_over_all_choices_of_k(
    attempts: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(attempts)))
    chosen = list(combinations(attempts, k))
    n, passed = len(attempts), sum(attempts)
    assert pass_at_k(n, passed, k) == pytest.approx(fmean(map(any, chosen)))
    assert pass_all_k(n, passed, k) == pytest.approx(fmean(map(all, chosen)))


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_they_are_unbiased(p: float, k: int) -> None:
    n, any_of, all_of = 5, 0.0, 0.0
    for outcome in product((True, False), repeat=n):
        weight = p ** sum(outcome) * (1 - p) ** (n - sum(outcome))
        any_of += weight * pass_at_k(n, sum(outcome), k)
        all_of += weight * pass_all_k(n, sum(outcome), k)
    assert any_of == pytest.approx(1 - (1 - p) ** k)
    assert all_of == pytest.approx(p**k)


def test_cases_with_too_few_attempts_are_left_out() -> None:
    assert over_cases([(4, 2), (1, 0)], 2) == (pytest.approx(5 / 6), 1)
    assert over_cases([(4, 2), (4, 4)], 2, every=True) == (pytest.approx((1 / 6 + 1) / 2), 2)
    mean, cases = over_cases([(1, 1)], 2)
    assert isnan(mean)
    assert cases == 0


@pytest.mark.parametrize(("n", "c", "k"), [(2, 1, 3), (2, 3, 1), (2, 1, 0), (2, -1, 1)])
def test_what_can_not_be_estimated_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(UsageError, match="can't be estimated"):
        pass_at_k(n, c, k)
