"""When a supervisor that does not answer is continued, and when another one takes its place."""

from __future__ import annotations

from runyard.backends.worker_pool import SILENT_SECONDS, Verdict, judged


def test_a_warden_with_nothing_to_do_is_well() -> None:
    assert judged(1e6, None, None, 10.0) is Verdict.WELL
    assert judged(1e6, None, 5.0, 10.0) is Verdict.WELL


def test_a_warden_has_time_for_an_order() -> None:
    assert judged(100.0 + SILENT_SECONDS, 100.0, None, 10.0) is Verdict.WAITING


def test_a_silent_warden_is_continued_before_it_is_given_up() -> None:
    assert judged(1e6, 100.0, None, 10.0) is Verdict.SILENT, "however long the engine was stopped"
    assert judged(205.0, 100.0, 200.0, 10.0) is Verdict.WAITING
    assert judged(210.5, 100.0, 200.0, 10.0) is Verdict.HUNG
