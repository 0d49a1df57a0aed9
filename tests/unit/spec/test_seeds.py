from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadSpec
from runyard.spec.batch import batch, grid, items, tasks
from runyard.spec.plan import Plan
from runyard.spec.seeds import check_root, choose_root, key_of, number, sequence
from runyard.spec.task import Task

KNOWN = [
    (7, {"coins": 10}, 0, "23b6a478963f6db2525a3066b885b822", 3015919360430019428),
    (7, {"coins": 10}, 1, "23b6a478963f6db2525a3066b885b822", 7309224819750107100),
    (7, {"coins": 100}, 0, "66405236d80124dc575694f194c1f075", 4264116395880090470),
    (8, {"coins": 10}, 0, "23b6a478963f6db2525a3066b885b822", 2688280190523951810),
    (0, {}, 0, "76be8b528d0075f7aae98d6fa57a6d3c", 15671924251598489238),
    (
        2**80,
        {"a": [1.5, "x", None, (1, 2)], "b": {"c": b"z"}},
        3,
        "01a4c57116450d4f30f5925b2b15008d",
        12846196824459127663,
    ),
]


def toss(ctx: Any, coins: int = 1, side: str = "") -> int:
    return int(ctx.rng.integers(0, 2, coins).sum())


def seed_of(plan: Plan, task: int, root: int = 7) -> int:
    return number(root, *plan.seed_key(task))


def plan_of(**lists: Any) -> Plan:
    made = grid(toss, seed=7, **lists).plan
    assert made is not None
    return made


@pytest.mark.parametrize(("root", "params", "replicate", "key", "seed"), KNOWN)
def test_seeds_are_those_that_earlier_versions_derived(
    root: int, params: dict[str, Any], replicate: int, key: str, seed: int
) -> None:
    assert key_of(params).hex() == key
    assert number(root, key_of(params), replicate) == seed


def test_random_numbers_are_those_that_earlier_versions_gave() -> None:
    generator = np.random.Generator(np.random.PCG64(sequence(7, key_of({"coins": 10}), 0)))
    assert generator.integers(0, 1000, 5).tolist() == [84, 438, 662, 387, 404]


def test_a_task_of_a_grid_has_the_seed_of_its_parameters_and_replicate() -> None:
    plan = plan_of(coins=[10, 100], replicates=2)
    assert seed_of(plan, 0) == KNOWN[0][4]
    assert seed_of(plan, 1) == KNOWN[2][4]
    assert seed_of(plan, 2) == KNOWN[1][4]


@given(st.permutations(range(6)), st.integers(1, 6), st.integers(1, 3))
def test_order_count_and_position_play_no_part_in_a_seed(
    order: list[int], count: int, replicates: int
) -> None:
    small = plan_of(coins=order[:count], replicates=replicates)
    large = plan_of(coins=list(range(6)), replicates=3)
    known = {
        (large.params(n)["coins"], large.replicate(n)): seed_of(large, n)
        for n in range(large.total)
    }
    for n in range(small.total):
        assert seed_of(small, n) == known[small.params(n)["coins"], small.replicate(n)]


def test_the_order_in_which_parameters_are_named_plays_no_part() -> None:
    one, other = plan_of(coins=[1, 2], side=["a"]), plan_of(side=["a"], coins=[1, 2])
    assert [seed_of(one, n) for n in (0, 1)] == [seed_of(other, n) for n in (0, 1)]


def test_a_fixed_parameter_counts_like_a_varied_one() -> None:
    varied = plan_of(coins=[1], side=["a"])
    fixed = plan_of(coins=[1], params={"side": "a"})
    assert seed_of(varied, 0) == seed_of(fixed, 0)


def test_a_hundred_thousand_tasks_have_as_many_seeds() -> None:
    plan = plan_of(coins=range(5_000), replicates=20)
    keys = [plan.seed_key(n)[0] for n in range(5_000)]
    assert len(set(keys)) == 5_000
    picked = random.Random(1).sample(keys, 500)
    seeds = {number(7, key, replicate) for key in picked for replicate in range(20)}
    assert len(seeds) == 10_000
    pairs = {plan.seed_key(n) for n in range(plan.total)}
    assert len(pairs) == plan.total == 100_000


def test_another_root_seed_changes_every_seed() -> None:
    plan = plan_of(coins=range(200))
    one, other = ({seed_of(plan, n, root) for n in range(200)} for root in (7, 8))
    assert len(one) == len(other) == 200
    assert not one & other


def test_with_common_random_numbers_variants_share_the_stream_of_a_case() -> None:
    variants = [{"side": "a"}, {"side": "b"}]
    cases = [{"coins": 1}, {"coins": 2}]
    made = batch(toss, variants, cases, replicates=3, seed=7, common_random_numbers=True)
    plan = made.plan
    assert plan is not None
    streams: dict[tuple[Any, int], set[int]] = {}
    for n in range(plan.total):
        cell = plan.params(n)["coins"], plan.replicate(n)
        streams.setdefault(cell, set()).add(seed_of(plan, n))
    assert [len(seeds) for seeds in streams.values()] == [1] * 6
    assert len({seed for seeds in streams.values() for seed in seeds}) == 6


def test_with_common_random_numbers_a_grid_shares_one_stream_a_replicate() -> None:
    plan = plan_of(coins=[1, 2, 3], side=["a", "b"], replicates=2, common_random_numbers=True)
    seeds = [seed_of(plan, n) for n in range(plan.total)]
    assert len(set(seeds[:6])) == 1
    assert len(set(seeds[6:])) == 1
    assert seeds[0] != seeds[6]


def test_a_new_variant_leaves_the_common_streams_as_they_are() -> None:
    def plan(*sides: str) -> Plan:
        variants = [{"side": side} for side in sides]
        cases = [{"coins": 1}]
        made = batch(toss, variants, cases, seed=7, common_random_numbers=True)
        assert made.plan is not None
        return made.plan

    assert seed_of(plan("a"), 0) == seed_of(plan("b", "a", "c"), 1)


def test_equal_items_of_a_map_have_seeds_of_their_own() -> None:
    made = items(toss, [5, 5, 6, 5], parameter="coins", seed=7)
    assert made.plan is not None
    seeds = [seed_of(made.plan, n) for n in range(4)]
    assert len(set(seeds)) == 4
    alone = items(toss, [6], parameter="coins", seed=7).plan
    assert alone is not None
    assert seed_of(alone, 0) == seeds[2]


def test_a_range_and_a_list_of_the_same_items_have_the_same_seeds() -> None:
    one = items(toss, range(3), parameter="coins", seed=7).plan
    other = items(toss, [0, 1, 2], parameter="coins", seed=7).plan
    assert one is not None
    assert other is not None
    assert [seed_of(one, n) for n in range(3)] == [seed_of(other, n) for n in range(3)]


def test_a_listed_task_has_the_seed_of_its_name_and_parameters_wherever_it_stands() -> None:
    def listed(*given: Task) -> list[tuple[bytes, int]]:
        return [task.seed_key() for task in tasks(given, seed=7).listed]

    first = Task(toss, {"coins": 1}, "first", priority="high", timeout=3, retries=2)
    second = Task(toss, {"coins": 1}, "second", after=("first",))
    plain = Task(toss, {"coins": 1})
    one = listed(first, second, plain)
    assert len(set(one)) == 3
    assert listed(plain, second, Task(toss, {"coins": 1}, "first")) == [one[2], one[1], one[0]]


def test_a_root_seed_is_a_whole_number_from_zero_up() -> None:
    assert check_root(0) == 0
    assert check_root(2**200) == 2**200
    for wrong in (-1, 1.5, "7", True, None):
        with pytest.raises(BadSpec, match="seed"):
            check_root(wrong)


def test_a_chosen_root_seed_fits_a_signed_integer_of_64_bits() -> None:
    chosen = {choose_root() for _ in range(100)}
    assert len(chosen) == 100
    assert all(0 <= seed < 2**63 for seed in chosen)
