"""The tasks: each is a block of sessions, and its value has their columns as arrays.

A session's seed comes from the root seed and the session's number, so sessions don't depend on the
size of blocks.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from runyard.attempt.context import Context
from runyard.doors.letitride.cards.generator import session_seeds
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine.columns import packed
from runyard.doors.letitride.engine.play import Played, game_from, play, play_plain
from runyard.doors.letitride.engine.reference import Players
from runyard.doors.letitride.game.money import dollars

DONE = "sessions"
"""The kind of event with which a block reports how many of its sessions are done."""

HANDS_A_BLOCK, PLAIN_HANDS_A_BLOCK = 1 << 20, 1 << 15
"""The approximate number of hands in a block: a fraction of a second for either engine."""

MOST_SESSIONS, FEWEST_STEPS = 1 << 13, 25


class SimulationJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of every block of a batch."""

    game: dict[str, Any]  # the sections of the configuration that sessions depend on
    seed: int  # the root seed
    sessions: int | None  # in total; None: every block is full
    size: int  # sessions in a block
    log: bool = False  # record every hand

    @property
    def blocks(self) -> int:
        """The number of blocks for all sessions."""
        return 1 if self.sessions is None else -(-self.sessions // self.size)

    def sessions_of(self, block: int) -> int:
        """The number of sessions in a block."""
        if self.sessions is None:
            return self.size
        return min(self.size, self.sessions - block * self.size)


def job_of(
    config: FullConfig, seed: int, *, own_players: bool = False, open_end: bool = False
) -> SimulationJob:
    """The job of a configuration; with `open_end`, blocks can be added without limit."""
    data = config.to_data()
    sections = ("table", "bankroll", "strategy", "bonus_strategy", "paytables")
    hands = config.simulation.hands_per_session
    game = {name: data[name] for name in sections} | {"simulation": {"hands_per_session": hands}}
    wanted = PLAIN_HANDS_A_BLOCK if own_players else HANDS_A_BLOCK
    size = min(MOST_SESSIONS, max(1, wanted // (hands * config.table.num_seats)))
    sessions = None if open_end else config.simulation.num_sessions
    return SimulationJob(game, seed, sessions, size, config.records_hands)


def play_block(
    ctx: Context, game: dict[str, Any], seed: int, sessions: int | None, size: int, log: bool
) -> dict[str, Any]:
    """Play the block with the number of the task."""
    return block_value(ctx, SimulationJob(game, seed, sessions, size, log))


def block_value(ctx: Context, job: SimulationJob, players: Players | None = None) -> dict[str, Any]:
    """The value of one block: a few totals, and the columns of its sessions."""
    game, count = game_from(job.game), job.sessions_of(ctx.task)
    seeds = session_seeds(job.seed, ctx.task * job.size, count)
    step = max(1, min(count, (job.sessions or job.size) // FEWEST_STEPS))

    def tick(done: int) -> None:
        ctx.emit(DONE, done=done)

    if players is None:
        played = play(game, seeds, log=job.log, step=step, tick=tick)
    else:
        played = play_plain(game, seeds, players, log=job.log, step=step, tick=tick)
    return _value(played, game.seats, game.hands)


def _value(played: Played, seats: int, hands: int) -> dict[str, Any]:
    columns = played.columns
    rows = len(columns["hands_played"])
    profit = columns["main_profit"] + columns["bonus_profit"]
    found: dict[str, Any] = {
        "sessions": rows // seats,
        "hands": int(columns["hands_played"].sum()),
        "won": int((profit > 0).sum()),
        "profit": dollars(int(profit.sum())),
        "wagered": dollars(int(columns["total_wagered"].sum())),
        "columns": packed(columns),
    }
    if played.log is not None:
        kept = np.arange(hands)[None, :] < columns["hands_played"][:, None]
        found["log"] = played.log[kept.ravel()]
    return found
