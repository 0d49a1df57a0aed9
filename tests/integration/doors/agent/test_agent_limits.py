"""Code that looks for a way around its limits, run by root and by an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ordinary_user import run_as_ordinary_user

HELPERS = Path(__file__).parents[3] / "helpers"
MB = 1 << 20

SETTINGS = """
isolation = "%s"
[limits]
memory = "300MB"
file_size = "8MB"
disk = "20MB"
files = 500
result = "10kB"
"""

# Each is bounded even if no limit holds.
NEST = """
import os
def nest(levels, name):
    here = os.open(".", os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here
"""
EXIT = """
import ctypes, os
def exit_first_thread():
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
TOO_MUCH = {
    "beyond the longest path": NEST + """
here = nest(40, "d" * 200)
for number in range(60):
    file = os.open(str(number), os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, os.urandom(1 << 20))
    os.close(file)
""",
    "very deep": NEST + "nest(300, 'd')",
    "closed folder": """
import os, time
os.mkdir("closed")
for number in range(60):
    open(f"closed/{number}", "wb").write(os.urandom(1 << 20))
os.chmod("closed", 0)
""",
    "many names": "for n in range(700): open(f'f{n}', 'w').close()",
    "many links": """
open('f', 'w').close()
import os
for n in range(700): os.link('f', f'f{n}')
""",
    "deleted files": """
import os, time
kept = []
for number in range(60):
    kept.append(open("f", "wb"))
    kept[-1].write(os.urandom(1 << 20))
    os.unlink("f")
time.sleep(20)
""",
    "deleted and mapped files": """
import mmap, os, time
kept = []
for number in range(60):
    with open("f", "w+b") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        kept.append(mmap.mmap(file.fileno(), 0))
    os.unlink("f")
time.sleep(20)
""",
    "deleted files of a thread": """
import ctypes, os, threading, time
def hide():
    assert ctypes.CDLL(None).unshare(0x400) == 0  # a table of open files of its own
    kept = []
    for number in range(60):
        kept.append(open("f", "wb"))
        kept[-1].write(os.urandom(1 << 20))
        os.unlink("f")
    time.sleep(20)
thread = threading.Thread(target=hide)
thread.start()
thread.join()
""",
    "deleted files without a first thread": EXIT + """
import os, threading, time
def hide():
    time.sleep(0.3)
    kept = []
    for number in range(60):
        kept.append(open("f", "wb"))
        kept[-1].write(os.urandom(1 << 20))
        os.unlink("f")
    time.sleep(20)
    os._exit(0)
threading.Thread(target=hide).start()
exit_first_thread()
""",
    "deleted files on their way": """
import os, socket, time
pairs = [socket.socketpair() for _ in range(6)]
for sender, _ in pairs:
    for _ in range(10):
        with open("f", "wb") as file:
            file.write(os.urandom(1 << 20))
            file.flush()
            socket.send_fds(sender, [b"x"], [file.fileno()])
        os.unlink("f")
time.sleep(20)
""",
    "temporary folders": """
import os
for place in ("/tmp", "/var/tmp", "/dev/shm"):
    for number in range(20):
        open(f"{place}/f{place.count('/')}{number}{place[1]}", "wb").write(os.urandom(1 << 20))
""",
    "files in memory": """
import os, time
kept = []
for number in range(100):
    kept.append(os.memfd_create("m"))
    os.write(kept[-1], bytes(5 << 20))
time.sleep(20)
""",
    "memory without a first thread": EXIT + """
import os, threading, time
for _ in range(8):
    if os.fork() == 0:
        def hide():
            x = bytearray(80 << 20)
            x[::4096] = b"x" * len(x[::4096])
            time.sleep(20)
            os._exit(0)
        threading.Thread(target=hide).start()
        exit_first_thread()
if any(os.wait()[1] for _ in range(8)):
    os._exit(137)
""",
    "memory of many": """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(80 << 20)
        x[::4096] = b"x" * len(x[::4096])
        time.sleep(20)
        os._exit(0)
if any(os.wait()[1] for _ in range(8)):
    os._exit(137)
""",
}  # fmt: skip
FINE = {
    "sparse file": "import os; os.truncate(os.open('f', os.O_CREAT | os.O_RDWR), 7 << 20)",
    "hard links": """
import os
open('f', 'wb').write(os.urandom(7 << 20))
for n in range(20): os.link('f', f'f{n}')
""",
    "shared memory": """
from multiprocessing import get_context
context = get_context("fork")
lock, counts = context.Lock(), context.Array("i", 1000)
def count():
    with lock:
        counts[0] += 1
workers = [context.Process(target=count) for _ in range(3)]
for each in workers: each.start()
for each in workers: each.join()
print(counts[0])
""",
    "sent files": """
import multiprocessing
def count(end):
    end.send(sum(end.recv()))
def main():
    context = multiprocessing.get_context("forkserver")
    mine, theirs = context.Pipe()
    context.Process(target=count, args=(theirs,)).start()
    mine.send([1, 2])
    assert mine.recv() == 3
if __name__ == "__main__":
    main()
""",
    "memory of no process": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert [libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)] == [-1] * 3
""",
    "keys": """
import ctypes, os
keyctl, session = {"x86_64": 250, "aarch64": 219}[os.uname().machine], -3
assert ctypes.CDLL(None).syscall(keyctl, 0, session, 0) == -1
""",
    "own root": """
import ctypes, os
if os.fork() == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) != 0
    os._exit(0)
assert os.wait()[1] == 0
""",
    "other places": """
for place in ("/f", "/dev/f", "/usr/f", "/etc/f", "/proc/f", "/run/f", "/root/f"):
    try:
        open(place, "w").close()
    except OSError:
        continue
    raise SystemExit(place)
""",
    "closed workspace": """
import os, time
print("said", flush=True)
os.chmod(".", 0)
time.sleep(1.5)
""",
    "words of its own": """
import os
for each in (1, os.getppid()):
    try:
        assert b"AGENT_LIMITS_WORD" not in open(f"/proc/{each}/environ", "rb").read()
    except OSError:
        pass
""",
}
ANSWERS = {
    "large": ("def process(): return 'x' * 5_000_000", "more than 10,000 bytes"),
    "pipe": ("import os\ndef process(): os.mkfifo('.answer.json'); os._exit(0)", "not a regular"),
    "folder": ("import os\ndef process(): os.mkdir('.answer.json'); os._exit(0)", "not a regular"),
    "link": (
        "import os\ndef process(): os.symlink('/etc/passwd', '.answer.json'); os._exit(0)",
        "Too many levels of symbolic links",
    ),
    "socket": (
        "import os, socket\ndef process():\n"
        "    socket.socket(socket.AF_UNIX).bind('.answer.json'); os._exit(0)",
        "left no value",
    ),
    "nothing": ("import os\ndef process(): os._exit(0)", "No such file"),
    "deep": (
        "import os\ndef process():\n"
        "    open('.answer.json', 'w').write('[' * 5000 + ']' * 5000); os._exit(0)",
        "no value that is JSON",
    ),
    "nested": (
        "def process():\n    x = []\n    for _ in range(900): x = [x]\n    return x",
        "no value that is JSON",
    ),
    "half a letter": (
        "def process():\n    print('said')\n    return chr(0xd800)",
        "not valid Unicode",
    ),
    "bytes": (
        "import os\ndef process():\n"
        "    open('.answer.json', 'wb').write(b'\"\\xff\"'); os._exit(0)",
        "no value that is JSON",
    ),
    "digits": (
        "import os\ndef process():\n    open('.answer.json', 'w').write('9' * 5000); os._exit(0)",
        "no value that is JSON",
    ),
}  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on the way to which nothing is closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run(folder: Path, level: str, user: str, payloads: dict[str, Any]) -> dict[str, Any]:
    words = [str(folder), SETTINGS % level, json.dumps(payloads)]
    helper = HELPERS / "sandboxed.py"
    if user == "ordinary":
        said = run_as_ordinary_user([str(helper), *words], folder=folder)
    else:
        said = subprocess.run(
            [sys.executable, helper, *words],
            cwd=folder, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
    assert said.returncode == 0, said.stderr
    return dict(json.loads(said.stdout))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize(
    ("level", "user"),
    [
        ("bubblewrap", "ordinary"),
        ("process", "root"),
        pytest.param("bubblewrap", "root", marks=pytest.mark.slow),
        pytest.param("process", "ordinary", marks=pytest.mark.slow),
    ],
)
def test_no_way_leads_around_the_limits(
    folder: Path, level: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("takes root")
    if level == "bubblewrap" and not shutil.which("bwrap"):
        assert not os.environ.get("CI"), "CI needs bubblewrap: make programs"
        pytest.skip("bubblewrap is not installed: make programs")
    monkeypatch.setenv("AGENT_LIMITS_WORD", "hidden")
    payloads = {name: ("code_execution", code) for name, code in (TOO_MUCH | FINE).items()}
    payloads |= {name: ("custom_function", code) for name, (code, _) in ANSWERS.items()}
    found = run(folder, level, user, payloads)
    errors = {name: task["error"] or "" for name, task in found.items()}
    said = {name: errors[name] for name in TOO_MUCH}
    if not found["sparse file"]["result"]["isolation"]["own_processes"]:
        del said["temporary folders"]  # they are the machine's own
    for name in ("files in memory", "memory of many", "memory without a first thread"):
        # The kernel ends it where there are cgroups.
        ended = said.pop(name)
        assert "bytes of memory in all" in ended or "exit code 137" in ended
    assert {name: why for name, why in said.items() if "filled its workspace" not in why} == {}
    assert {name: errors[name] for name in FINE if errors[name]} == {}
    assert {
        name: errors[name] for name, (_, why) in ANSWERS.items() if why not in errors[name]
    } == {}
    for name in ("closed workspace", "half a letter"):
        assert found[name]["result"]["stdout"] == "said\n"
