"""Let It Ride: hands a second, against what the machine could do at best.

Basic strategy, flat bets, one seat, 200 hands a session, and every session with all it records.
The bare loop draws five distinct cards with the same generator and does nothing else; the bare
processes call the kernel for half of the sessions each and record nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing import Barrier, Process
from multiprocessing.synchronize import Barrier as BarrierType
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, at_least, at_most, rate
from benchmarks.ours import WORKERS
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread

SESSIONS, HANDS = 100_000, 200
BARE_HANDS, PLAIN_SESSIONS, NUMPY_SESSIONS = 400_000, 20, 1_000
REPEATS = {"kernel": 100, "draws": 100, "reference": 20, "numpy": 8}
PUBLIC_RATE = 17_600
"""Hands a second of the public pure-Python implementation on one core of this kind of machine."""


def measure(rounds: int) -> list[Figure]:
    """Hands a second: the kernel, the recorded batch, the reference, against bare loops."""
    measured = in_rounds(
        "letitride",
        {
            "engines": lambda _: fresh(f"{__name__}:engines"),
            "bare": lambda _: fresh(f"{__name__}:bare"),
            "two": lambda _: fresh(f"{__name__}:batch", workers=WORKERS),
            "one": lambda _: fresh(f"{__name__}:batch", workers=1),
        },
        rounds,
    )
    engines = {name: [each[name] for each in measured["engines"]] for name in _ENGINES}
    kernel, draws = engines["kernel"], engines["draws"]
    two, one, bare_times = ([seconds for seconds, _ in measured[name]]
                            for name in ("two", "one", "bare"))  # fmt: skip
    hands = SESSIONS * HANDS
    best = f"{1e9 * min(kernel):.1f} ns a hand, {rate(1 / min(kernel))}; "
    recording = [f"{hands / min(two):,.0f} hands/s", f"recording costs "
                 f"{min(two) - min(bare_times):.2f} s of {min(two):.2f} s"]  # fmt: skip
    plain = 1 / np.median(engines["reference"])
    return [
        Figure("letitride", "kernel with all accounting, against drawing five cards alone",
               median_ratio(kernel, draws), "×", at_most(2.5),
               best + f"{1e9 * min(draws):.1f} ns; " + spread(kernel, draws)),
        Figure("letitride", f"{SESSIONS:,} sessions recorded, against the kernel on the same cores",
               median_ratio(two, bare_times), "×", at_most(1.6),
               "; ".join(recording) + "; " + spread(two, bare_times)),
        Figure("letitride", "two workers against one, recorded", median_ratio(one, two), "×",
               at_least(1.7), f"{min(one):.2f} s and {min(two):.2f} s; " + spread(one, two)),
        Figure("letitride", "the plain reference, against the public implementation",
               plain / PUBLIC_RATE, "×", at_least(3.0), f"{rate(plain)} on one core"),
        Figure("letitride", "the kernel against vectorised numpy",
               median_ratio(engines["numpy"], kernel), "×", None,
               f"numpy {rate(1 / min(engines['numpy']))} on one core"),
    ]  # fmt: skip


_ENGINES = ("kernel", "draws", "reference", "numpy")


def engines(folder: str) -> dict[str, float]:
    """Seconds a hand of each on one core, the best of a few tries in turn."""
    from runyard.doors.letitride.cards.generator import session_seeds
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.engine import play as engine
    from runyard.doors.letitride.engine import reference
    from runyard.doors.letitride.game.game import game_of

    game = game_of(FullConfig())
    draws = _drawing()
    many, few = session_seeds(1, 0, BARE_HANDS // HANDS), session_seeds(2, 0, PLAIN_SESSIONS)

    def kernel() -> int:
        return int(engine.play(game, many).columns["hands_played"].sum())

    def plain() -> int:
        return int(reference.play_sessions(game, few)["hands_played"].sum())

    def bare_draws() -> int:
        draws(np.uint64(1), np.uint64(2), BARE_HANDS)
        return BARE_HANDS

    tries: dict[str, Callable[[], int]] = {
        "kernel": kernel,
        "draws": bare_draws,
        "reference": plain,
        "numpy": lambda: vectorised(game, NUMPY_SESSIONS),
    }
    for each in tries.values():
        each()
    found = dict.fromkeys(tries, float("inf"))
    for number in range(max(REPEATS.values())):
        for name, each in tries.items():
            if number >= REPEATS[name]:
                continue
            started = time.perf_counter()
            hands = each()
            found[name] = min(found[name], (time.perf_counter() - started) / hands)
    return found


def _drawing() -> Callable[..., int]:
    """The bare loop: five distinct cards a hand from the kernel's own generator."""
    import numba

    from runyard.doors.letitride.engine.kernel_cards import advance, five_cards

    @numba.njit(error_model="numpy", boundscheck=False)  # type: ignore[untyped-decorator]
    def draw(first, second, hands):  # type: ignore[no-untyped-def]
        seen = np.uint32(0)
        for _ in range(hands):
            number, first, second = advance(first, second)
            p, q, r, d, e, _s, _t, _u, _v = five_cards(number)
            seen ^= p + q + r + d + e
        return seen

    return draw  # type: ignore[no-any-return]


def vectorised(game: Any, sessions: int) -> int:
    """The same sessions' game by whole arrays, as one would write it with numpy alone."""
    from runyard.doors.letitride.cards import tables

    dice = np.random.default_rng(1)
    cards = np.argpartition(dice.random((sessions * HANDS, 52), dtype=np.float32), 5)[:, :5]

    def number(hand: Any) -> Any:
        ordered = np.sort(hand, axis=1)
        return sum(tables.BINOMIAL[k + 1][ordered[:, k]] for k in range(ordered.shape[1]))

    riding = (
        1
        + game.decisions.bet1[number(cards[:, :3])].astype(np.int64)
        + game.decisions.bet2[number(cards[:, :4])]
    )
    category = tables.five_categories()[number(cards)]
    pays = np.array(game.main_pays) // 10_000
    profit = (riding * game.base * pays[category]).reshape(sessions, HANDS)
    bankroll = game.start + np.cumsum(profit, axis=1)
    broke = np.where(bankroll < 3 * game.base, np.arange(HANDS), HANDS).min(axis=1)
    played = np.minimum(broke + 1, HANDS)
    peak = np.maximum.accumulate(bankroll, axis=1)
    drawdown = (peak - bankroll).max(axis=1)
    return int(played.sum()) + 0 * int(drawdown.sum())


def batch(workers: int, folder: str) -> tuple[float, int]:
    """Seconds for the recorded batch with warm worker processes, and its hands."""
    from runyard.doors.letitride import FullConfig, SimulationController

    def run(sessions: int, seed: int, name: str) -> tuple[float, int]:
        played = {"num_sessions": sessions, "hands_per_session": HANDS, "random_seed": seed}
        made = SimulationController(
            FullConfig.from_data({"simulation": played}),
            workers,
            backend="processes",
            yard=Path(folder, name),
        )
        started = time.perf_counter()
        results = made.run()
        assert results.result.stats.completed == results.result.stats.total
        return time.perf_counter() - started, sessions * HANDS

    run(SESSIONS // 5, 1, "warm")
    return run(SESSIONS, 2, "measured")


def bare(folder: str) -> tuple[float, int]:
    """Seconds from when both processes stand ready until each has played half the sessions."""
    ready, done = Barrier(WORKERS + 1), Barrier(WORKERS + 1)
    processes = [Process(target=_half, args=(at, ready, done)) for at in range(WORKERS)]
    for process in processes:
        process.start()
    ready.wait()
    started = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - started
    for process in processes:
        process.join()
    return seconds, SESSIONS * HANDS


def _half(worker: int, ready: BarrierType, done: BarrierType) -> None:
    from runyard.doors.letitride.cards.generator import session_seeds
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.engine import play as engine
    from runyard.doors.letitride.game.game import game_of

    game = game_of(FullConfig())
    engine.play(game, session_seeds(1, 0, 2))
    share = SESSIONS // WORKERS
    ready.wait()
    for first in range(worker * share, (worker + 1) * share, 5_000):
        engine.play(game, session_seeds(2, first, 5_000))
    done.wait()
