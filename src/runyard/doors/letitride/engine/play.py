"""Plays sessions with the compiled kernel if possible, else with the plain reference.

Both give the same sessions. The reference plays a user's own classes, and everything if numba is
not installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runyard import clock
from runyard.doors.letitride.cache import has_happened, note_happened
from runyard.doors.letitride.cards.generator import Seeds
from runyard.doors.letitride.cards.tables import CATEGORIES
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine import reference
from runyard.doors.letitride.engine.columns import COUNTS, NAMES, PERCENT, ColumnArrays, joined
from runyard.doors.letitride.game.game import Game, game_of
from runyard.spec.codec import decode, encode

Log = NDArray[np.int64]
Tick = Callable[[int], object]


@dataclass(frozen=True)
class Played:
    """Sessions that were played, and their hands if requested."""

    columns: ColumnArrays
    log: Log | None  # a line for each hand, with room for all hands in each row


def has_kernel() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def play(game: Game, seeds: Seeds, *, log: bool = False, step: int = 0, tick: Tick = int) -> Played:
    """Play sessions from their seeds, with the kernel or, without numba, with the reference.

    `tick` is called with the number of finished sessions after every `step` of them.
    """
    if not has_kernel():
        return play_plain(game, seeds, reference.players_of(game), log=log, step=step, tick=tick)
    from runyard.doors.letitride.engine import kernel

    sessions = len(seeds)
    rows = sessions * game.seats
    whole = np.zeros((len(NAMES), rows), np.int64)
    percent = np.zeros(rows, np.float64)
    counts = np.zeros((rows, CATEGORIES), np.int32)
    lines = np.zeros((rows * game.hands if log else 0, kernel.LOG_WIDTH), np.int64)
    rules, lookup = kernel.rules_of(game), kernel.lookup_of(game)
    for low in range(0, sessions, step or sessions):
        high = min(low + (step or sessions), sessions)
        kernel.play(rules, lookup, seeds, low, high, whole, percent, counts, lines)
        tick(high)
    found: ColumnArrays = dict(zip(NAMES, whole, strict=True))
    found |= {PERCENT: percent, COUNTS: counts}
    return Played(found, lines if log else None)


def play_plain(
    game: Game,
    seeds: Seeds,
    players: reference.Players,
    *,
    log: bool = False,
    step: int = 0,
    tick: Tick = int,
) -> Played:
    """Play sessions from their seeds with the reference."""
    lines = np.zeros((len(seeds) * game.seats * game.hands if log else 0, 8), np.int64)
    parts = []
    for low in range(0, len(seeds), step or len(seeds)):
        chunk = seeds[low : low + (step or len(seeds))]
        first = low * game.seats * game.hands
        parts.append(reference.play_sessions(game, chunk, players, lines[first:] if log else None))
        tick(low + len(chunk))
    return Played(joined(parts), lines if log else None)


@dataclass(frozen=True)
class Warmth:
    """How long it took to prepare the kernel."""

    seconds: float
    compiled: bool  # False: it was already on disk


def warm_up(game: Game) -> Warmth:
    """Compile the kernel unless it is on disk, and play one session with it."""
    begin = clock.monotonic()
    if not has_kernel() or has_happened(_compiled_here()):
        return Warmth(0.0, compiled=False)
    from runyard.doors.letitride.engine import kernel

    play(game, np.ones((1, 2), np.uint64))
    if kernel.is_kept():
        note_happened(_compiled_here())
    return Warmth(clock.monotonic() - begin, compiled=bool(kernel.play.stats.cache_misses))


def _compiled_here() -> list[str]:
    """The environment that a compiled kernel belongs to."""
    version = importlib.metadata.version
    return ["kernel", version("numba"), version("numpy"), sys.version, platform.machine(),
            platform.processor(), platform.node(), str(Path(__file__).parent)]  # fmt: skip


def game_from(data: dict[str, Any]) -> Game:
    """The game of a plain configuration, cached per process."""
    return _game(encode(data))


@lru_cache(maxsize=16)
def _game(data: bytes) -> Game:
    return game_of(FullConfig.from_data(decode(data)))
