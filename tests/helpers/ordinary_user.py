"""Run Python as an ordinary user, also where tests run as root in a folder closed to others."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

from runyard.doors.agent.sandbox import jail

NOBODY = 65534


def run_as_ordinary_user(
    words: list[str], *, folder: Path, seconds: float = 150.0
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words; `folder` becomes the user's own."""
    before = None
    if os.geteuid() == 0:
        for each in (folder, *folder.rglob("*")):
            os.chown(each, NOBODY, NOBODY)
        needed = {folder, Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]}

        def before() -> None:
            _open_the_way([each.resolve() for each in needed])
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

    return subprocess.run(
        [sys.executable, *words],
        cwd=folder, env={**os.environ, "HOME": str(folder)}, preexec_fn=before, timeout=seconds,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _open_the_way(needed: list[Path]) -> None:
    """In a mount namespace of its own, replace closed folders on the way by open ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(jail.NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    jail._mount(libc, "none", "/", None, jail.REC | jail.PRIVATE)
    covers: dict[Path, list[tuple[Path, int]]] = {}
    for path in needed:
        for up in reversed(path.parents):
            if up in covers or not up.stat().st_mode & stat.S_IXOTH:
                covers.setdefault(up, []).append((path, os.open(path, os.O_PATH)))
                break
    os.umask(0o022)
    for cover, paths in covers.items():
        jail._mount(libc, "tmpfs", str(cover), "tmpfs", 0, "mode=755")
        for path, descriptor in sorted(paths):
            path.mkdir(parents=True, exist_ok=True)
            jail._mount(libc, f"/proc/self/fd/{descriptor}", str(path), None, jail.BIND | jail.REC)
