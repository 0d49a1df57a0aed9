"""The help: quick, complete, and with examples to copy."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from cli_project import Project

from runyard.cli.main import SECTIONS, cli

COMMANDS = {
    name: text
    for section, group in SECTIONS.items()
    if section != "Applications"
    for name, (_, text) in group.items()
}
ALL = [
    "run",
    "resume",
    "retry",
    "status",
    "results",
    "compare",
    "logs",
    "repro",
    "export",
    "report",
    "verify",
    "worker",
    "stop",
    "cancel",
    "clear",
    "doctor",
    "gc",
]


def test_help_loads_nothing_heavy() -> None:
    script = """
import sys
from runyard.cli.main import main
assert main(["--help"]) == 0
heavy = {"rich", "numpy", "msgspec", "cloudpickle", "psutil", "runyard.yard", "runyard.doors"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)


def test_every_command_is_there(project: Project) -> None:
    assert sorted(COMMANDS) == sorted(ALL)
    answer = project("--help")
    assert answer.code == 0
    assert all(f"  {name} " in answer.out for name in ALL)


@pytest.mark.parametrize("name", ALL)
def test_each_command_explains_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    context = click.Context(command, info_name=f"runyard {name}")
    text = command.get_help(context)
    assert "Examples:" in text
    assert "--json" in text
    assert "--yard PATH|URL" in text
    assert (command.help or "").splitlines()[0] == COMMANDS[name]
    assert all(p.help for p in command.params if isinstance(p, click.Option))


def test_a_command_that_is_not_there_is_answered_with_the_one_that_was_meant(
    project: Project,
) -> None:
    answer = project("staus")
    assert answer.code == 2
    assert "there is no command 'staus'; did you mean 'status'?" in answer.err
    assert answer.out == ""


def test_without_a_word_there_is_help_and_exit_2(project: Project) -> None:
    answer = project()
    assert answer.code == 2
    assert "Usage: runyard" in answer.err


def test_the_version_is_told(project: Project) -> None:
    answer = project("--version")
    assert answer.code == 0
    assert answer.out.startswith("runyard ")
