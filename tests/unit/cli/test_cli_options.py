"""The flags of options: all of them follow from the declarations."""

from __future__ import annotations

from typing import Any

import click
import pytest

from runyard.cli.options import RESUME_FLAGS, RUN_FLAGS, option_flags
from runyard.spec.options import SPECS, Options


@click.command()
@option_flags(RUN_FLAGS)
def command(**given: Any) -> None:
    """Take every option."""


def parsed(*words: str) -> dict[str, Any]:
    """What flags give, those not given left out."""
    params = command.make_context("command", list(words)).params
    return {name: value for name, value in params.items() if value is not None}


def test_each_flag_has_the_help_of_its_declaration() -> None:
    params = {param.name: param for param in command.params}
    assert set(params) == {name for name, spec in SPECS.items() if spec.flags}
    for name, param in params.items():
        assert isinstance(param, click.Option)
        assert (param.help or "").startswith(SPECS[str(name)].help)
        assert "/".join([*param.opts, *param.secondary_opts]) == "/".join(SPECS[str(name)].flags)


def test_flags_that_are_not_given_change_nothing() -> None:
    assert parsed() == {}
    assert Options().with_(**command.make_context("command", []).params) == Options()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--retries", "3"], Options(retries=3)),
        (["--timeout", "5m", "--memory", "1GiB"], Options(timeout=300, memory=1 << 30)),
        (["--priority", "high", "--keep", "failed"], Options(priority=2, keep="failed")),
        (["--fail-fast", "--no-capture"], Options(fail_fast=True, capture=False)),
        (["--in-workspace"], Options(chdir=True)),
        (
            ["--budget", "tasks=5", "--budget", "cost=2.5"],
            Options(budget={"tasks": 5, "cost": 2.5}),
        ),
        (["--cpus", "0.5", "--resource", "licence=1"], Options(cpus=0.5, resources={"licence": 1})),
        (["--runtime-env", '{"pip": ["x"]}'], Options(runtime_env={"pip": ["x"]})),
        (["--until", "failed < 1%"], Options(until="failed < 1%")),
    ],
)
def test_what_flags_give_is_what_options_take(words: list[str], options: Options) -> None:
    assert Options().with_(**parsed(*words)) == options


def test_what_resume_can_change_it_can_also_remove() -> None:
    for name in RESUME_FLAGS:
        assert SPECS[name].resume
    recorded = Options(budget={"tasks": 3}, until="failed < 1%", metric="v")
    assert recorded.with_(**parsed("--budget", "none", "--until", "none")) == Options(metric="v")


@pytest.mark.parametrize(
    "words",
    [
        ["--retries", "-1"], ["--retries", "x"], ["--priority", "urgent"], ["--keep", "maybe"],
        ["--cpus", "-1"], ["--budget", "five"], ["--runtime-env", "[1]"],
        ["--runtime-env", "nowhere.json"],
    ],
)  # fmt: skip
def test_a_value_that_a_flag_can_not_take_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(*words)
