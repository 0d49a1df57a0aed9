"""A pool of workers as the engine starts it."""

from __future__ import annotations

import socket

import pytest
from polling import eventually

from runyard.backends.worker_pool import WorkerPool

MANY = 60


def test_a_pool_starts_however_little_its_socket_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = socket.socketpair

    def small() -> tuple[socket.socket, socket.socket]:
        ends = pair()
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel's minimum
        return ends

    monkeypatch.setattr("runyard.backends.helper.socket.socketpair", small)
    pool = WorkerPool(MANY)

    def have_started() -> bool:
        for readable in pool.poller.wait(0.1):
            if readable is pool:
                pool.read_exits()
        return all(worker.pid for worker in pool.workers)

    try:
        assert eventually(have_started, seconds=60)
    finally:
        pool.close()
