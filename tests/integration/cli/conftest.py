"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_project import Project, project_env
from command_server import CommandServer, command_server


@pytest.fixture(scope="session")
def commands() -> Iterator[CommandServer]:
    """Runs the command line without importing it each time."""
    with command_server(project_env()) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, commands: CommandServer) -> Iterator[Project]:
    """A project of the test's own."""
    made = Project(tmp_path, commands)
    yield made
    made.close()
