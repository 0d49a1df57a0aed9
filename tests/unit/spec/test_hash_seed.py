"""Workers hash strings by a fixed seed, unless the user has chosen another one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runyard.spec.hash_seed import VARIABLE, is_random, pinned, seeded, shown, workers_seed


@pytest.mark.parametrize(
    ("given", "used"),
    [("", "0"), ("random", "0"), ("0", "0"), ("12", "12"), ("-1", "0"), ("4294967296", "0"),
     ("4294967295", "4294967295"), ("12x", "0"), ("²", "0")],
)  # fmt: skip
def test_a_number_of_the_user_is_kept_and_all_else_becomes_zero(given: str, used: str) -> None:
    assert workers_seed({VARIABLE: given}) == used


def test_without_the_variable_the_seed_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert workers_seed() == "0"
    assert seeded({"A": "b"}).items() >= {"A": "b", VARIABLE: "0"}.items()
    assert seeded({VARIABLE: "7"})[VARIABLE] == "7"


def test_another_interpreter_can_have_a_fixed_seed_and_no_random_one() -> None:
    assert pinned("12") == "12"
    assert pinned("random 5f2ec0a1") == pinned("") == workers_seed()
    assert shown("12") == "PYTHONHASHSEED=12"
    assert shown("random 5f2ec0a1") == "the random hash seed 5f2ec0a1"


def own_seed(*flags: str, **variables: str) -> str:
    """What an interpreter says of itself."""
    code = "from runyard.spec.hash_seed import own_seed; print(own_seed())"
    command = [sys.executable, *flags, "-c", code]
    return subprocess.check_output(command, env=variables, text=True).strip()


def test_an_interpreter_knows_its_own_seed() -> None:
    assert own_seed(PYTHONHASHSEED="0") == "0"
    assert own_seed(PYTHONHASHSEED="12") == "12"
    assert is_random(own_seed("-E", PYTHONHASHSEED="12"))
    assert is_random(own_seed())
    assert own_seed() != own_seed()


def test_what_a_script_sets_later_is_no_seed_of_its_own() -> None:
    code = "import os; os.environ['PYTHONHASHSEED'] = '12'; "
    code += "from runyard.spec.hash_seed import own_seed; print(own_seed())"
    told = subprocess.check_output([sys.executable, "-c", code], env={}, text=True)
    assert is_random(told)
