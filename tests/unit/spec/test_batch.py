from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample_tasks import double, tossed

import runyard as ry
from runyard.errors import BadName, BadSpec, BadTarget, NotEncodable
from runyard.spec.batch import Batch, batch, decode_listed, encode_listed, grid, items, tasks
from runyard.spec.codec import decode, encode
from runyard.spec.plan import Plan
from runyard.spec.task import Task, shell


def area(width: int, height: int = 1, **more: Any) -> int:
    return width * height


def strict(width: int, height: int = 1) -> int:
    return width * height


def plan_of(made: Batch) -> Plan:
    assert made.plan is not None
    return made.plan


def test_a_grid_has_every_combination_as_often_as_asked() -> None:
    made = grid(area, width=[1, 2, 3], height=(4, 5), params={"unit": "m"}, replicates=10, seed=7)
    assert made.total == 60
    seen = {tuple(plan_of(made).params(n).values()) for n in range(60)}
    assert seen == {("m", w, h) for w in (1, 2, 3) for h in (4, 5)}


def test_a_grid_takes_ranges_arrays_and_generators() -> None:
    made = grid(area, width=range(3), height=np.array([1, 2]), depth=(n for n in (5, 6)))
    assert made.total == 12
    assert plan_of(made).params(11) == {"width": 2, "height": 2, "depth": 6}
    assert type(plan_of(made).params(0)["height"]) is int


def test_a_batch_has_every_variant_on_every_case() -> None:
    made = batch(strict, [{"width": 1}, {"width": 2}], [{"height": 3}, {"height": 4}], replicates=5)
    assert made.total == 20
    assert plan_of(made).params(3) == {"width": 2, "height": 4}
    assert plan_of(made).labels(3) == {"variant": "width=2", "case": "height=4", "replicate": 0}


def test_a_batch_without_axes_is_one_task_a_replicate() -> None:
    assert batch(strict, params={"width": 1}).total == 1
    assert grid(strict, params={"width": 1}, replicates=4).total == 4


def test_items_keep_their_order_and_may_repeat() -> None:
    made = items(strict, [3, 1, 3, 2], parameter="width")
    assert [plan_of(made).params(n)["width"] for n in range(4)] == [3, 1, 3, 2]


def test_no_items_are_a_batch_of_no_tasks() -> None:
    assert items(strict, [], parameter="width").total == 0
    assert items(strict, range(0), parameter="width").total == 0


REFUSED: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("text", lambda: grid(area, width="abc"), BadSpec, "'width' is 'abc', not a list"),
    ("number", lambda: grid(area, width=3), BadSpec, "'width' is 3, not a list"),
    ("dict", lambda: grid(area, width={"a": 1}), BadSpec, "not a list of values"),
    ("empty", lambda: grid(area, width=[]), BadSpec, "'width' has no values"),
    ("empty range", lambda: grid(area, width=range(0)), BadSpec, "'width' has no values"),
    ("twice", lambda: grid(area, width=[1, 2, 1]), BadSpec, "width has the value 1 twice"),
    ("unencodable", lambda: grid(area, width=[{1}]), NotEncodable, "width: a value of type set"),
    ("unencodable fixed", lambda: grid(area, params={"width": {1}}), NotEncodable, "width"),
    (
        "replicates 0",
        lambda: grid(area, width=[1], replicates=0),
        BadSpec,
        "replicates: 0 is out",
    ),
    ("replicates text", lambda: grid(area, width=[1], replicates="3"), BadSpec, "replicates: "),  # type: ignore[arg-type]
    ("replicates bool", lambda: grid(area, width=[1], replicates=True), BadSpec, "replicates: "),
    ("both", lambda: grid(area, params={"width": 1}, width=[1]), BadSpec, "is set twice"),
    ("unknown", lambda: grid(strict, width=[1], depth=[1]), BadSpec, "no parameter 'depth'"),
    ("missing", lambda: grid(strict, height=[1]), BadSpec, "needs the parameter 'width'"),
    ("no function", lambda: grid(3, width=[1]), BadTarget, "can't be called"),  # type: ignore[arg-type]
    ("no target", lambda: grid("nonsense", width=[1]), BadTarget, "does not name a function"),
    ("seed", lambda: grid(area, width=[1], seed=-1), BadSpec, "seed: -1 is not valid"),
    ("name", lambda: grid(area, width=[1], name="../x"), BadName, "can't be a batch name"),
    ("codec", lambda: grid(area, width=[1], codec="json"), BadSpec, "no codec 'json'"),
    ("no variants", lambda: batch(area, [], [{"width": 1}]), BadSpec, "'variant' has no values"),
    ("variant twice", lambda: batch(area, [{"width": 1}] * 2), BadSpec, "twice"),
    (
        "variant and fixed",
        lambda: batch(area, [{"width": 1}], params={"width": 2}),
        BadSpec,
        "'width' is set twice",
    ),
    (
        "variant and case",
        lambda: batch(area, [{"width": 1}, {"width": 2}], [{"width": 3}]),
        BadSpec,
        "'width'",
    ),
    (
        "a variant lacks one",
        lambda: batch(strict, [{"width": 1}, {"height": 2}]),
        BadSpec,
        "needs the parameter 'width'",
    ),
    ("context", lambda: grid(tossed, ctx=[1], coins=[1]), BadSpec, "'ctx'"),
    ("context fixed", lambda: grid(tossed, params={"ctx": 1}, coins=[1]), BadSpec, "'ctx'"),
]


@pytest.mark.parametrize(
    ("make", "error", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_batch_that_contradicts_itself_is_refused(
    make: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)
    assert "\n  " in str(caught.value), "it says what to do"


def test_listed_tasks_are_settled() -> None:
    made = tasks(
        [
            Task(strict, {"width": 1}, "a"),
            Task("os.path:join", {"a": "x"}, "b", after=("a",), priority="high", timeout="2m"),
            Task(shell("echo {x}"), {"x": 1}, after=("b", "a", "b"), retries=4),
        ],
        priority="low",
        seed=7,
    )
    first, second, third = made.listed
    assert (first.priority, first.after, first.timeout, first.retries) == (0, (), None, None)
    assert (second.priority, second.after, second.timeout) == (2, (0,), 120.0)
    assert (third.after, third.retries, third.target.kind) == ((0, 1), 4, "shell")
    stored = [encode_listed(task) for task in made.listed]
    assert [decode_listed(data) for data in stored] == list(made.listed)
    assert [encode(decode(data)) for data in stored] == stored


def test_listed_functions_of_one_name_are_kept_apart() -> None:
    made = tasks([Task(lambda: 1), Task(lambda: 2), Task(lambda: 3)])
    refs = [task.target.ref for task in made.listed]
    assert len(set(refs)) == 3
    assert [made.functions[ref]() for ref in refs] == [1, 2, 3]


def nameless(**settings: Any) -> Batch:
    return tasks([Task(strict, {"width": 1}, **settings)])


REFUSED_LISTS: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("none", lambda: tasks([]), BadSpec, "no tasks"),
    (
        "name twice",
        lambda: tasks([Task(strict, {"width": n}, "a") for n in (1, 2)]),
        BadSpec,
        "two tasks are named 'a'",
    ),
    ("task twice", lambda: tasks([Task(strict, {"width": 1})] * 2), BadSpec, "twice"),
    ("after nobody", lambda: nameless(after=("x",)), BadSpec, "after 'x', which does not exist"),
    (
        "circle",
        lambda: tasks([Task(strict, {"width": 1}, a, after=(b,)) for a, b in ("ab", "bc", "ca")]),
        BadSpec,
        "wait for each other",
    ),
    (
        "itself",
        lambda: tasks([Task(strict, {"width": 1}, "a", after=("a",))]),
        BadSpec,
        "wait for each other",
    ),
    ("parameter", lambda: tasks([Task(strict, {"depth": 1})]), BadSpec, "no parameter 'depth'"),
    ("unencodable", lambda: tasks([Task(area, {"width": {1}})]), NotEncodable, "width"),
    (
        "priority",
        lambda: nameless(priority="urgent"),
        BadSpec,
        "priority: 'urgent' is not",
    ),
    ("timeout", lambda: nameless(timeout="soon"), BadSpec, "timeout: 'soon' is not a duration"),
    ("retries text", lambda: nameless(retries="3"), BadSpec, "retries: '3' is not a whole number"),
    ("retries below 0", lambda: nameless(retries=-1), BadSpec, "retries: -1 is out of range"),
    ("option", lambda: tasks([Task(strict, {"width": 1})], speed=3), BadSpec, "no option 'speed'"),
]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [case[1:] for case in REFUSED_LISTS],
    ids=[case[0] for case in REFUSED_LISTS],
)
def test_a_list_of_tasks_that_contradicts_itself_is_refused(
    make: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


def test_a_decorated_function_brings_its_options_along() -> None:
    @ry.task(retries=3, timeout="30s", priority="high")
    def careful(width: int) -> int:
        return width

    assert careful(2) == 2
    options = grid(careful, width=[1]).options
    assert (options.retries, options.timeout, options.priority) == (3, 30.0, 2)
    (listed,) = tasks([Task(careful, {"width": 1})]).listed
    assert (listed.retries, listed.timeout, listed.priority) == (3, 30.0, 2)
    (own,) = tasks([Task(careful, {"width": 1}, retries=1, timeout=5)]).listed
    assert (own.retries, own.timeout) == (1, 5.0)


def test_a_bare_decorator_changes_nothing() -> None:
    @ry.task
    def plain(width: int) -> int:
        return width

    assert grid(plain, width=[1]).options == grid(strict, width=[1]).options


def test_the_name_comes_from_what_the_batch_is() -> None:
    one = grid(double, x=[1, 2], seed=7)
    assert one.record_name == grid(double, x=[1, 2], seed=7).record_name
    assert one.record_name.startswith("double-")
    others = [
        grid(double, x=[1, 3], seed=7),
        grid(double, x=[1, 2], seed=8),
        grid(double, x=[1, 2]),
        grid(double, x=[1, 2], replicates=2, seed=7),
        grid(double, x=[1, 2], seed=7, codec="pickle"),
        grid(tossed, coins=[1, 2], seed=7),
        grid(double, x=[1, 2], seed=7, name="mine"),
    ]
    assert len({made.record_name for made in [one, *others]}) == 8
    assert grid(double, x=[1, 2], seed=7).with_options(retries=3).record_name == one.record_name


def test_functions_by_value_that_differ_have_names_that_differ() -> None:
    made = [
        grid(lambda x: x + 1, x=[1], seed=7),
        grid(lambda x: x + 2, x=[1], seed=7),
        grid(lambda x: x * 2, x=[1], seed=7),
    ]
    assert len({each.record_name for each in made}) == 3


def test_closures_over_different_values_have_names_that_differ() -> None:
    def times(factor: int) -> Callable[[int], int]:
        return lambda x: x * factor

    names = {grid(times(factor), x=[1], seed=7).record_name for factor in (1, 2)}
    assert len(names) == 2


def test_defaults_that_differ_give_names_that_differ() -> None:
    made = [grid(lambda x, k=k: x * k, x=[1], seed=7) for k in (1, 2)]
    assert len({each.record_name for each in made}) == 2


def test_partials_of_different_values_have_names_that_differ() -> None:
    made = [grid(functools.partial(area, height=h), width=[1], seed=7) for h in (1, 2)]
    assert len({each.record_name for each in made}) == 2


def test_globals_of_a_script_that_differ_give_names_that_differ() -> None:
    names = []
    for factor in (1, 2):
        script: dict[str, Any] = {"__name__": "__main__", "FACTOR": factor}
        exec("def scaled(x):\n    return x * FACTOR\n", script)
        names.append(grid(script["scaled"], x=[1], seed=7).record_name)
    assert names[0] != names[1]


def test_the_name_of_a_batch_by_value_is_the_same_in_every_process() -> None:
    script = """
import runyard as ry
words = ["a", "b"]
def chosen(x, w="w"):
    return x in {"left", "right", "middle", "none"} and (lambda y: y)(x) in words
print(ry.grid(chosen, x=["left"], seed=7).record_name)
print(ry.grid(lambda x: x in {"p", "q", "r"}, x=["p"], seed=7).record_name)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
