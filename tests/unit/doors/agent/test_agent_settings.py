"""What the owner of a yard allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.doors.agent.inputs.settings import CodeLimits, Settings, read_settings
from runyard.errors import UsageError


def test_a_yard_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == Settings()


def test_sizes_and_times_are_read_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'isolation = "process"\n[limits]\nmemory = "1GB"\ncpu = "2m"\nprocesses = 7\n'
        '[servers.files]\ncommand = "serve"\nargs = ["x"]\n'
    )
    found = read_settings(tmp_path)
    assert found.limits == CodeLimits(memory=10**9, cpu=120.0, processes=7)
    assert (found.isolation, found.servers["files"].args) == ("process", ["x"])


@pytest.mark.parametrize(
    "text",
    [
        "isolation = ",
        'isolation = "wall"',
        "colour = 1",
        "[limits]\nmemory = []",
        "[limits]\nwords = 3",
        "limits = 3",
        "[servers.x]\nargs = []",
        f"x = {'[' * 5000}",
        f"x = {'9' * 5000}",
    ],
)
def test_what_can_t_be_read_is_refused_with_the_file_s_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "agent.toml").write_text(text)
    with pytest.raises(UsageError, match=r"agent\.toml"):
        read_settings(tmp_path)
