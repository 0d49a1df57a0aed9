"""A Ray for tests: a head and nodes as processes of this machine, gone with the test."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from polling import eventually

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On a busy machine a node takes its time, and Ray would take it for dead.
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_health_check_failure_threshold": "30",
}
STORE = 150 * 1024 * 1024

# A process of its own: the test's own stays free of Ray, as a user's would.
_SERVE = """
import json, sys
from ray.cluster_utils import Cluster
cluster, nodes = Cluster(), []
for line in sys.stdin:
    what, given = json.loads(line)
    if what == "add":
        nodes.append(cluster.add_node(**given))
        print(json.dumps(cluster.address), flush=True)
    elif what == "kill":
        cluster.remove_node(nodes[given], allow_graceful=False)
        print("null", flush=True)
cluster.shutdown()
"""


class Head:
    """A cluster, with its head node there from the start. Nodes are numbered; the head is 0."""

    def __init__(self, cpus: int = 2, **settings: Any) -> None:
        self._settings = {"num_cpus": cpus, "object_store_memory": STORE, **settings}
        self.address = ""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="ray-test-")
        # `Cluster` notes its address in `ray/` of this folder, and does not make it.
        Path(self._folder, "ray").mkdir()
        env = without_ray() | QUIET | {"RAY_TMPDIR": self._folder}
        self._log = Path(self._folder, "log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _SERVE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=env,
            start_new_session=True,
        )  # fmt: skip
        self.address = self.add(include_dashboard=False, **self._settings)
        return self

    @property
    def is_alive(self) -> bool:
        """Whether the head's node runs: Ray ends one whose agent did not start in time."""
        names = (psutil.Process(pid).name() for pid in left_of(self._folder))
        with contextlib.suppress(psutil.NoSuchProcess):
            return "raylet" in list(names)
        return self.is_alive

    def add(self, **settings: Any) -> str:
        """One more node."""
        given = {"object_store_memory": STORE, "temp_dir": self._folder, **settings}
        return str(self._ask("add", given))

    def kill(self, node: int) -> None:
        """End all processes of a node at once."""
        self._ask("kill", node)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        assert eventually(lambda: not left_of(self._folder)), left_of(self._folder)

    def _ask(self, what: str, given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, given]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            log = Path(self._folder, "log").read_text()
            raise AssertionError(f"the test's Ray ended:\n{log[-3000:]}")
        return json.loads(line)


def left_of(folder: str) -> list[int]:
    """Processes that were started with this folder among their words."""

    return [
        process.info["pid"]
        for process in psutil.process_iter(["pid", "cmdline"])
        if any(folder in word for word in process.info["cmdline"] or ())
    ]


def without_ray() -> dict[str, str]:
    """The environment, as if no test had started a Ray."""
    return {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}


@contextlib.contextmanager
def far_node(address: str, *, hidden: Path, resources: dict[str, float]) -> Iterator[None]:
    """A node that sees an empty folder where others see this one: a mount namespace of its own."""
    folder = tempfile.mkdtemp(prefix="ray-far-")
    start = [
        str(Path(sys.executable).parent / "ray"), "start", "--block", f"--address={address}",
        "--num-cpus=2", f"--object-store-memory={STORE}", f"--resources={json.dumps(resources)}",
        "--disable-usage-stats",
    ]  # fmt: skip
    words = f"mount -t tmpfs tmpfs {hidden} && cd {folder} && exec {shlex.join(start)}"
    with Path(folder, "log").open("w") as log:
        process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", words],
            stdout=log, stderr=log, env=without_ray() | QUIET | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )  # fmt: skip
        said = Path(folder, "log")
        try:
            has_joined = eventually(lambda: "runtime started" in said.read_text(), 90)
            assert has_joined, said.read_text()
            yield
        finally:
            family = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            try:
                process.wait(20)
            finally:
                for member in family:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
                shutil.rmtree(folder, ignore_errors=True)
