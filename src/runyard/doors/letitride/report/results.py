"""The results of a simulation: recorded sessions, read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec
import numpy as np

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES
from runyard.doors.letitride.config.model import FullConfig
from runyard.doors.letitride.engine.blocks import SimulationJob
from runyard.doors.letitride.engine.columns import COUNTS, PERCENT, ColumnArrays, unpacked
from runyard.doors.letitride.game.game import STOP_REASONS
from runyard.doors.letitride.game.money import cents, dollars
from runyard.spec.status import Status

if TYPE_CHECKING:
    from runyard.doors.letitride.report.aggregate import Aggregate
    from runyard.reports.result import Result

BLOCKS_AT_ONCE = 8
OUTCOMES = ("loss", "push", "win")


class SessionResult(msgspec.Struct, frozen=True):
    """One player's session; money in dollars."""

    session_id: int
    seat_number: int  # from 1
    outcome: Literal["win", "loss", "push"]
    stop_reason: Literal["win_limit", "loss_limit", "max_hands", "insufficient_funds"]
    hands_played: int
    starting_bankroll: float
    final_bankroll: float
    session_profit: float
    total_wagered: float  # bets left at risk
    total_bonus_wagered: float
    main_profit: float
    bonus_profit: float
    peak_bankroll: float
    max_drawdown: float
    max_drawdown_pct: float
    hand_counts: dict[str, int]


class SimulationResults:
    """The sessions of one batch and their aggregate, read on demand."""

    def __init__(self, config: FullConfig, result: Result) -> None:
        self.config = config
        self.result = result
        params = dict(result.recorded.plan.fixed) if result.recorded.plan else {}
        self.job = msgspec.convert(params, SimulationJob)

    @property
    def name(self) -> str:
        """The batch's name."""
        return self.result.name

    @property
    def seed(self) -> int:
        """The root seed."""
        return self.job.seed

    @property
    def digest(self) -> str | None:
        """The digest of the batch; None while anything is unfinished."""
        return self.result.digest

    @property
    def has_own_players(self) -> bool:
        """Whether a user's own class played, which the configuration doesn't describe."""
        target = self.result.recorded.target
        return target is not None and target.kind == "value"

    @property
    def seats(self) -> int:
        """The number of players in each session."""
        return self.config.table.num_seats

    @cached_property
    def total_sessions(self) -> int:
        """The number of recorded sessions."""
        return sum(len(part["hands_played"]) for _, part in self.blocks()) // self.seats

    def blocks(self) -> Iterator[tuple[int, ColumnArrays]]:
        """Each block's first session and its columns, in order."""
        for block, value in self._values():
            yield block * self.job.size, {k: unpacked(v) for k, v in value["columns"].items()}

    def logs(self) -> Iterator[tuple[int, ColumnArrays, Any]]:
        """Each block's first session, its columns and the lines of its hands, if recorded."""
        for block, value in self._values():
            if "log" in value:
                yield block * self.job.size, value["columns"], value["log"]

    def _values(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read a few blocks at a time: one may have a megabyte."""
        total = self.result.stats.total
        for first in range(0, total, BLOCKS_AT_ONCE):
            for outcome in self.result.outcomes(offset=first, limit=BLOCKS_AT_ONCE):
                if outcome.status is Status.COMPLETED:
                    yield outcome.task, outcome.value

    @property
    def session_results(self) -> SessionSequence:
        """Every session by its number, made on access."""
        return SessionSequence(self)

    @cached_property
    def aggregate(self) -> Aggregate:
        """The aggregate of all sessions."""
        from runyard.doors.letitride.report.aggregate import aggregate

        return aggregate(self)

    def write(self, directory: str | Path | None = None) -> list[Path]:
        """Write the files that the configuration asks for; return their paths."""
        from runyard.doors.letitride.report.files import write_files

        return write_files(self, directory)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report, with this game's section; return its path."""
        from runyard.doors.letitride.report.section import write_report

        return write_report(self, None if path is None else Path(path))


def results_of(result: Result) -> SimulationResults:
    """The results of a recorded batch."""
    plan = result.recorded.plan
    job = msgspec.convert(dict(plan.fixed) if plan else {}, SimulationJob)
    return SimulationResults(FullConfig.from_data(job.game), result)


class SessionSequence(Sequence[SessionResult]):
    """Sessions as a sequence that is read on access; with several seats, each seat counts."""

    def __init__(self, results: SimulationResults) -> None:
        self._results = results
        self._start = cents(results.config.bankroll.starting_amount)
        self._block = lru_cache(maxsize=2)(self._read)

    def __len__(self) -> int:
        return self._results.total_sessions * self._results.seats

    def __iter__(self) -> Iterator[SessionResult]:
        for first, columns in self._results.blocks():
            yield from _sessions(columns, first, self._results.seats, self._start)

    @overload
    def __getitem__(self, index: int) -> SessionResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[SessionResult]: ...
    def __getitem__(self, index: int | slice) -> SessionResult | list[SessionResult]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        rows = self._results.job.size * self._results.seats
        return self._block(at // rows)[at % rows]

    def _read(self, block: int) -> list[SessionResult]:
        size, seats = self._results.job.size, self._results.seats
        columns = self._results.result.outcome(block).value["columns"]
        return list(_sessions(columns, block * size, seats, self._start))


def _sessions(columns: ColumnArrays, first: int, seats: int, start: int) -> Iterator[SessionResult]:
    lists = {name: values.tolist() for name, values in columns.items()}
    signs = np.sign(unpacked(columns["final_bankroll"]) - start).tolist()
    for row, sign in enumerate(signs):
        money = {name: dollars(lists[name][row]) for name in _MONEY}
        yield SessionResult(
            session_id=first + row // seats,
            seat_number=1 + row % seats,
            outcome=OUTCOMES[sign + 1],  # type: ignore[arg-type]
            stop_reason=STOP_REASONS[lists["stop_reason"][row]],  # type: ignore[arg-type]
            hands_played=lists["hands_played"][row],
            starting_bankroll=dollars(start),
            session_profit=dollars(lists["final_bankroll"][row] - start),
            max_drawdown_pct=lists[PERCENT][row],
            hand_counts=dict(zip(FIVE_CARD_NAMES, lists[COUNTS][row], strict=True)),
            **money,
        )


_MONEY = (
    "final_bankroll", "total_wagered", "total_bonus_wagered", "main_profit", "bonus_profit",
    "peak_bankroll", "max_drawdown",
)  # fmt: skip
