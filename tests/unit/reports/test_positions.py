"""Where tasks stand: the arithmetic on whole ranges agrees with the plan, task by task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runyard.reports.coordinates import positions
from runyard.reports.export import heads
from runyard.reports.text import aligned
from runyard.spec.plan import Axis, Plan

SIDES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def plan(sides: list[int], replicates: int) -> Plan:
    axes = [Axis(f"a{n}", "param", tuple(range(side))) for n, side in enumerate(sides)]
    return Plan({}, axes, replicates)


@given(SIDES, SIDES, st.integers(1, 3), st.integers(0, 3), st.data())
def test_positions_are_those_of_each_task(
    sides: list[int], more: list[int], replicates: int, added: int, data: st.DataObject
) -> None:
    grown = [a + b - 1 for a, b in zip(sides, more + [1] * len(sides), strict=False)]
    found = plan(sides, replicates).grown_to(plan(grown, replicates + added))
    low = data.draw(st.integers(0, found.total))
    high = data.draw(st.integers(low, found.total))
    for axis in range(len(sides) + 1):
        expected = [found.place(task)[axis] for task in range(low, high)]
        assert positions(found, axis, low, high).tolist() == expected


NAMES = st.lists(st.sampled_from(["a", "b", "p.a", "p.p.a", "p.b", ""]), unique=True)


@given(NAMES, st.sets(st.sampled_from(["a", "p.a", "b"])))
def test_heads_are_all_different_and_none_is_taken(names: list[str], taken: set[str]) -> None:
    found = heads(names, taken, "p")
    assert len(found) == len(set(found)) == len(names)
    assert not taken & set(found)
    assert all(head.endswith(name) for head, name in zip(found, names, strict=True))


def test_columns_are_aligned_and_the_last_gives_way() -> None:
    lines = aligned(["name", "n", "text"], [["a", "1", "x" * 50], ["bcdef", "20", "y"]], {1}, 30)
    assert lines == ["name    n  text", "a       1  " + "x" * 18 + "…", "bcdef  20  y"]
