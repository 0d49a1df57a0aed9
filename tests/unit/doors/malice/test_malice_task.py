"""Where the runs of a batch are logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.doors.malice.run.task import logs_folder
from runyard.errors import BadName


def test_each_variant_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert logs_folder(tmp_path, None) == tmp_path / "malice"
    assert logs_folder(tmp_path, "without vote") == tmp_path / "malice" / "without-vote"


@pytest.mark.parametrize("name", ["../../..", "a/../../b", "/etc", "a\0b", "", "x" * 300, "link/a"])
def test_a_variant_s_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "malice").mkdir()
    (tmp_path / "malice" / "link").symlink_to("/tmp")
    with pytest.raises(BadName):
        logs_folder(tmp_path, name)
