"""Individual hands: as recorded on request, and of sessions that are played again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES, card_text
from runyard.doors.letitride.cards.generator import deals, discarded, session_seeds
from runyard.doors.letitride.engine.play import game_from, play
from runyard.doors.letitride.game.money import dollars
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.doors.letitride.report.results import SimulationResults


class HandRecord(msgspec.Struct, frozen=True):
    """One hand of one seat; money in dollars."""

    session_id: int
    seat_number: int
    hand_number: int  # from 1
    cards: str  # the player's three
    community: str
    discarded: str  # the dealer's discards
    bet1: str  # ride or pull
    bet2: str
    hand: str
    bet: float  # each of the three
    bets_at_risk: int
    bonus_bet: float
    main_profit: float
    bonus_profit: float
    bankroll: float  # after the hand


class HandRecords:
    """All recorded hands of a batch, in order."""

    def __init__(self, results: SimulationResults) -> None:
        self._results = results

    def __iter__(self) -> Iterator[HandRecord]:
        seats = self._results.seats
        for first, columns, log in self._results.logs():
            lines = iter(log.tolist())
            hands = columns["hands_played"].tolist()
            for start in range(0, len(hands), seats):
                session = first + start // seats
                away = self._discards(session, max(hands[start : start + seats]))
                for seat in range(seats):
                    for number in range(hands[start + seat]):
                        burned = away[number] if away else ""
                        yield _record(session, seat, number, burned, next(lines))

    def _discards(self, session: int, hands: int) -> list[str]:
        """The dealer's discards in each hand of a session, if enabled."""
        dealer, job = self._results.config.dealer, self._results.job
        if not dealer.discard_enabled:
            return []
        first, second = session_seeds(job.seed, session, 1)[0].tolist()
        found = []
        for number, deal in zip(range(hands), deals((first, second), self._results.seats)):  # noqa: B905
            cards = discarded((first, second), number, deal, dealer.discard_cards)
            found.append(" ".join(map(card_text, cards)))
        return found


def hand_records(results: SimulationResults) -> HandRecords:
    """The recorded hands of a batch; an error if there are none."""
    if not results.job.log:
        raise UsageError(
            f"{results.name} has no recorded hands",
            hint="set simulation.detailed_logging or formats.csv.include_hands and run again",
        )
    return HandRecords(results)


def trajectories(results: SimulationResults, sessions: int) -> list[list[float]]:
    """Play the first sessions again; return the bankroll of their first seats hand by hand."""
    if results.has_own_players:
        raise UsageError(
            "sessions of custom players can't be played again from the record",
            hint="leave the chart bankroll_trajectory out",
        )
    game, count = game_from(results.job.game), min(sessions, results.total_sessions)
    played = play(game, session_seeds(results.seed, 0, count), log=True)
    assert played.log is not None
    bankrolls = played.log[:, 7].reshape(count, game.seats, game.hands)[:, 0]
    hands = played.columns["hands_played"][:: game.seats].tolist()
    return [
        [dollars(game.start), *(dollars(value) for value in row[:number])]
        for row, number in zip(bankrolls.tolist(), hands, strict=True)
    ]


def _record(session: int, seat: int, number: int, away: str, line: list[Any]) -> HandRecord:
    packed, rides, category, bet, bonus_bet, main, bonus, bankroll = line
    cards = [card_text(packed >> shift & 63) for shift in (24, 18, 12, 6, 0)]
    first, second = rides & 1, rides >> 1
    return HandRecord(
        session, seat + 1, number + 1, " ".join(cards[:3]), " ".join(cards[3:]), away,
        "ride" if first else "pull", "ride" if second else "pull", FIVE_CARD_NAMES[category],
        dollars(bet), 1 + first + second, dollars(bonus_bet), dollars(main), dollars(bonus),
        dollars(bankroll),
    )  # fmt: skip
