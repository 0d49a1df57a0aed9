"""Fixtures of tests without processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def still_process() -> Iterator[None]:
    """No timer of pytest's runs while the test does."""
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.setitimer(signal.ITIMER_REAL, *timer)
