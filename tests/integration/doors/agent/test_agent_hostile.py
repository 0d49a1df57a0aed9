"""Code that means harm, at every isolation level: limits hold, and the queue goes on."""

from __future__ import annotations

import fnmatch
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_queue import Queue, opened
from polling import eventually

SECRET = "hunter2-hunter2-hunter2"
PROCESSES = 20
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
is_root = os.geteuid() == 0

LIMITS = f"""
[limits]
cpu = 2
memory = "400MB"
processes = {PROCESSES}
file_size = "2MB"
disk = "6MB"
output = "100kB"
"""

PAYLOADS = {
    # Bounded even if no limit holds: nothing forks more often than this, and children sleep.
    "forks": """
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as error:
    print("made", made)
else:
    print("made", made)
""",
    "one big file": """
with open("big", "wb") as file:
    for _ in range(10_000):
        file.write(bytes(1 << 20))
""",
    "many files": """
import itertools
for number in itertools.count():
    with open(f"f{number}", "wb") as file:
        file.write(bytes(1 << 20))
    import time; time.sleep(0.02)
""",
    "endless output": "while True: print('y' * 1000)",
    "endless sums": "while True: pass",
    "much memory": "x = bytearray(4 << 30)",
    "parent's environment": """
import os
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            print(open(f"/proc/{name}/environ").read())
        except OSError:
            pass
print("looked")
""",
    "keys": """
import os
home = %(home)r
for place in (home, os.path.expanduser("~"), "/root"):
    try:
        print(open(os.path.join(place, ".ssh", "id_rsa")).read())
    except OSError as error:
        print(type(error).__name__)
print("looked")
""",
    "kill everybody": """
import os, signal
for victim in (os.getppid(), %(worker)d, -1):
    try:
        os.kill(victim, signal.SIGKILL)
    except OSError as error:
        print(type(error).__name__)
print("tried")
""",
    "daemon": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write("x")
        time.sleep(60)
    os._exit(0)
time.sleep(0.2)
print("left")
""",
    "network": """
import socket
try:
    socket.create_connection(("127.0.0.1", %(port)d), timeout=2).close()
    print("connected")
except OSError as error:
    print("no way")
""",
    "odd names": "open('a\\nb', 'w').close(); open(b'\\xff', 'w').close()",
}


@pytest.fixture(params=["process", "bubblewrap"])
def level(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and not shutil.which("bwrap"):
        assert not os.environ.get("CI"), "CI needs bubblewrap: make programs"
        pytest.skip("bubblewrap is not installed: make programs")
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of whoever runs the queue, with a key as private as such keys are."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True, mode=0o700)
    key = folder / ".ssh" / "id_rsa"
    key.write_text(SECRET)
    key.chmod(0o600)
    return folder


def run(queue: Queue, **words: Any) -> dict[str, dict[str, Any]]:
    queue.do(
        "add_batch",
        tasks=[
            {"name": name, "function": "code_execution", "max_retries": 0, "timeout": 20,
             "params": {"code": code % words if "%(" in code else code}}
            for name, code in PAYLOADS.items()
        ],
    )  # fmt: skip
    assert queue.drained(90)
    return queue.tasks()


@needs_linux
def test_hostile_code_is_held_back_and_the_queue_goes_on(
    tmp_path: Path, level: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_SECRET_WORD", SECRET)
    folder = tmp_path / "yard"
    folder.mkdir()
    (folder / "agent.toml").write_text(f'isolation = "{level}"\n{LIMITS}')
    before = groups()
    with socket.create_server(("127.0.0.1", 0)) as listener, opened(folder) as queue:
        first = queue.add(name="before", params={"duration": 0})
        queue.do("start", max_concurrent=2)
        worker = queue.pids[0]
        found = run(queue, home=str(home), worker=worker, port=listener.getsockname()[1])
        out = {name: (task["result"] or {}).get("stdout", "") for name, task in found.items()}
        errors = {name: task["error"] or "" for name, task in found.items()}

        assert queue.pids == [worker]
        assert psutil.pid_exists(worker)
        assert queue.task(first)["status"] == "completed"
        assert int(out["forks"].split()[-1]) < PROCESSES
        assert "File too large" in errors["one big file"]
        assert "filled its workspace" in errors["many files"]
        assert "printed more than" in errors["endless output"]
        assert found["endless sums"]["status"] == "failed"
        assert "MemoryError" in errors["much memory"]
        assert out["kill everybody"].endswith("tried\n") or errors["kill everybody"]
        assert out["daemon"] == "left\n"
        assert found["odd names"]["status"] == "completed"
        everything = queue.do("export").data["path"]
        assert SECRET not in Path(everything).read_text()
        if is_root or level == "bubblewrap":
            assert "looked" in out["parent's environment"]
            assert "[redacted]" not in out["parent's environment"]
            assert "looked" in out["keys"]
            assert "[redacted]" not in out["keys"]
        assert out["network"] == ("connected\n" if level == "process" else "no way\n")
        assert _strangers(folder) == []
    assert eventually(lambda: groups() <= before)


@needs_linux
def test_what_code_may_see_stands_in_no_process_s_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_WORD", SECRET)
    folder = tmp_path / "yard"
    folder.mkdir()
    (folder / "agent.toml").write_text('environment = ["OWN_WORD"]')
    code = """
import os, sys, time
print(len(os.environ["OWN_WORD"]), sys.stdin.read())
os.mkdir("up")
while os.path.isdir("up"):
    time.sleep(0.01)
"""
    with opened(folder) as queue:
        task = queue.add("code_execution", params={"code": code}, timeout=30, max_retries=0)
        queue.do("start")
        up = folder / "batches" / "queue" / "tasks" / "0" / "0" / "workspace" / "up"
        assert eventually(up.exists)
        said = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
        up.rmdir()
        assert queue.drained()
        assert SECRET not in str(said)
        assert queue.task(task)["result"]["stdout"] == f"{len(SECRET)} \n"


def groups() -> set[Path]:
    # Not `glob`, which fails where another test's group goes while it looks.
    return {
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in fnmatch.filter(names, "runyard-*-*")
    }


def _strangers(folder: Path) -> list[psutil.Process]:
    """Processes that still live in a task's workspace."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(folder / "batches")):
                found.append(process)
        except psutil.Error:
            continue
    return found
