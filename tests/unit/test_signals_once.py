"""A program is interrupted once; what follows does not disturb how it ends."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import pytest

from runyard import interrupts
from runyard.interrupts import raise_once


@pytest.fixture(autouse=True)
def not_ending() -> Iterator[None]:
    interrupts.forget_end()
    yield
    interrupts.forget_end()


def test_the_first_signal_raises_and_those_that_follow_do_not() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_once(signal.SIGINT, None)
    raise_once(signal.SIGINT, None)
    raise_once(signal.SIGTERM, None)


def test_sigterm_is_an_exit_with_its_own_code() -> None:
    with pytest.raises(SystemExit) as caught:
        raise_once(signal.SIGTERM, None)
    assert caught.value.code == 143


def test_a_program_that_does_not_end_can_be_interrupted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupts.note_end()
    raise_once(signal.SIGINT, None)
    monkeypatch.setattr(interrupts, "PATIENCE", 0.0)
    with pytest.raises(KeyboardInterrupt):
        raise_once(signal.SIGINT, None)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_what_is_raised_where_python_drops_it_is_raised_again(
    number: signal.Signals, error: type[BaseException]
) -> None:
    class Collected:
        def __del__(self) -> None:
            signal.raise_signal(number)

    with interrupts.handled(raise_once), interrupts.not_lost(), pytest.raises(error):
        Collected()
        until = time.monotonic() + 10
        while time.monotonic() < until:
            time.sleep(0.005)


def test_other_errors_that_python_drops_are_told_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(found.exc_type))

    class Collected:
        def __del__(self) -> None:
            raise ValueError

    with interrupts.not_lost():
        Collected()
    assert told == [ValueError]


def test_handlers_are_afterwards_what_they_were() -> None:
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    with interrupts.handled(raise_once):
        assert signal.getsignal(signal.SIGTERM) is raise_once
        with interrupts.by_asyncio():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is raise_once
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before
