"""`runyard letitride exact`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from runyard.cli.letitride import chosen
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import pairs, table

MISTAKES_SHOWN = 12

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def paytable_option(default: str | None) -> Decorator:
    """`--paytable`."""
    return click.option(
        "--paytable",
        metavar="NAME|FILE|K=V,…",
        default=default,
        show_default=default is not None,
        help="Paytable: standard, a configuration's, or changes to the standard one.",
    )


def strategy_option(default: str | None) -> Decorator:
    """`--strategy`."""
    return click.option(
        "--strategy",
        metavar="NAME|FILE|MODULE:CLASS",
        default=default,
        show_default=default is not None,
        help=f"{', '.join(chosen.BUILT_IN)}, a configuration's, or a class with the two decisions.",
    )


@click.command(
    epilog=examples(
        "runyard letitride exact",
        "runyard letitride exact --paytable flush=6,straight=4 --table",
        "runyard letitride exact --strategy aggressive",
        "runyard letitride exact --strategy mine.py:Careful --json",
    )
)
@paytable_option("standard")
@strategy_option("basic")
@click.option(
    "--bonus",
    metavar="NAME|FILE|K=V,…",
    help="Bonus paytable: paytable_a, paytable_b, …  [default: all three]",
)
@click.option("--table", "whole", is_flag=True, help="Also show the best play as a table.")
@shared
def exact(session: Session, paytable: str, strategy: str, bonus: str | None, whole: bool) -> int:
    """Compute exact figures, the best play, and the cost of another.

    All hands are counted, so nothing is an estimate. Money is in base bets.
    """
    from runyard.doors.letitride.exact.answers import exact_answer

    pays = chosen.main_table(paytable)
    found = exact_answer(pays, chosen.strategy(strategy, pays), chosen.bonus_tables(bonus))
    session.document({"strategy": strategy, **found})
    if not session.json:
        _show(session, strategy, found)
        if whole:
            _show_table(session, found)
    return 0


def _show(session: Session, strategy: str, found: Mapping[str, Any]) -> None:
    pays = " ".join(str(pay) for pay in found["paytable"].values())
    session.say(f"{style(strategy, bold=True)}, paid {pays} to 1")
    session.say(pairs(_figures(found)))
    session.say()
    session.say(_hands(found))
    session.say()
    session.say(_bonus(found["bonus"]))
    _show_rules(session, found["optimal"])
    _show_mistakes(session, found)


def _figures(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    by_bet = "   ".join(_signed(each) for each in found["ev_by_bet"].values())
    ends = " / ".join(_percent(each) for each in found["bets_at_end"].values())
    rides = [
        f"{_percent(each)} ({each['hands']:,} of {each['of']:,} hands)"
        for each in found["ride"].values()
    ]
    return [
        ("EV per hand", f"{_signed(found['ev'])} = {found['ev']['fraction']}"),
        ("by bet", by_bet),
        ("house edge", _percent(found["house_edge"])),
        ("average wager", f"{found['average_wager']['value']:.7f}"),
        ("element of risk", _percent(found["element_of_risk"])),
        ("standard deviation", f"{found['standard_deviation']:.5f}"),
        ("wins · pushes", f"{_percent(found['win'])} · {_percent(found['push'])}"),
        ("bet 1 rides", rides[0]),
        ("bet 2 rides", rides[1]),
        ("1 / 2 / 3 bets", ends),
        ("cost of play", f"{found['cost']['value']:.7f} more than the best play"),
    ]


def _hands(found: Mapping[str, Any]) -> str:
    rows = [
        [
            name.replace("_", " "),
            f"{each['count']:,}",
            _percent(each),
            _signed(found["ev_by_hand"][name]),
        ]
        for name, each in found["hands"].items()
    ]
    return table(["five cards", "hands", "share", "EV"], rows, numbers=(1, 2, 3))


def _bonus(tables: Mapping[str, Any]) -> str:
    rows = [
        [
            name,
            " ".join(str(pay) for pay in each["pays"].values()),
            _percent(each["house_edge"]),
            f"{each['standard_deviation']:.3f}",
            _percent(each["win"]),
        ]
        for name, each in tables.items()
    ]
    return table(["bonus", "pays", "house edge", "sd", "wins"], rows, numbers=(2, 3, 4))


def _show_rules(session: Session, best: Mapping[str, Any]) -> None:
    session.say(f"\n{style('The best play', bold=True)}, {_signed(best['ev'])} a hand: let ride")
    for bet, rules in best["rules"].items():
        session.say(f"  {bet[:3]} {bet[3:]} with")
        for rule in rules or [{"text": "nothing", "condition": "not default"}]:
            session.say(f"    {rule['text']}  {style('[' + rule['condition'] + ']', dim=True)}")
        if best["zero_hands"][bet]:
            session.say(f"    ({best['zero_hands'][bet]:,} more hands have a value of exactly 0)")
    session.say("  A high card is a ten or better. Three cards in a row fit 3 straights, or fewer")
    session.say("  with a gap or near an end; four in a row fit 2, or 1 at an end.")


def _show_mistakes(session: Session, found: Mapping[str, Any]) -> None:
    if not found["mistakes"]:
        return
    rows = [
        [
            f"{each['bet'][:3]} {each['bet'][3:]}",
            each["played"],
            f"{each['cost']['value']:.7f}",
            f"{each['hands']:,}",
            _signed(each["worth"]),
            each["example"],
            each["hand"],
        ]
        for each in found["mistakes"][:MISTAKES_SHOWN]
    ]
    session.say(f"\n{style('Mistakes', bold=True)} against it, the most expensive first")
    heads = ["", "played", "cost", "hands", "value of a riding bet", "such as", ""]
    session.say(table(heads, rows, numbers=(2, 3, 4)))
    more = len(found["mistakes"]) - len(rows)
    if more > 0:
        rest = sum(each["cost"]["value"] for each in found["mistakes"][MISTAKES_SHOWN:])
        session.say(f"and {more} more, {rest:.7f} together; --json shows all")


def _show_table(session: Session, found: Mapping[str, Any]) -> None:
    for bet, choices in found["optimal"]["table"].items():
        rows = [
            [each["best"], _signed(each["worth"]), f"{each['hands']:,}", each["hand"]]
            for each in choices
        ]
        session.say()
        session.say(table([f"{bet[:3]} {bet[3:]}", "value", "hands", ""], rows, numbers=(1, 2)))


def _signed(figure: Mapping[str, Any]) -> str:
    return f"{figure['value']:+.10f}"


def _percent(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.4f}%"
