"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project of the test's own."""
    made = Project(tmp_path)
    yield made
    made.close()
