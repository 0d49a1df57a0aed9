"""A PostgreSQL server that answers nothing and closes nothing: engines end when told to."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from chaos_run import PROMPTLY, runs
from databases import Server
from polling import eventually
from shared_workers import Crowd, crowd

import runyard as ry
from runyard.errors import StoreAway
from runyard.store import open_store, sessions

RUN = ("run", "chaos_tasks:counted", "--grid", "x=0..4999", "--name", "chaos", "--no-progress")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.remove()


@pytest.fixture
def workers(tmp_path: Path, server: Server) -> Iterator[Crowd]:
    try:
        with crowd(tmp_path, server.url) as found:
            yield found
    finally:
        server.thaw()
        with ry.Yard(server.url) as yard:
            for result in yard.status():
                yard.stop(result.name)
                assert eventually(lambda name=result.name: not alive(yard), 60)
                yard.clear(result.name)


def alive(yard: ry.Yard) -> list[int]:
    with yard.store.snapshot() as view:
        return [row.id for row in view.engines() if yard.store.alive(row.id)]


def start_run(workers: Crowd) -> subprocess.Popen[str]:
    return workers.start(*RUN, "--workers", "1")


def start_worker(workers: Crowd) -> subprocess.Popen[str]:
    workers.submit(5000)
    return workers.worker()


@pytest.mark.parametrize("start", [start_run, start_worker])
def test_two_interrupts_end_an_engine_whose_server_is_frozen_and_leave_nothing(
    workers: Crowd, server: Server, start: Callable[[Crowd], subprocess.Popen[str]]
) -> None:
    process = start(workers)
    assert eventually(lambda: workers.started() > 50, 60), process.poll()
    family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert family
    server.freeze()
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # it finishes, and waits for the server
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    assert time.monotonic() - began < StoreAway.last_seconds + 2 * PROMPTLY
    assert "Traceback" not in errors
    assert "does not respond" in errors
    assert eventually(lambda: not any(map(runs, family)), PROMPTLY)


def test_a_server_that_is_frozen_is_away_and_one_that_thaws_is_used_again(
    workers: Crowd, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(StoreAway, "patience", 1.0)
    workers.submit(10)
    with ry.Yard(server.url) as yard:
        assert yard.results("chaos").stats.total == 10
        server.freeze()
        with pytest.raises(StoreAway, match="be reached"):
            yard.results("chaos")
        server.thaw()
        assert yard.results("chaos").stats.total == 10


def test_a_statement_that_takes_long_is_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SILENCE_SECONDS", 0.2)
    store = open_store(server.url)
    with store.snapshot() as view:
        view.run("SELECT pg_sleep(1)")  # type: ignore[attr-defined]
    store.close()


@pytest.mark.parametrize("program", ["status", "doctor"])
def test_one_interrupt_ends_a_command_that_waits_for_a_frozen_server(
    workers: Crowd, server: Server, program: str
) -> None:
    workers.submit(10)
    server.freeze()
    process = workers.start(program)
    # Where it is known that it waits: once it has a socket to the server.
    assert eventually(lambda: psutil.Process(process.pid).net_connections("unix"), 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
