"""Arguments as a language model sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.doors.agent.inputs import arguments as read
from runyard.doors.agent.inputs.arguments import BadCall
from runyard.doors.agent.queue.model import Priority

MEANT = [
    (read.whole, ("5", "n", 1, 10), 5),
    (read.whole, (" 5 ", "n", 1, 10), 5),
    (read.whole, (5.0, "n", 1, 10), 5),
    (read.whole, ("5.0", "n", 1, 10), 5),
    (read.yes_or_no, ("True", "b"), True),
    (read.yes_or_no, ("no", "b"), False),
    (read.yes_or_no, (0, "b"), False),
    (read.duration, ("5m", "t"), 300.0),
    (read.duration, ("30", "t"), 30.0),
    (read.priority, ("HIGH",), Priority.HIGH),
    (read.priority, (" Critical ",), Priority.CRITICAL),
    (read.priority, ("0",), Priority.LOW),
    (read.priority, (Priority.LOW,), Priority.LOW),
    (read.choice, ("JSON", "f", ("json", "csv")), "json"),
    (read.mapping, ('{"a": 1}', "p"), {"a": 1}),
    (read.listing, ('["a", "b"]', "l"), ["a", "b"]),
    (read.listing, ("a, b", "l"), ["a", "b"]),
    (read.listing, (3, "l"), [3]),
    (read.tasks, ('[{"name": "a"}]',), [{"name": "a"}]),
    (read.tasks, ({"tasks": [{"name": "a"}]},), [{"name": "a"}]),
    (read.tasks, ({"name": "a"},), [{"name": "a"}]),
]


@pytest.mark.parametrize(("reader", "given", "meant"), MEANT)
def test_what_is_meant_is_read(reader: Any, given: tuple[Any, ...], meant: Any) -> None:
    assert reader(*given) == meant


REFUSED = [
    (read.whole, ("five", "n", 1, 10)),
    (read.whole, (11, "n", 1, 10)),
    (read.whole, (True, "n", 1, 10)),
    (read.whole, (1.5, "n", 1, 10)),
    (read.whole, ("inf", "n", 1, 10)),
    (read.whole, ([], "n", 1, 10)),
    (read.yes_or_no, ("perhaps", "b")),
    (read.duration, ("soon", "t")),
    (read.duration, (-1, "t")),
    (read.priority, ("urgent",)),
    (read.priority, (7,)),
    (read.priority, (None,)),
    (read.priority, ([],)),
    (read.choice, ("xml", "f", ("json", "csv"))),
    (read.mapping, ("[1]", "p")),
    (read.mapping, ("{", "p")),
    (read.mapping, ({1: 2}, "p")),
    (read.listing, (1.5, "l")),
    (read.text, ("  ", "t")),
    (read.text, ([], "t")),
    (read.tasks, ([],)),
    (read.tasks, ("nonsense",)),
    (read.task_of, ("nonsense",)),
    (read.task_of, (3,)),
    (read.task_of, ({"name": "a"},)),
    (read.task_of, ({"function": "simulate"},)),
    (read.task_of, ({"name": "a", "function": "b", "colour": "red"},)),
]


@pytest.mark.parametrize(("reader", "given"), REFUSED)
def test_what_is_not_is_refused_with_what_to_do(reader: Any, given: tuple[Any, ...]) -> None:
    with pytest.raises(BadCall) as refused:
        reader(*given)
    assert refused.value.hint


def test_a_task_may_be_all_text() -> None:
    task = read.task_of(
        {
            "name": 7, "function": " simulate ", "params": '{"duration": 1}', "priority": "HIGH",
            "max_retries": "2", "timeout": "1m", "depends_on": '["queue/0"]',
        }
    )  # fmt: skip
    assert task == read.TaskRequest(
        "7", "simulate", {"duration": 1}, Priority.HIGH, 2, 60.0, ["queue/0"]
    )


def test_nothing_in_whatever_words_stands_for_the_default() -> None:
    given = {"name": "a", "function": "f", "params": None, "timeout": "null", "priority": ""}
    assert read.task_of(given) == read.TaskRequest("a", "f", {}, Priority.MEDIUM, 3, None, [])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(read.TASK_FIELDS) | st.text(), anything, max_size=8))
def test_any_task_whatever_is_read_or_refused(task: dict[str, Any]) -> None:
    try:
        found = read.task_of(task)
    except BadCall as refused:
        assert str(refused)
    else:
        assert found.name
        assert found.max_retries >= 0
