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
