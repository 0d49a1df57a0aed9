from __future__ import annotations

import inspect

import pytest

from runyard import errors
from runyard.errors import RunyardError, TaskError, TasksFailed

CLASSES = [
    found
    for found in vars(errors).values()
    if inspect.isclass(found) and issubclass(found, Exception) and not issubclass(found, Warning)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_the_one_root_a_docstring_and_an_exit_code(kind: type) -> None:
    assert issubclass(kind, RunyardError)
    assert kind.__doc__
    assert kind.exit_code in (1, 2, 3, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("BadName", 2), ("BadSpec", 2), ("BadBatchFile", 2), ("BadTarget", 2),
        ("NotEncodable", 2), ("SpecChanged", 2), ("NotFound", 5), ("StoreDamaged", 3),
        ("StoreFull", 3), ("BackendError", 3), ("TasksFailed", 1), ("TaskTimeout", 1),
    ],
)  # fmt: skip
def test_exit_codes_are_those_of_the_design(name: str, code: int) -> None:
    assert getattr(errors, name)("x").exit_code == code


def test_a_user_sees_what_happened_and_what_to_do() -> None:
    assert str(RunyardError("it broke", hint="mend it")) == "it broke\n  mend it"
    assert str(RunyardError("it broke")) == "it broke"


def test_failed_tasks_bring_their_result_along() -> None:
    error = TasksFailed("3 failed", result="the result")
    assert error.result == "the result"
    assert not isinstance(error, TaskError)
