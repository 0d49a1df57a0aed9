"""`runyard malice calibrate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import INDEX, command, option
from runyard.cli.exit_codes import EXIT_GATE
from runyard.cli.options import place_options
from runyard.cli.session import Session, style
from runyard.cli.table import screen_size
from runyard.format import count

if TYPE_CHECKING:
    from runyard.doors.malice.replays.calibration import Calibrated, Calibration

NARROWEST = 16
"""The least width of a figure's name, in columns."""


@command("runyard malice calibrate --against batch_09")
@option(
    "--against",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="Compare with this published batch, or with several in one folder, taken as one.",
)
@option("--batches", type=click.IntRange(2), default=200, help="Simulate N batches.")
@option("--seed", type=INDEX, default=0, help="Set the seed of the simulation.")
@place_options
def calibrate(session: Session, folder: Path, **given: Any) -> int:
    """Compare simulated batches with a published one.

    Shows each published figure with its range in 95 of 100 simulated batches of the same size.
    Exit code 4: a figure is outside its range.
    """
    from runyard.doors.malice.replays.calibration import calibrate as calibrated

    with session.yard(create=True) as yard:
        found = calibrated(folder, yard=yard, **given)
    screen = screen_size()
    shown = list(lines(found, None if screen is None else screen.columns))
    size = f"{count(len(found.tickets), 'run')}, {count(sum(found.tickets), 'ticket')}"
    shown.append(f"{found.simulated} simulated batches of {size}")
    if found.outside:
        share = f"{100 * found.as_odd:.0f}% of the simulated batches"
        shown.append(f"{len(found.outside)} outside; {share} have this many or more")
    session.answer("\n".join(shown), found.to_data())
    return 0 if found.holds else EXIT_GATE


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
