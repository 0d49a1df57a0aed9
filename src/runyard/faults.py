"""Named fault points inside the engine: no-ops unless a test arms one.

A test arms a point in a child process through the environment, for instance
`RUNYARD_FAULT=commit:3:kill`: the third time the engine reaches `commit`, it dies by SIGKILL.
`error` in place of `kill` raises an OSError there, and `stop` pauses the process.
"""

from __future__ import annotations

import errno
import os
import signal

POINTS = ("claim", "result", "commit", "committed", "audit")
"""All points, in the order in which an outcome passes them."""

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_armed: dict[str, tuple[int, str]] = {}
_reached: dict[str, int] = {}


def arm(name: str, at: int, action: str) -> None:
    """Let the `at`-th arrival at a point end in `action`: kill, stop or error."""
    if name not in POINTS or action not in (*_SIGNALS, "error"):
        raise ValueError(f"no fault point {name!r} with action {action!r}")
    _armed[name] = (at, action)


def disarm() -> None:
    """Make every point a no-op again."""
    _armed.clear()
    _reached.clear()


def point(name: str) -> None:
    """The engine has reached this point."""
    if name not in _armed:
        return
    at, action = _armed[name]
    _reached[name] = _reached.get(name, 0) + 1
    if _reached[name] == at:
        if action == "error":
            raise OSError(errno.EIO, f"fault point {name!r}")
        os.kill(os.getpid(), _SIGNALS[action])


def _arm_from_environment() -> None:
    wanted = os.environ.get("RUNYARD_FAULT")
    if wanted:
        name, at, action = wanted.split(":")
        arm(name, int(at), action)


_arm_from_environment()
