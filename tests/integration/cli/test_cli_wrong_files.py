"""Files of the wrong kind: those that never end, and yards that are no folders."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from command_line import Call

COMMANDS = {
    "batch file": ("run", "zero.toml"),
    "environment": ("run", "sample_tasks:double", "--set", "x=1", "--runtime-env", "zero.toml"),
    "tasks": ("queue", "add-batch", "zero.toml"),
    "tasks on stdin": ("queue", "add-batch", "-"),
    "configuration": ("letitride", "validate", "zero.toml"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_text_without_end_is_refused(
    name: str, cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.spaces.files.MOST_TEXT", 1 << 20)
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    monkeypatch.setattr(sys, "stdin", io.StringIO(" " * ((1 << 20) + 1)))
    said = cli(*COMMANDS[name])
    assert said.code == 2
    assert "it is longer than 1,048,576 characters" in said.err


@pytest.mark.parametrize("words", [("status",), ("results", "b"), ("run", "a.toml"), ("doctor",)])
def test_a_yard_that_is_no_folder_is_an_error(
    words: tuple[str, ...], cli: Call, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = cli(*words, "--yard", "pipe")
    assert said.code == 3
    assert "pipe is a pipe" in said.err
