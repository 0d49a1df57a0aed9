"""`runyard letitride ruin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import AMOUNT, INDEX, command, option, refuse_together
from runyard.cli.session import Session
from runyard.cli.table import table
from runyard.cli.values import values_of
from runyard.doors.letitride.commands import chosen
from runyard.doors.letitride.commands.exact import paytable_option, strategy_option
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.doors.letitride.exact.ruin import Ruin


@command(
    "runyard letitride ruin --bankroll 100,200,500,1000",
    "runyard letitride ruin --base-bet 10 --hands 500 --win-limit 300 --bonus-bet 1",
    "runyard letitride ruin --endless --paytable pair_tens_or_better=2",
    "runyard letitride ruin martingale.yaml --sessions 1000000 --json",
)
@click.argument("config", required=False)
@option("--bankroll", metavar="A,B,…", help="Start with these bankrolls.  [default: a range]")
@option("--base-bet", type=AMOUNT, help="Set each of the three bets.")
@option("--bonus-bet", type=click.FloatRange(min=0), help="Set the bonus bet of every hand.")
@option("--hands", type=click.IntRange(1, 10_000), help="End a session after N hands.")
@option("--endless", is_flag=True, help="Play without a limit on hands; flat bets only.")
@option("--win-limit", type=AMOUNT, help="Stop at this profit.")
@option("--loss-limit", type=AMOUNT, help="Stop at this loss.")
@paytable_option(None)
@strategy_option(None)
@option(
    "--sessions",
    type=click.IntRange(100),
    default=100_000,
    help="Play N sessions per bankroll, if simulated.",
)
@option("--seed", type=INDEX, default=0, help="Set the seed of the simulation.")
def ruin(
    session: Session,
    config: str | None,
    bankroll: str | None,
    endless: bool,
    paytable: str | None,
    strategy: str | None,
    sessions: int,
    seed: int,
    **given: Any,
) -> None:
    """Compute the risk of ruin by bankroll.

    A session is ruined if it ends because three bets and the bonus can't be paid. The answer is
    exact for flat bets, and otherwise simulated. CONFIG describes the game; options override it.
    """
    from runyard.doors.letitride import FullConfig, read_file
    from runyard.doors.letitride.report.risk import default_bankrolls, games, risk_of_ruin, settled

    refuse_together({"--endless": endless, "--hands": given["hands"]})
    found = settled(FullConfig() if config is None else read_file(config), **given)
    pays = found.paytables.main_table if paytable is None else chosen.main_table(paytable)
    played = None if strategy is None else chosen.strategy(strategy, pays)
    risks = risk_of_ruin(
        games(found, pays, played),
        default_bankrolls(found) if bankroll is None else _bankrolls(bankroll),
        endless=endless,
        sessions=sessions,
        seed=seed,
    )
    session.answer(_text(risks), {"ruin": [_document(each) for each in risks]})


def _bankrolls(text: str) -> list[int]:
    from runyard.doors.letitride.game.money import cents

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


def _document(found: Ruin) -> dict[str, Any]:
    import msgspec

    from runyard.doors.letitride.game.money import dollars

    method = "exact" if found.sessions is None else "simulated"
    figures = {"bankroll": dollars(found.bankroll), "method": method}
    return msgspec.structs.asdict(found) | figures


_STOPS = {
    "win_limit": "win limit",
    "loss_limit": "loss limit",
    "max_hands": "all hands played",
    "never": "never ends",
}


def _text(found: Sequence[Ruin]) -> str:
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
    heads = ["bankroll", "ruin", *(_STOPS.get(name, name) for name in reasons), "mean hands"]
    method = "exact, by Markov chain"
    if found[0].sessions is not None:
        method = f"simulated: {found[0].sessions:,} sessions from each bankroll"
    return f"{table(heads, rows, numbers=range(len(heads)))}\n{method}"


def _percent(share: float) -> str:
    digits = "4f" if share >= 1e-5 or share == 0 else "3g"
    return f"{100 * share:.{digits}}%"


def _interval(found: Ruin) -> str:
    if found.interval is None:
        return ""
    low, high = found.interval
    return f" ({100 * low:.4f} to {100 * high:.4f})"
