"""When a supervisor that does not answer is continued, and when it is replaced."""

from __future__ import annotations

from runyard.backends.worker_pool import SILENT_SECONDS, Health, health_of


def test_an_idle_supervisor_is_well() -> None:
    assert health_of(1e6, None, None, 10.0) is Health.WELL
    assert health_of(1e6, None, 5.0, 10.0) is Health.WELL


def test_a_supervisor_has_time_for_a_request() -> None:
    assert health_of(100.0 + SILENT_SECONDS, 100.0, None, 10.0) is Health.WAITING


def test_a_silent_supervisor_is_continued_before_it_is_replaced() -> None:
    assert health_of(1e6, 100.0, None, 10.0) is Health.SILENT, "the engine may have been stopped"
    assert health_of(205.0, 100.0, 200.0, 10.0) is Health.WAITING
    assert health_of(210.5, 100.0, 200.0, 10.0) is Health.HUNG
