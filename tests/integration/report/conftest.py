"""What the report tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_kit import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of the test's own."""
    return Project(tmp_path)


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a finished batch, `tills`, that has a bit of everything; only to be read."""
    project = Project(tmp_path_factory.mktemp("told"))
    words = """run jobs.py:till --name tills --no-progress --grid tills=1,2 --grid rush=0.5,1.0,2.0
        --replicates 30 --seed 7 --retries 1 --backend processes --workers 2"""
    answer = project(*words.split())
    assert answer.code == 1, answer.err
    return project


@pytest.fixture(scope="session")
def text(told: Project) -> str:
    """The report of `tills`."""
    return told.report("tills")
