"""Where a run comes from: versions, machine, git state and command line.

    engine ── start ──▶ a thread: versions, machine, git ──▶ publish, once
       └───── finish ──▶ what git has not said by now is left out

Asking git may be slow or impossible; no result ever waits for it, and no run fails because of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard import clock

if TYPE_CHECKING:
    import subprocess

GIT_SECONDS = 3.0
"""How long git may take while a batch runs."""

LAST_SECONDS = 0.3
"""How much longer it may take when the run ends before that."""

LATELY = 10.0
"""Seconds for which the same process takes the last answer for the present one."""

_lately: dict[str, tuple[float, dict[str, Any] | None]] = {}  # by folder
_FOLDERS = re.compile(r"(?<![\w.~:/-])/(?:[^/\s'\"]+/)+")
_MODULES = ("runyard", "numpy", "scipy")


class Provenance:
    """Finds out on the side where a run comes from, and tells it once."""

    def __init__(self, root: str, hash_seed: str, tell: Callable[[dict[str, Any]], None]) -> None:
        self._root = root
        self._hash_seed = hash_seed
        self._tell = tell
        self._git: subprocess.Popen[str] | None = None
        self._until = clock.monotonic() + GIT_SECONDS
        self._thread = threading.Thread(target=self._find, name="runyard-provenance", daemon=True)

    def start(self) -> None:
        """Begin to look; what git said a moment ago is not asked again."""
        known = _lately.get(self._root)
        if known is not None and clock.monotonic() - known[0] < LATELY:
            self._answer(known[1])
        else:
            self._thread.start()

    def finish(self) -> None:
        """The run is over: give git a last moment, then report what is known."""
        if not self._thread.is_alive():
            return
        self._until = min(self._until, clock.monotonic() + LAST_SECONDS)
        self._thread.join(LAST_SECONDS)
        git = self._git
        if git is not None and self._thread.is_alive():
            with contextlib.suppress(OSError):
                git.kill()
        self._thread.join(2 * LAST_SECONDS)

    def _find(self) -> None:
        state = self._git_state()
        _lately[self._root] = clock.monotonic(), state
        self._answer(state)

    def _answer(self, git: dict[str, Any] | None) -> None:
        self._tell(
            {
                "versions": versions(),
                "machine": machine(),
                "project": Path(self._root).name,
                "hash_seed": self._hash_seed,
                "git": git,
                "command": command_line(),
            }
        )

    def _git_state(self) -> dict[str, Any] | None:
        """Commit, branch and how many tracked files differ; None outside a repository."""
        answer = self._ask("status", "--porcelain=v2", "--branch", "--untracked-files=no")
        if answer is not None:
            return git_state(answer)
        answer = self._ask("rev-parse", "HEAD", "--abbrev-ref", "HEAD", seconds=LAST_SECONDS)
        commit, _, branch = (answer or "").strip().partition("\n")
        return {"commit": commit, "branch": branch, "changed": None} if branch else None

    def _ask(self, *words: str, seconds: float | None = None) -> str | None:
        import subprocess

        quiet = subprocess.DEVNULL
        # Without optional locks: a look must never be in the way of the user's own git.
        command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *words]
        try:
            self._git = subprocess.Popen(
                command, cwd=self._root, text=True, errors="replace",
                stdin=quiet, stdout=subprocess.PIPE, stderr=quiet,
            )  # fmt: skip
            with self._git as git:
                try:
                    left = self._until - clock.monotonic() if seconds is None else seconds
                    out, _ = git.communicate(timeout=max(0.0, left))
                except subprocess.TimeoutExpired:
                    git.kill()
                    return None
            return out if git.returncode == 0 else None
        except OSError:
            return None


def git_state(status: str) -> dict[str, Any]:
    """What `git status --porcelain=v2 --branch` says, in three fields."""
    lines = status.splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    return {
        "commit": heads.get("branch.oid", ""),
        "branch": heads.get("branch.head", ""),
        "changed": sum(not line.startswith("#") for line in lines),
    }


@cache
def versions() -> dict[str, str]:
    """Python and the packages that results may depend on, where they are loaded or installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for name in _MODULES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def machine() -> dict[str, Any]:
    """The kind of machine; nothing that names it or its owner."""
    name = os.uname()
    found: dict[str, Any] = {
        "system": f"{name.sysname} {name.release}",
        "architecture": name.machine,
        "cores": os.cpu_count(),
    }
    with contextlib.suppress(OSError, ValueError):
        found["memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        if model:
            found["processor"] = model[1].strip()
    return found


def command_line(words: list[str] | None = None) -> str:
    """The command that this process is, with folders of the machine left out."""
    program, *rest = list(words or sys.argv) or [""]
    name = Path(program).name
    if name == "__main__.py":  # python -m package
        name = Path(program).parent.name
    return shlex.join([name, *(_FOLDERS.sub("…/", word) for word in rest)])
