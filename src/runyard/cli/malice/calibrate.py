"""`runyard malice calibrate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.compare import EXIT_GATE
from runyard.cli.running import place_options
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import screen_width

if TYPE_CHECKING:
    from runyard.doors.malice.replays.calibration import Calibrated, Calibration

NARROWEST = 16
"""The least width of a figure's name, in columns."""


@click.command(epilog=examples("runyard malice calibrate --against batch_09"))
@click.option(
    "--against",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="A published batch, or a folder of several, which are taken as one.",
)
@click.option(
    "--batches",
    type=click.IntRange(2),
    metavar="N",
    default=200,
    show_default=True,
    help="Number of batches to simulate.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    show_default=True,
    help="The seed of the simulation.",
)
@place_options
@shared
def calibrate(session: Session, folder: Path, **given: Any) -> int:
    """Compare simulated batches with a published one.

    Shows each published figure with its range in 95 of 100 simulated batches of the same size.
    Exit code 4: a figure is outside its range.
    """
    from runyard.doors.malice.replays.calibration import calibrate as calibrated

    with session.yard(create=True) as yard:
        found = calibrated(folder, yard=yard, **given)
    _show(session, found)
    session.document(_document(found))
    return 0 if found.holds else EXIT_GATE


def _show(session: Session, found: Calibration) -> None:
    session.say("\n".join(lines(found, screen_width())))
    size = f"{len(found.tickets)} runs, {sum(found.tickets):,} tickets"
    session.say(f"{found.simulated} simulated batches of {size}")
    outside = sum(not each.inside for each in found.figures)
    if outside:
        share = f"{100 * found.as_odd:.0f}% of the simulated batches"
        session.say(f"{outside} outside; {share} have this many or more")


def lines(found: Calibration, width: int | None) -> Iterator[str]:
    """A table that cuts nothing: verdicts come first, long names wrap."""
    from runyard.reports.text import aligned

    cells = [
        [
            _verdict(each),
            f"{each.published:,.4g}",
            f"{each.median:,.4g}",
            f"{each.low:,.4g} to {each.high:,.4g}",
        ]
        for each in found.figures
    ]
    head, *body = aligned(["", "published", "median", "95% of simulated"], cells, (1, 2, 3))
    yield style(f"{head}  figure", bold=True)
    for each, line in zip(found.figures, body, strict=True):
        verdict = _verdict(each)
        text = fill(
            each.name, max(width or sys.maxsize, len(line) + NARROWEST), initial_indent=f"{line}  ",
            subsequent_indent=" " * (len(line) + 2), break_long_words=False,
        )  # fmt: skip
        yield style(verdict, fg="green" if each.inside else "red") + text.removeprefix(verdict)


def _verdict(figure: Calibrated) -> str:
    return "inside" if figure.inside else "outside"


def _document(found: Calibration) -> dict[str, Any]:
    return {
        "folders": [str(each) for each in found.folders],
        "runs": len(found.tickets),
        "tickets": sum(found.tickets),
        "simulated": found.simulated,
        "inside": sum(each.inside for each in found.figures),
        "outside": [each.name for each in found.figures if not each.inside],
        "as_odd": found.as_odd,
        "figures": [
            {
                "figure": each.name,
                "published": each.published,
                "median": each.median,
                "low": each.low,
                "high": each.high,
                "inside": each.inside,
            }
            for each in found.figures
        ],
    }
