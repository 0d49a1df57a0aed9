"""An outcome that is reported twice counts once, so that no claim looks done before it is."""

from __future__ import annotations

from typing import Any

import pytest
from sample_tasks import double

import runyard as ry
from runyard.attempt.wire import Loss, Report
from runyard.backends.serial import SerialBackend


class Stammering(SerialBackend):
    """Sends every report twice, and once more together with the next one."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self._last: Report | None = None

    def poll(self, timeout: float) -> list[Report | Loss]:
        found: list[Report | Loss] = []
        for each in super().poll(timeout):
            assert isinstance(each, Report)
            if self._last is not None and self._last.chunk == each.chunk:
                repeated = each._replace(
                    rows=self._last.rows + each.rows, failures=self._last.failures + each.failures
                )
                found.append(repeated)
            else:
                found.append(each)
            if not each.finished:
                found.append(found[-1])
            self._last = each
        return found


def odd(x: int) -> int:
    """A task that fails for odd numbers."""
    if x % 2:
        raise ValueError(x)
    return x


@pytest.mark.parametrize("function", [double, odd])
def test_a_report_that_comes_twice_counts_once(
    yard: ry.Yard, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    monkeypatch.setattr("runyard.backends.serial.SLICE", 1e-4)  # a report for a few tasks
    batch = ry.grid(function, x=range(600), seed=7)
    expected = yard.run(batch, backend="serial").digest
    monkeypatch.setattr("runyard.execution.open_backend", lambda *_, **__: Stammering(1))
    result = yard.run(batch, fresh=True, deadline="90s")
    assert result.end == "finished"
    assert result.digest == expected
    assert not list(yard.store.check())
