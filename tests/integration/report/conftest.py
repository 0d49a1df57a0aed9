"""What the report tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from report_kit import Project

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as installed; where there is none, nothing to look with (never so in CI)."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        assert not os.environ.get("CI"), "CI needs Chromium: make programs"
        pytest.skip("Chromium is not installed: make programs")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


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
