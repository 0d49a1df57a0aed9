"""The time after which an engine counts as gone, as the environment gives it."""

from __future__ import annotations

import pytest

from runyard.errors import UsageError

pytest.importorskip("psycopg")

from runyard.store.lease import lease_seconds


@pytest.mark.parametrize(("text", "seconds"), [("", 15.0), ("3", 3.0), ("0.5", 0.5)])
def test_the_seconds_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("RUNYARD_LEASE", text)
    assert lease_seconds() == seconds


@pytest.mark.parametrize("text", ["abc", "0", "-1", "nan", "inf"])
def test_what_is_no_time_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RUNYARD_LEASE", text)
    with pytest.raises(UsageError, match="RUNYARD_LEASE is"):
        lease_seconds()
