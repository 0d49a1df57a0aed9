"""Compiling: kept on disk where there is a place, and done without one where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from runyard.doors.letitride import cache
from runyard.doors.letitride.cards import tables
from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine import kernel, kernel_cards, kernel_rules, reference
from runyard.doors.letitride.engine import play as engine
from runyard.doors.letitride.game.game import game_of


def test_without_a_place_on_disk_functions_are_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = numba.njit

    def no_place(*args: Any, cache: bool = False, **options: Any) -> Callable[..., Any]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        found: Callable[..., Any] = plain(*args, **options)
        return found

    monkeypatch.setattr(numba, "njit", no_place)
    assert kernel_cards.compiled(lambda x: x + 1)(2) == 3


def test_the_kernel_is_kept_on_disk_and_that_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    game = game_of(FullConfig())
    engine.warm_up(game)
    assert kernel.is_kept()
    assert engine.warm_up(game) == engine.Warmth(0.0, compiled=False)


def test_without_numba_the_reference_plays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    game, seeds = game_of(FullConfig()), session_seeds(4, 0, 5)
    fast = engine.play(game, seeds, log=True)
    monkeypatch.setattr(engine, "has_kernel", lambda: False)
    plain = engine.play(game, seeds, log=True)
    for name, values in fast.columns.items():
        np.testing.assert_array_equal(plain.columns[name], values)
    np.testing.assert_array_equal(plain.log, fast.log)
    assert engine.warm_up(game).seconds == 0
    assert reference.play_sessions(game, seeds)["hands_played"].sum() == 1000


def test_five_ranks_say_what_the_table_of_five_cards_says() -> None:
    cards = tables.hands(5)
    numbers = sum(kernel_rules.PLACES[place][cards[place]] for place in range(5))
    suited = ((cards ^ cards[0]) & 3 == 0).all(axis=0)
    found = kernel_rules.five_ranks()[numbers + kernel_rules.RANK_HANDS * suited]
    np.testing.assert_array_equal(found, tables.five_categories())


def test_kept_arrays_come_back_and_damage_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[int] = []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"a": np.arange(5)}

    for _ in range(2):
        np.testing.assert_array_equal(cache.cached_arrays("x", make)["a"], np.arange(5))
    assert len(made) == 1
    for path in cache.folder().glob("*.npz"):
        path.write_bytes(b"PK\x03\x04 torn")
    np.testing.assert_array_equal(cache.cached_arrays("x", make)["a"], np.arange(5))
    assert len(made) == 2
