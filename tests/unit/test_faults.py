from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runyard import faults


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.disarm()


def test_a_point_is_nothing_unless_armed() -> None:
    for name in faults.POINTS:
        faults.point(name)


def test_an_armed_point_fails_at_the_chosen_arrival_and_never_again() -> None:
    faults.arm("commit", 3, "error")
    for name in ("commit", "claim", "commit"):
        faults.point(name)
    with pytest.raises(OSError, match="commit") as caught:
        faults.point("commit")
    assert caught.value.errno == errno.EIO
    faults.point("commit")


def test_disarming_forgets_everything() -> None:
    faults.arm("commit", 1, "error")
    faults.disarm()
    faults.point("commit")
    faults.arm("commit", 1, "error")
    with pytest.raises(OSError, match="commit"):
        faults.point("commit")


@pytest.mark.parametrize(("name", "action"), [("nowhere", "kill"), ("commit", "explode")])
def test_what_is_no_point_or_action_can_not_be_armed(name: str, action: str) -> None:
    with pytest.raises(ValueError, match="no fault point"):
        faults.arm(name, 1, action)


def test_a_child_is_armed_through_its_environment_and_dies_at_the_point() -> None:
    script = (
        "from runyard import faults\nfaults.point('claim')\nprint('once', flush=True)\n"
        "faults.point('claim')\nprint('twice')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "RUNYARD_FAULT": "claim:2:kill"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "once\n")
