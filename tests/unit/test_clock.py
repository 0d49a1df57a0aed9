from __future__ import annotations

import pytest

from runyard import clock


def test_clocks_are_replaced_for_a_while() -> None:
    wall, mono = clock.now, clock.monotonic
    with clock.replaced(wall=lambda: 1.0):
        assert clock.now() == 1.0
        assert clock.monotonic is mono
        with clock.replaced(mono=lambda: 2.0):
            assert (clock.now(), clock.monotonic()) == (1.0, 2.0)
        assert clock.monotonic is mono
    assert (clock.now, clock.monotonic) == (wall, mono)


def test_clocks_are_put_back_when_a_test_fails() -> None:
    wall = clock.now
    with pytest.raises(ZeroDivisionError), clock.replaced(wall=lambda: 1.0):
        raise ZeroDivisionError
    assert clock.now is wall


def test_monotonic_time_never_goes_back() -> None:
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)


class Hands:
    """Clocks that a test moves."""

    def __init__(self) -> None:
        self.time, self.cpu = 100.0, 1.0
        self.pauses = clock.Pauses(lambda: self.time, lambda: self.cpu)

    def move(self, seconds: float, *, cpu: float = 0.0) -> None:
        self.time += seconds
        self.cpu += cpu
        self.pauses.look()


def test_time_in_which_a_process_did_not_run_is_a_pause() -> None:
    hands = Hands()
    with hands.pauses.counted():
        hands.move(0.1)
        hands.move(5.0)
        hands.move(0.1)
        assert hands.pauses.within(10.0) == pytest.approx(5.0)
        assert hands.pauses.within(2.1) == pytest.approx(2.0), "the task began within the pause"
        assert hands.pauses.within(1.0, ago=3.0) == pytest.approx(1.0)
        assert hands.pauses.within(3.0, ago=6.0) == 0.0, "the task ended before the pause"


def test_a_pause_counts_before_the_watch_has_seen_its_end() -> None:
    hands = Hands()
    with hands.pauses.counted():
        hands.time += 3.0
        assert hands.pauses.within(10.0) == pytest.approx(3.0)


def test_a_process_that_computes_does_not_pause() -> None:
    hands = Hands()
    with hands.pauses.counted():
        hands.move(5.0, cpu=4.5)
        assert hands.pauses.within(10.0) == 0.0


def test_time_that_nobody_watched_is_no_pause() -> None:
    hands = Hands()
    hands.move(50.0)
    with hands.pauses.counted():
        hands.move(0.1)
        assert hands.pauses.within(100.0) == 0.0
