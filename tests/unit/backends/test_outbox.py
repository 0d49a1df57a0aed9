"""A worker's results stay in its outbox until they are sent, even after errors."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from polling import eventually

from runyard.attempt.process_state import ProcessState
from runyard.attempt.wire import (
    Completed,
    Emission,
    Failure,
    Report,
    StateChange,
    decode_report,
    encode_report,
)
from runyard.backends.channel import HEAD, MARK
from runyard.backends.outbox import Outbox
from runyard.spec.outcome import OutcomeRow, Printed, Rows


class Wire:
    """An outbox, and the other end of its channel."""

    def __init__(self) -> None:
        self._mine, self._theirs = socket.socketpair()
        self._mine.settimeout(10)
        state = ProcessState(self._theirs.fileno())
        state.keep([1, 2])
        self.outbox = Outbox(self._theirs, 3, state)
        self.outbox.begin(7)

    def fill(self, tasks: range, *, trusted: bool = True) -> None:
        for task in tasks:
            self.outbox.emit(Emission(task, 0, 1.0, "k", b"\x80"))
            row = OutcomeRow.with_checksum(1, task, 0, 0, b"\xc0", None, 1.0, 0.5, 3)
            printed = Completed(tuple(row), Printed(task, 0, b"x", b""))  # type: ignore[arg-type]
            failed = Failure(row, ["Exception"])
            result: Any = [tuple(row), printed, failed][task % 3]
            self.outbox.results.add(result)
        if trusted:
            self.outbox.trust()

    def report(self) -> Report:
        mark, size = HEAD.unpack(self._read(HEAD.size))
        assert mark == MARK
        return decode_report(self._read(size))

    def reports(self) -> list[Report]:
        """All reports up to the last one of the chunk."""
        found = [self.report()]
        while not found[-1].finished:
            found.append(self.report())
        return found

    def close(self) -> None:
        self._mine.close()
        self._theirs.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._mine.recv(size - len(data))
        return data


@pytest.fixture
def wire() -> Iterator[Wire]:
    found = Wire()
    yield found
    found.outbox.close()
    found.close()


def tasks(reports: list[Report]) -> list[int]:
    return sorted(
        [task for each in reports for task in Rows(each.rows).tasks]
        + [failure.row.task for each in reports for failure in each.failures]
    )


def fails_above(size: int) -> Callable[[Report], bytes]:
    """An encoder that fails for reports with more entries than this."""

    def encode(report: Report) -> bytes:
        if len(Rows(report.rows)) + len(report.failures) + len(report.emitted) > size:
            raise MemoryError
        return encode_report(report)

    return encode


@pytest.mark.parametrize("most", [1, 5, 1000])
def test_a_report_too_large_to_encode_is_sent_in_parts(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    wire.fill(range(20))
    monkeypatch.setattr("runyard.backends.outbox.encode_report", fails_above(most))
    wire.outbox.finish()
    reports = wire.reports()
    assert tasks(reports) == list(range(20))
    assert [e.task for each in reports for e in each.emitted] == list(range(20))
    assert sorted(p.task for each in reports for p in each.printed) == list(range(1, 20, 3))
    assert [each.finished for each in reports] == [False] * (len(reports) - 1) + [True]
    done = 0
    for each in reports:
        done += len(Rows(each.rows)) + len(each.failures)
        assert each.done == done


def test_a_report_above_the_size_limit_is_split(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.backends.outbox.LARGEST", 300)
    wire.fill(range(30))
    wire.outbox.finish()
    reports = wire.reports()
    assert len(reports) > 3
    assert tasks(reports) == list(range(30))


def test_a_report_that_fails_to_encode_is_sent_later(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fails(report: Report) -> bytes:
        tried.append(report)
        raise MemoryError if len(tried) % 2 else ValueError

    with monkeypatch.context() as patched:
        patched.setattr("runyard.backends.outbox.encode_report", fails)
        wire.fill(range(10))
        assert eventually(lambda: len(tried) > 6), "the flusher gave up"
    report = wire.report()
    assert tasks([report]) == list(range(10))
    assert (report.done, report.finished) == (10, False)


def test_results_wait_until_the_process_is_known_to_be_unchanged(wire: Wire) -> None:
    wire.fill(range(4))
    wire.fill(range(4, 10), trusted=False)
    assert tasks([wire.report()]) == list(range(4))  # by the flusher
    assert (wire.outbox.ended, wire.outbox.results.size) == (4, 6)
    wire.outbox.trust()
    assert tasks([wire.report()]) == list(range(4, 10))


def test_tasks_that_have_to_run_again_leave_no_results(wire: Wire) -> None:
    wire.fill(range(3))
    wire.fill(range(3, 9), trusted=False)
    wire.outbox.forget_untrusted()
    wire.fill(range(3, 6))
    wire.outbox.finish()
    reports = wire.reports()
    assert tasks(reports) == list(range(6))
    assert [e.task for each in reports for e in each.emitted if e.task > 5] == []


def test_a_change_by_a_task_is_reported_with_its_result(wire: Wire) -> None:
    wire.fill(range(4), trusted=False)
    wire.outbox.trust("the locale", is_undone=False)
    wire.outbox.finish()
    changes = [report.change for report in wire.reports() if report.change]
    assert changes == [StateChange(3, "the locale", False)]
