from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadSpec, SpecChanged
from runyard.spec.batch import grid
from runyard.spec.codec import decode, encode
from runyard.spec.plan import Axis, Box, Plan, axis_label, distinct

sides = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 5)).map(lambda p: (p[0], p[0] + p[1])),
    min_size=1,
    max_size=4,
)


def made(replicates: int = 1, /, **lists: Any) -> Plan:
    axes = [Axis(name, "param", tuple_or_range(values)) for name, values in lists.items()]
    return Plan({}, axes, replicates)


def tuple_or_range(values: Any) -> Any:
    return values if isinstance(values, range) else tuple(values)


def cells(plan: Plan, order: Sequence[int] | None = None) -> list[bytes]:
    """What each task is, in the order given."""
    numbers = range(plan.total) if order is None else order
    return [encode([plan.replicate(n), plan.params(n)]) for n in numbers]


@given(sides)
def test_place_and_offset_are_inverse(limits: list[tuple[int, int]]) -> None:
    box = Box(tuple(low for low, _ in limits), tuple(high for _, high in limits))
    places = [box.place(offset) for offset in range(box.size)]
    assert len(set(places)) == box.size
    assert all(place in box for place in places)
    assert [box.offset(place) for place in places] == list(range(box.size))
    assert places == sorted(places)


def test_the_last_axis_turns_fastest_and_the_replicate_slowest() -> None:
    plan = made(2, a=[1, 2], b=["x", "y"])
    assert [(plan.replicate(n), *plan.params(n).values()) for n in range(plan.total)] == [
        (0, 1, "x"), (0, 1, "y"), (0, 2, "x"), (0, 2, "y"),
        (1, 1, "x"), (1, 1, "y"), (1, 2, "x"), (1, 2, "y"),
    ]  # fmt: skip


def test_a_plan_without_axes_has_its_replicates() -> None:
    plan = Plan({"x": 1}, [], 3)
    assert plan.total == 3
    assert list(plan.walk(0, 3)) == [(n, {"x": 1}) for n in range(3)]


@pytest.mark.parametrize("number", [-1, 4])
def test_a_number_beyond_the_plan_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError):
        made(a=[1, 2], b=[3, 4]).place(number)


growths = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.integers(0, 9), unique=True, max_size=3),
        st.lists(st.sampled_from("pqrstu"), unique=True, max_size=2),
        st.randoms(use_true_random=False),
    ),
    max_size=4,
)


@given(growths, st.integers(1, 2))
def test_growth_keeps_every_number_covers_what_is_new_once_and_keeps_the_authors_order(
    steps: list[tuple[int, list[int], list[str], Any]], replicates: int
) -> None:
    plan = made(replicates, a=[100], b=["old"])
    for more, a_new, b_new, shuffle in steps:
        replicates += more
        a = [*plan.axes[0].values, *(v for v in a_new if v not in plan.axes[0].values)]
        b = [*plan.axes[1].values, *(v for v in b_new if v not in plan.axes[1].values)]
        shuffle.shuffle(a)
        shuffle.shuffle(b)
        fresh = made(replicates, a=a, b=b)
        before = cells(plan)
        grown = plan.grown_to(fresh)
        assert cells(grown)[: len(before)] == before
        assert grown.total == fresh.total
        assert set(cells(grown)) == set(cells(fresh))
        assert len(set(cells(grown))) == grown.total
        assert cells(grown, list(grown.in_order())) == cells(fresh)
        assert Counter(map(grown.seed_key, range(grown.total))) == Counter(
            map(fresh.seed_key, range(fresh.total))
        )
        plan = Plan.from_data(decode(encode(grown.to_data())))
        assert cells(plan) == cells(grown)
        assert list(plan.in_order()) == list(grown.in_order())


@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 3))
def test_a_range_grows_at_its_end(old: int, more: int, replicates: int) -> None:
    fresh = made(replicates, n=range(old + more))
    grown = made(1, n=range(old)).grown_to(fresh)
    assert cells(grown, list(grown.in_order())) == cells(fresh)
    assert cells(grown)[:old] == cells(made(1, n=range(old)))


def test_a_range_may_grow_into_a_list() -> None:
    grown = made(n=range(3)).grown_to(made(n=[5, 0, 1, 2]))
    assert [grown.params(n)["n"] for n in grown.in_order()] == [5, 0, 1, 2]
    assert [grown.params(n)["n"] for n in range(4)] == [0, 1, 2, 5]


def test_the_same_plan_again_is_no_growth() -> None:
    plan = made(2, a=[1, 2])
    assert cells(plan.grown_to(made(2, a=[1, 2]))) == cells(plan)


@given(st.data())
def test_walking_gives_what_asking_for_each_task_gives(data: st.DataObject) -> None:
    plan = data.draw(
        st.sampled_from(
            [
                made(3, a=range(7)),
                made(2, a=[1, 2, 3], b=["x", "y"]),
                made(2, a=[1]).grown_to(made(3, a=[2, 1])),
                Plan({"k": 1}, [Axis("v", "variant", ({"x": 1}, {"x": [2]}))], 2),
                Plan({}, [Axis("x", "item", ((1, 0), ("a", 0), (1, 1)))], 1),
                Plan({"k": 1}, [Axis("x", "item", (([1], 0), (2, 0)))], 1),
            ]
        )
    )
    low = data.draw(st.integers(0, plan.total))
    high = data.draw(st.integers(low, plan.total))
    assert list(plan.walk(low, high)) == [(n, plan.params(n)) for n in range(low, high)]


def test_a_million_tasks_are_described_and_not_listed() -> None:
    tracemalloc.start()
    plan = made(1000, a=range(1000))
    data = encode(plan.to_data())
    last = plan.params(plan.total - 1), plan.replicate(plan.total - 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.total == 1_000_000
    assert last == ({"a": 999}, 999)
    assert len(data) < 300
    assert peak < 500_000
    assert isinstance(plan.in_order(), range)


def test_growing_a_range_costs_the_same_however_long_it_is() -> None:
    tracemalloc.start()
    grown = made(1, a=range(1_000_000)).grown_to(made(1, a=range(1_000_010)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown.total == 1_000_010
    assert peak < 1_000_000


def test_a_plan_survives_being_recorded() -> None:
    fixed = {"x": 1.5, "y": (1, 2), "z": [None, b"b"]}
    axes = [
        Axis("variant", "variant", ({"a": 1}, {"a": 2})),
        Axis("case", "case", ({"b": (1,)},)),
        Axis("n", "param", range(0, 10, 3)),
        Axis("item", "item", ((5, 0), (5, 1))),
    ]
    plan = Plan(fixed, axes, 2, common_random_numbers=True)
    back = Plan.from_data(decode(encode(plan.to_data())))
    assert back.axes == plan.axes
    assert cells(back) == cells(plan)
    assert [back.seed_key(n) for n in range(back.total)] == [
        plan.seed_key(n) for n in range(plan.total)
    ]


CHANGES = [
    (
        Plan({"k": 2}, [Axis("a", "param", (1, 2))], 2),
        "parameters: recorded {'k': 1}, now {'k': 2}",
    ),
    (Plan({"k": 1}, [Axis("a", "param", (1, 2))], 1), "replicates: recorded 2, now 1"),
    (Plan({"k": 1}, [Axis("a", "param", (1, 3))], 2), "a: 2 is recorded, but now missing"),
    (Plan({"k": 1}, [Axis("b", "param", (1, 2))], 2), "axes: recorded a; now b"),
    (Plan({"k": 1}, [], 2), "axes: recorded a; now none"),
    (
        Plan({"k": 1}, [Axis("a", "param", (1, 2))], 2, common_random_numbers=True),
        "common random numbers: recorded False",
    ),
]


@pytest.mark.parametrize(("wanted", "text"), CHANGES, ids=[t.partition(":")[0] for _, t in CHANGES])
def test_a_plan_that_is_no_growth_is_refused_and_the_difference_shown(
    wanted: Plan, text: str
) -> None:
    recorded = Plan({"k": 1}, [Axis("a", "param", (1, 2))], 2)
    with pytest.raises(SpecChanged) as caught:
        recorded.grown_to(wanted)
    assert text in caught.value.message.splitlines()


def test_more_tasks_than_can_be_numbered_are_refused() -> None:
    most = 2**63 - 1
    assert made(most, a=[1]).total == most
    with pytest.raises(BadSpec, match="tasks at most"):
        made(most, a=[1, 2])
    with pytest.raises(BadSpec, match="tasks at most"):
        made(1, a=[1]).with_replicates(most + 1)
    with pytest.raises(BadSpec, match="tasks at most"):
        grid("module:function", a=range(10**30))


def test_every_difference_is_shown() -> None:
    recorded = Plan({"k": 1}, [Axis("a", "param", (1, 2))], 2)
    with pytest.raises(SpecChanged) as caught:
        recorded.grown_to(Plan({}, [Axis("a", "param", (1,))], 1))
    assert len(caught.value.message.splitlines()) == 3


def test_one_and_true_and_one_point_zero_are_three_values() -> None:
    plan = made(a=[1])
    assert plan.grown_to(made(a=[1, True, 1.0])).total == 3
    with pytest.raises(SpecChanged):
        plan.grown_to(made(a=[1.0]))


@pytest.mark.parametrize("values", [[1, 2, 1], [[1], [1]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]])
def test_a_value_that_stands_twice_on_an_axis_is_refused(values: list[Any]) -> None:
    with pytest.raises(BadSpec, match="twice") as caught:
        distinct(values, "size")
    assert "size" in caught.value.message
    assert "replicates" in str(caught.value.hint)


def test_a_variant_or_case_may_name_itself_by_its_own_parameter() -> None:
    axes = [
        Axis("variant", "variant", ({"variant": "fast", "x": 1},)),
        Axis("case", "case", ({"case": "first", "y": 2}, {"case": 3})),
    ]
    plan = Plan({}, axes, 1)
    assert plan.labels(0) == {"variant": "fast", "case": "first"}
    assert plan.labels(1) == {"variant": "fast", "case": "case=3"}


def test_labels_are_coordinates_in_words() -> None:
    axes = [
        Axis("variant", "variant", ({"name": "fast", "x": 1}, {"x": 2, "y": 3}, {})),
        Axis("n", "param", (7,)),
    ]
    plan = Plan({}, axes, 2)
    assert plan.labels(0) == {"variant": "fast", "n": 7, "replicate": 0}
    assert plan.labels(4) == {"variant": "x=2 y=3", "n": 7, "replicate": 1}
    assert axis_label(axes[0], 2) == "(default)"
    assert "replicate" not in made(a=[1]).labels(0)
