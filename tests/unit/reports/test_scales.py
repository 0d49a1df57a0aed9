"""Ticks of a chart: round, few, and with room for their labels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runyard.reports.html.charts import MOST_TICKS, NARROWEST, Scale

_values = st.floats(-1e13, 1e13) | st.floats(-1e-3, 1e-3)


@given(st.lists(_values, min_size=1, max_size=5), st.booleans())
def test_labels_of_ticks_have_room_next_to_each_other(values: list[float], zero: bool) -> None:
    scale = Scale.over(values, zero=zero)
    assert 1 <= len(scale.ticks) == len(scale.labels) <= MOST_TICKS + 1
    assert scale.has_room()
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)


@given(st.floats(1e-7, 1e9), st.floats(1, 1e12))
def test_labels_of_time_spans_have_room(low: float, factor: float) -> None:
    scale = Scale.of_seconds(low, low * factor)
    assert scale.ticks
    assert scale.has_room()


def test_short_labels_keep_their_ticks_and_long_ones_make_way() -> None:
    assert Scale.over((0, 100)).labels == ("0", "25", "50", "75", "100")
    assert Scale.over((-1.7e9, 2.3e9)).labels == ("0", "2,000,000,000")
    assert len(Scale.over((-1.7e9, 2.3e9), width=3 * NARROWEST).labels) == 4


def test_a_label_at_an_end_does_not_reach_far_over_it() -> None:
    scale = Scale.over((0, 2e9), margin=0.0)
    anchors = [scale.anchor(*pair) for pair in zip(scale.ticks, scale.labels, strict=True)]
    assert anchors[0] == "middle", "a nought is short"
    assert anchors[-1] == "end"
