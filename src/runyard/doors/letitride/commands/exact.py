"""`runyard letitride exact`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runyard.cli.command import Decorator, command, option
from runyard.cli.session import Session, style
from runyard.cli.table import pairs, table
from runyard.doors.letitride.commands import chosen

MISTAKES_SHOWN = 12


def paytable_option(default: str | None) -> Decorator:
    """`--paytable`."""
    return option(
        "--paytable",
        metavar="NAME|FILE|K=V,…",
        default=default,
        help="Use this paytable: standard, a configuration's, or changes to the standard one.",
    )


def strategy_option(default: str | None) -> Decorator:
    """`--strategy`."""
    return option(
        "--strategy",
        metavar="NAME|FILE|MODULE:CLASS",
        default=default,
        help=f"Play {', '.join(chosen.BUILT_IN)}, a configuration's, or a class that decides.",
    )


@command(
    "runyard letitride exact",
    "runyard letitride exact --paytable flush=6,straight=4 --table",
    "runyard letitride exact --strategy aggressive",
    "runyard letitride exact --strategy mine.py:Careful --json",
)
@paytable_option("standard")
@strategy_option("basic")
@option(
    "--bonus",
    metavar="NAME|FILE|K=V,…",
    help="Use this bonus paytable: paytable_a, paytable_b, …  [default: all three]",
)
@option("--table", "whole", is_flag=True, help="Also show the best play as a table.")
def exact(session: Session, paytable: str, strategy: str, bonus: str | None, whole: bool) -> None:
    """Compute exact figures, the best play, and the cost of another.

    All hands are counted, so nothing is an estimate. Money is in base bets.
    """
    from runyard.doors.letitride.exact.answers import exact_answer

    pays = chosen.main_table(paytable)
    found = exact_answer(pays, chosen.strategy(strategy, pays), chosen.bonus_tables(bonus))
    paid = " ".join(str(pay) for pay in found["paytable"].values())
    lines = [
        f"{style(strategy, bold=True)}, paid {paid} to 1",
        pairs(_figures(found)),
        "",
        _hands(found),
        "",
        _bonus(found["bonus"]),
        *_rules(found["optimal"]),
        *_mistakes(found["mistakes"]),
        *(_best_play(found["optimal"]["table"]) if whole else ()),
    ]
    session.answer("\n".join(lines), {"strategy": strategy, **found})


def _figures(found: Mapping[str, Any]) -> dict[str, str]:
    rides = [
        f"{_percent(each)} ({each['hands']:,} of {each['of']:,} hands)"
        for each in found["ride"].values()
    ]
    return {
        "EV per hand": f"{_signed(found['ev'])} = {found['ev']['fraction']}",
        "by bet": "   ".join(_signed(each) for each in found["ev_by_bet"].values()),
        "house edge": _percent(found["house_edge"]),
        "average wager": f"{found['average_wager']['value']:.7f}",
        "element of risk": _percent(found["element_of_risk"]),
        "standard deviation": f"{found['standard_deviation']:.5f}",
        "wins · pushes": f"{_percent(found['win'])} · {_percent(found['push'])}",
        "bet 1 rides": rides[0],
        "bet 2 rides": rides[1],
        "1 / 2 / 3 bets": " / ".join(_percent(each) for each in found["bets_at_end"].values()),
        "cost": f"{found['cost']['value']:.7f} per hand, compared with the best play",
    }


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


def _rules(best: Mapping[str, Any]) -> list[str]:
    lines = [f"\n{style('The best play', bold=True)}, EV {_signed(best['ev'])} per hand: let ride"]
    for bet, rules in best["rules"].items():
        lines.append(f"  {_bet(bet)} with")
        lines += [
            f"    {rule['text']}  {style('[' + rule['condition'] + ']', dim=True)}"
            for rule in rules or [{"text": "nothing", "condition": "not default"}]
        ]
        if best["zero_hands"][bet]:
            lines.append(f"    ({best['zero_hands'][bet]:,} more hands have a value of exactly 0)")
    return [
        *lines,
        "  A high card is a ten or better. Three cards in a row fit 3 straights, or fewer",
        "  with a gap or near an end; four in a row fit 2, or 1 at an end.",
    ]


def _mistakes(mistakes: list[Any]) -> list[str]:
    if not mistakes:
        return []
    shown, others = mistakes[:MISTAKES_SHOWN], mistakes[MISTAKES_SHOWN:]
    rows = [
        [
            _bet(each["bet"]),
            each["played"],
            f"{each['cost']['value']:.7f}",
            f"{each['hands']:,}",
            _signed(each["worth"]),
            each["example"],
            each["hand"],
        ]
        for each in shown
    ]
    heads = ["", "played", "cost", "hands", "value of a riding bet", "such as", ""]
    lines = [
        f"\n{style('Mistakes', bold=True)} of this strategy, the most expensive first",
        table(heads, rows, numbers=(2, 3, 4)),
    ]
    if others:
        rest = sum(each["cost"]["value"] for each in others)
        lines.append(f"and {len(others)} more, {rest:.7f} together; --json shows all")
    return lines


def _best_play(tables: Mapping[str, Any]) -> list[str]:
    return [
        "\n"
        + table(
            [_bet(bet), "value", "hands", ""],
            [
                [each["best"], _signed(each["worth"]), f"{each['hands']:,}", each["hand"]]
                for each in choices
            ],
            numbers=(1, 2),
        )
        for bet, choices in tables.items()
    ]


def _bet(name: str) -> str:
    return f"{name[:3]} {name[3:]}"


def _signed(figure: Mapping[str, Any]) -> str:
    return f"{figure['value']:+.10f}"


def _percent(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.4f}%"
