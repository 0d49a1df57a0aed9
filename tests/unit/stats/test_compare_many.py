from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from runyard.errors import UsageError
from runyard.stats.compare import compare
from runyard.stats.compare_many import adjusted, benjamini_hochberg, holm, matches
from runyard.stats.compare_result import About, Better, Comparison

# Benjamini and Hochberg (1995), section 4.1: thrombolysis after myocardial infarction.
MYOCARDIAL = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
    0.6528, 0.7590, 1.0000,
]  # fmt: skip


def test_the_myocardial_example_rejects_four_by_false_discovery_and_three_by_family() -> None:
    assert np.flatnonzero(benjamini_hochberg(MYOCARDIAL) <= 0.05).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(holm(MYOCARDIAL) <= 0.05).tolist() == [0, 1, 2]


def test_holm_steps_down_by_hand() -> None:
    """Four p values worked by hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, and never less than before."""
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@settings(max_examples=10)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_corrections_agree_with_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])
    assert benjamini_hochberg(ps) == pytest.approx(multipletests(ps, method="fdr_bh")[1])


def test_no_p_values_and_bad_p_values() -> None:
    assert len(holm([])) == len(benjamini_hochberg([])) == 0
    for bad in ([0.5, 1.2], [float("nan")], [-0.1]):
        with pytest.raises(UsageError):
            holm(bad)


def groups() -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    rng = np.random.default_rng(8)
    shared = rng.normal(0, 3, 200)
    shifts = {"plain": 0.0, "tuned": 0.5, "same": 0.0}
    return {name: shared + shift + rng.normal(0, 1, 200) for name, shift in shifts.items()}


def compared(baseline: str | None = None, better: Better = "higher") -> list[Comparison]:
    return [
        compare(groups()[a], groups()[b], paired=True, about=About(a, b, "score", better))
        for a, b in matches(groups(), baseline)
    ]


def test_every_pair_of_groups_is_compared_and_adjusted() -> None:
    found = adjusted(compared())
    assert [(c.a, c.b) for c in found] == [
        ("plain", "tuned"), ("plain", "same"), ("tuned", "same"),
    ]  # fmt: skip
    assert [c.winner for c in found] == ["tuned", None, "tuned"]
    assert [c.p_adjusted for c in found] == pytest.approx(holm([c.p for c in found]).tolist())


def test_each_group_is_compared_with_the_baseline() -> None:
    found = adjusted(compared("plain", "lower"), "bh")
    assert [(c.a, c.b) for c in found] == [("tuned", "plain"), ("same", "plain")]
    assert found[0].effect > 0
    assert found[0].winner == "plain"
    assert found[0].correction == "Benjamini-Hochberg"


def test_without_correction_or_with_one_comparison_nothing_is_adjusted() -> None:
    assert all(c.p_adjusted is None for c in adjusted(compared(), None))
    assert adjusted(compared()[:1])[0].p_adjusted is None


def test_an_unknown_correction_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown correction"):
        adjusted(compared(), "bonferroni")  # type: ignore[arg-type]
