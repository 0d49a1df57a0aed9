"""What every test may use: a yard of its own, each backend in turn, and a watch on leftovers."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, Phase, settings

HELPERS = str(Path(__file__).parent / "helpers")
if HELPERS not in sys.path:
    sys.path.insert(0, HELPERS)

from command_server import close_servers  # noqa: E402
from polling import eventually  # noqa: E402

from runyard import Yard  # noqa: E402
from runyard.backends import NAMES  # noqa: E402
from runyard.backends.processes import close_pools  # noqa: E402
from runyard.backends.ray.client import close_clients  # noqa: E402

# Explaining a failure traces every line, which takes longer than finding it.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
QUIET = [HealthCheck.too_slow]
settings.register_profile(
    "runyard", deadline=None, derandomize=True, suppress_health_check=QUIET, phases=PHASES
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, suppress_health_check=QUIET, phases=PHASES
)
settings.load_profile("runyard")

# A shell starts what it puts in the background deaf to Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A yard of the test's own, gone with it."""
    with Yard(tmp_path / "yard") as place:
        yield place


@pytest.fixture(scope="module", params=NAMES)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn; a new one is one line in `runyard.backends.NAMES`."""
    return str(request.param)


@pytest.fixture(scope="session")
def ray_heads() -> Iterator[list[Any]]:
    """The Ray that tests of the session share, the last one; gone with the session."""
    heads: list[Any] = []
    yield heads
    _drop_heads(heads)


@pytest.fixture
def ray_head(ray_heads: list[Any]) -> str:
    """A Ray for all tests that run on it, another one if it died; its address, in `RAY_ADDRESS`."""
    from ray_kit import Head

    from runyard.backends.ray.cluster import answers

    if not ray_heads or not (ray_heads[-1].is_alive and answers(ray_heads[-1].address)):
        _drop_heads(ray_heads)
        ray_heads.append(Head(cpus=6).__enter__())
        os.environ["RAY_ADDRESS"] = ray_heads[-1].address
    return str(ray_heads[-1].address)


def _drop_heads(heads: list[Any]) -> None:
    close_clients()
    os.environ.pop("RAY_ADDRESS", None)
    while heads:
        heads.pop().__exit__(None, None, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that run on Ray share one, and only with two workers is each of them quick."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        values = callspec.params.values() if callspec else ()
        backends = [getattr(value, "backend", value) for value in values]
        if any(isinstance(name, str) and name == "ray" for name in backends):
            item.fixturenames.append("ray_head")  # type: ignore[attr-defined]
            if any(getattr(value, "workers", 2) != 2 for value in values):
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """Keep pytest's own variable from making each test's environment differ from the last one's.

    Warm workers serve only runs with the environment that they were started in.
    """
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def no_child_process_is_left() -> Iterator[None]:
    """Fail the session when it leaves a process behind."""
    yield
    close_clients()
    close_pools()
    close_servers()
    gc.collect()
    me = psutil.Process()
    gone = eventually(lambda: not _running(me), seconds=60)
    assert gone, f"processes are left: {_running(me)}"


def _running(me: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in me.children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found
