"""A plan that is given more replicates: the same tasks, seeds and numbers as one that had them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runyard.spec.plan import Axis, Plan


def plan(xs: list[int], replicates: int) -> Plan:
    return Plan({"k": 1}, [Axis("x", "param", tuple(xs))], replicates)


def tasks(found: Plan) -> list[tuple[object, tuple[bytes, int]]]:
    """Every task in the author's order."""
    return [(found.params(n), found.seed_key(n)) for n in found.in_order()]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_growing_step_by_step_is_one_box(steps: list[int]) -> None:
    found, total = plan([1, 2, 3], 1), 1
    for step in steps:
        total += step
        found = found.grown_to(found.with_replicates(total))
    assert len(found.boxes) == 1
    assert found.in_order() == range(found.total)
    assert tasks(found) == tasks(plan([1, 2, 3], total))


GROWTH = st.lists(st.tuples(st.sampled_from("xr"), st.integers(0, 9)), max_size=6)


@given(GROWTH)
def test_whatever_way_it_grew_no_task_changes_its_number(growth: list[tuple[str, int]]) -> None:
    xs, replicates = [5], 2
    found = plan(xs, replicates)
    for what, number in growth:
        before = [(found.params(n), found.seed_key(n)) for n in range(found.total)]
        if what == "x" and number not in xs:
            xs = [number, *xs]
        elif what == "r":
            replicates += number
        wanted = plan(xs, replicates) if what == "x" else found.with_replicates(replicates)
        found = found.grown_to(wanted)
        now = [(found.params(n), found.seed_key(n)) for n in range(len(before))]
        assert now == before
    assert sum(box.size for box in found.boxes) == len(xs) * replicates == found.total
    assert tasks(found) == tasks(plan(xs, replicates))
    assert Plan.from_data(found.to_data()).boxes == found.boxes


def test_results_are_told_apart_by_variants_and_parameters_not_by_cases() -> None:
    axes = [
        Axis("variant", "variant", ({"a": 1}, {"a": 2})),
        Axis("case", "case", ({"b": 1}, {"b": 2})),
        Axis("x", "param", (1, 2)),
    ]
    assert Plan({}, axes, 1).group_axes() == ["variant", "x"]
    assert Plan({}, [Axis("case", "param", (1, 2))], 1).group_axes() == ["case"]
