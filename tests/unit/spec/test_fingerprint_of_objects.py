"""Objects that a function holds on to are part of what it is, whatever they are made of."""

from __future__ import annotations

import copy
import datetime
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runyard.spec.fingerprint import fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        (re.compile("a"), re.compile("b")),
        (random.Random(1), random.Random(2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        ([1].count, [2].count),
    ],
    ids=["date", "pattern", "random", "generator", "method"],
)
def test_objects_without_fields_are_told_apart_by_what_they_hold(one: Any, other: Any) -> None:
    def holding(value: Any) -> Any:
        return lambda: value

    assert fingerprint(holding(one)) == fingerprint(holding(copy.deepcopy(one)))
    assert fingerprint(holding(one)) != fingerprint(holding(other))


def test_an_object_that_cannot_be_pickled_has_a_fingerprint_too() -> None:
    with Path(__file__).open() as held:
        assert fingerprint(lambda: held)
