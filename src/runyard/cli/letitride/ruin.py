"""`runyard letitride ruin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.letitride import chosen
from runyard.cli.letitride.exact import paytable_option, strategy_option
from runyard.cli.session import Session, examples, shared
from runyard.cli.table import table
from runyard.cli.values import values_of
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.exact.ruin import Ruin
    from runyard.doors.letitride.game.game import Game

BETS = (10, 20, 50, 100, 200)
"""Default bankrolls in base bets; the configuration's own is added."""


@click.command(
    epilog=examples(
        "runyard letitride ruin --bankroll 100,200,500,1000",
        "runyard letitride ruin --base-bet 10 --hands 500 --win-limit 300 --bonus-bet 1",
        "runyard letitride ruin --endless --paytable pair_tens_or_better=2",
        "runyard letitride ruin martingale.yaml --sessions 1000000 --json",
    )
)
@click.argument("config", required=False)
@click.option("--bankroll", metavar="A,B,…", help="Starting bankrolls.  [default: a few]")
@click.option("--base-bet", type=click.FloatRange(min=0, min_open=True), metavar="X",
              help="Each of the three bets.")  # fmt: skip
@click.option("--bonus-bet", type=click.FloatRange(min=0), metavar="X",
              help="Bonus bet of every hand.")  # fmt: skip
@click.option(
    "--hands", type=click.IntRange(1, 10_000), metavar="N", help="Most hands of a session."
)
@click.option("--endless", is_flag=True, help="No limit of hands; flat bets only.")
@click.option("--win-limit", type=click.FloatRange(min=0, min_open=True), metavar="X",
              help="Profit at which to stop.")  # fmt: skip
@click.option("--loss-limit", type=click.FloatRange(min=0, min_open=True), metavar="X",
              help="Loss at which to stop.")  # fmt: skip
@paytable_option(None)
@strategy_option(None)
@click.option("--sessions", type=click.IntRange(100), metavar="N", default=100_000,
              show_default=True, help="Sessions per bankroll, if simulated.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True,
              help="Seed of the simulation.")  # fmt: skip
@shared
def ruin(session: Session, config: str | None, **given: Any) -> int:
    """Compute the risk of ruin by bankroll.

    A session is ruined if it ends because three bets and the bonus can't be paid. The answer is
    exact for flat bets, and otherwise simulated. CONFIG describes the game; options override it.
    """
    from runyard.doors.letitride import FullConfig, read_file
    from runyard.doors.letitride.report.risk import risk_of_ruin

    if given["endless"] and given["hands"] is not None:
        raise UsageError("--endless and --hands can't be combined", hint="drop one of the two")
    settled = _settled(FullConfig() if config is None else read_file(config), given)
    found = risk_of_ruin(
        _games(settled, given), _bankrolls(settled, given["bankroll"]),
        endless=given["endless"], sessions=given["sessions"], seed=given["seed"],
    )  # fmt: skip
    session.document({"ruin": [_told(each) for each in found]})
    if not session.json:
        _show(session, found)
    return 0


def _settled(config: FullConfig, given: dict[str, Any]) -> FullConfig:
    """The configuration with the options applied."""
    data = config.to_data()
    bankroll, stop = data["bankroll"], data["bankroll"]["stop_conditions"]
    for place, key, option in (
        (bankroll, "base_bet", "base_bet"),
        (stop, "win_limit", "win_limit"),
        (stop, "loss_limit", "loss_limit"),
        (data["simulation"], "hands_per_session", "hands"),
    ):
        if given[option] is not None:
            place[key] = given[option]
    if given["bonus_bet"] is not None:
        bonus, played = data["bonus_strategy"], given["bonus_bet"] > 0
        data["bonus_strategy"] = {name: bonus[name] for name in ("paytable", "limits")} | (
            {"enabled": True, "type": "always", "always": {"amount": given["bonus_bet"]}}
            if played
            else {"enabled": False, "type": "never"}
        )
    return config.from_data(data)


def _games(config: FullConfig, given: dict[str, Any]) -> Callable[[int], Game]:
    """Return a function that makes the game for a bankroll."""
    from dataclasses import replace

    from runyard.doors.letitride.game.game import game_of
    from runyard.doors.letitride.game.money import dollars, pay_units
    from runyard.doors.letitride.game.strategies import strategy_of

    paytable, strategy = given["paytable"], given["strategy"]
    pays = config.paytables.main_table if paytable is None else chosen.main_table(paytable)
    if strategy is None:
        played = strategy_of(config.strategy, pays)
    else:
        played = chosen.strategy(strategy, pays)

    def game(bankroll: int) -> Game:
        found = game_of(config.with_(bankroll={"starting_amount": dollars(bankroll)}))
        return replace(found, main_pays=tuple(map(pay_units, pays.pays)), strategy=played)

    return game


def _bankrolls(config: FullConfig, text: str | None) -> list[int]:
    from runyard.doors.letitride.game.money import cents

    if text is None:
        own, bet = config.bankroll.starting_amount, config.bankroll.base_bet
        return sorted({cents(own), *(cents(bets * bet) for bets in BETS)})
    amounts = values_of(text)
    for amount in amounts:
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount <= 0:
            raise UsageError(
                f"--bankroll {amount!r} is not an amount of money",
                hint="write --bankroll 100,200,500",
            )
    if not amounts:
        raise UsageError("--bankroll names no amount", hint="write --bankroll 100,200,500")
    return [cents(amount) for amount in amounts]


def _told(found: Ruin) -> dict[str, Any]:
    import msgspec

    from runyard.doors.letitride.game.money import dollars

    told = msgspec.structs.asdict(found) | {"bankroll": dollars(found.bankroll)}
    return told | {"method": "exact" if found.sessions is None else "simulated"}


def _show(session: Session, found: Sequence[Ruin]) -> None:
    from runyard.doors.letitride.game.money import dollars

    reasons = [name for name in found[0].stops if any(each.stops[name] for each in found)]
    reasons = [name for name in reasons if name != "insufficient_funds"]
    rows = [
        [
            f"{dollars(each.bankroll):,.2f}",
            _percent(each.ruin) + _interval(each),
            *(_percent(each.stops[name]) for name in reasons),
            "" if each.mean_hands is None else f"{each.mean_hands:,.1f}",
        ]
        for each in found
    ]
    heads = ["bankroll", "ruin", *(name.replace("_", " ") for name in reasons), "hands"]
    session.say(table(heads, rows, numbers=range(len(heads))))
    if found[0].sessions is None:
        session.say("exact, by Markov chain")
    else:
        session.say(f"simulated: {found[0].sessions:,} sessions from each bankroll")


def _percent(share: float) -> str:
    digits = "4f" if share >= 1e-5 or share == 0 else "3g"
    return f"{100 * share:.{digits}}%"


def _interval(found: Ruin) -> str:
    if found.interval is None:
        return ""
    low, high = found.interval
    return f" ({100 * low:.4f} to {100 * high:.4f})"
