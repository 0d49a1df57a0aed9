from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from runyard.events import AuditLog, read, verify

APPEND = """
import itertools, sys
from pathlib import Path
from runyard.events import AuditLog
path, name, groups = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
log = AuditLog(path)
for group in range(groups) if groups else itertools.count():
    log.append({"event": "X", "name": name, "group": group, "n": n} for n in range(3))
"""

APPEND_INTO_A_LIMIT = """
import resource, signal, sys
from pathlib import Path
from runyard.errors import StoreFull
from runyard.events import AuditLog
path, action = Path(sys.argv[1]), sys.argv[2]
log = AuditLog(path)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 500, resource.RLIM_INFINITY))
if action == "die":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    log.append({"event": "X", "text": "x" * 100} for _ in range(10))
except StoreFull:
    sys.exit(7)
"""

APPEND_AFTER_A_FORK = """
import os, sys
from pathlib import Path
from runyard.events import AuditLog
log = AuditLog(Path(sys.argv[1]))
log.append([{"event": "X"}])
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        for _ in range(100):
            log.append([{"event": "X"}])
        os._exit(0)
    children.append(child)
for _ in range(100):
    log.append([{"event": "X"}])
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def start(program: str, *arguments: object, fault: str = "") -> subprocess.Popen[bytes]:
    environ = {**os.environ, "RUNYARD_FAULT": fault}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)], env=environ
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    log = AuditLog(path)
    log.append([{"event": "First"}])
    return path


def test_processes_that_append_at_once_make_one_chain_of_whole_groups(path: Path) -> None:
    children = [start(APPEND, path, name, 100) for name in "abcd"]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    assert verify(path).ok
    found = list(read(path, event="X"))
    assert len(found) == 4 * 100 * 3
    groups = [key for key, _ in itertools.groupby(found, lambda r: (r["name"], r["group"]))]
    assert len(groups) == len(set(groups)) == 400


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_kill_right_before_the_write_loses_that_group_alone(path: Path, at: int) -> None:
    child = start(APPEND, path, "a", 10, fault=f"audit:{at}:kill")
    assert child.wait(60) == -signal.SIGKILL
    assert verify(path).ok
    log = AuditLog(path)
    log.append([{"event": "After"}])
    assert verify(path).ok
    assert Counter(r["event"] for r in read(path)) == Counter(First=1, X=3 * (at - 1), After=1)


def test_a_kill_at_any_moment_leaves_a_log_that_goes_on(path: Path) -> None:
    for round_ in range(5):
        before = path.stat().st_size
        child = start(APPEND, path, round_, 0)
        try:
            deadline = time.monotonic() + 60
            while path.stat().st_size < before + 5_000 * (round_ + 1):
                assert time.monotonic() < deadline
        finally:
            child.kill()
            child.wait()
        AuditLog(path)
        assert verify(path).ok


def test_a_death_in_the_middle_of_a_line_is_repaired(path: Path) -> None:
    child = start(APPEND_INTO_A_LIMIT, path, "die")
    assert child.wait(60) == -signal.SIGXFSZ
    report = verify(path)
    assert not report.ok
    assert report.first_bad_line is None
    assert report.torn_bytes > 0
    log = AuditLog(path)
    log.append([{"event": "After"}])
    assert verify(path).ok
    assert [r["event"] for r in read(path)][-2:] == ["AuditRepaired", "After"]


def test_a_file_at_its_size_limit_is_full_and_left_whole(path: Path) -> None:
    before = path.read_bytes()
    assert start(APPEND_INTO_A_LIMIT, path, "raise").wait(60) == 7
    assert path.read_bytes() == before


def test_a_forked_child_does_not_share_its_parents_lock(path: Path) -> None:
    assert start(APPEND_AFTER_A_FORK, path).wait(60) == 0
    assert verify(path).ok
    assert verify(path).lines == 1 + 1 + 400
