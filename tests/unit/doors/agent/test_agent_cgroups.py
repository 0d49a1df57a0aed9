"""Control groups that somebody left behind."""

from __future__ import annotations

import os
from pathlib import Path

from runyard.doors.agent.sandbox.cgroups import sweep

NOBODY = 2**22 + 1
"""No process has this number: Linux gives out lower ones."""


def test_groups_of_the_dead_are_removed_and_all_others_stay(tmp_path: Path) -> None:
    names = [f"runyard-{NOBODY}-0", f"runyard-{NOBODY}-1", f"runyard-{os.getpid()}-0", "other-1-2"]
    for name in names:
        (tmp_path / name).mkdir()
    for name in (names[0], names[2], names[3]):
        os.utime(tmp_path / name, (0, 0))
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_group_in_use_stays(tmp_path: Path) -> None:
    group = tmp_path / f"runyard-{NOBODY}-0"
    (group / "in use").mkdir(parents=True)
    os.utime(group, (0, 0))
    sweep(tmp_path)
    assert group.exists()
