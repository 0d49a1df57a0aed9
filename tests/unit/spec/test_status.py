from __future__ import annotations

from typing import Any

import pytest

from runyard.errors import BadSpec
from runyard.spec.status import CANCELLED, COMPLETED, FAILED, FINAL_STATES, Priority, Status


def test_the_numbers_that_stand_in_stores_never_change() -> None:
    assert {status.value: status.code for status in Status} == {
        "queued": 0, "running": 1, "completed": 2, "failed": 3, "cancelled": 4,
    }  # fmt: skip
    assert (COMPLETED, FAILED, CANCELLED) == (2, 3, 4)
    assert [Status.of(status.code) for status in Status] == list(Status)


def test_the_final_states_are_those_with_an_outcome() -> None:
    assert {status.value for status in FINAL_STATES} == {"completed", "failed", "cancelled"}


def test_priorities_are_ordered_and_read_in_any_case() -> None:
    names = ["low", "Medium", " HIGH ", "critical"]
    parsed = [Priority.parse(name) for name in names]
    assert parsed == sorted(parsed)
    assert parsed == list(Priority) == [0, 1, 2, 3]
    assert Priority.parse(2) is Priority.HIGH


@pytest.mark.parametrize("wrong", ["urgent", "", 4, -1])
def test_an_unknown_priority_is_refused_and_the_known_ones_named(wrong: Any) -> None:
    with pytest.raises(BadSpec) as caught:
        Priority.parse(wrong)
    assert "low, medium, high, critical" in str(caught.value)
