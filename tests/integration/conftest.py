"""What the tests of real parts share: the command line, called in this process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from command_line import Call, call


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """`runyard` in a folder of the test's own; its yard is `.runyard` there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("RUNYARD_YARD", raising=False)
    return partial(call, capfd)
