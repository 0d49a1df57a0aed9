"""`runyard malice replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runyard.cli.command import command
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.format import count

if TYPE_CHECKING:
    from runyard.doors.malice.replays.replay import Replay

SHOWN = 20


@command("runyard malice replay batch_09", "runyard malice replay . --json")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def replay(session: Session, folder: Path) -> int:
    """Replay logged runs through these rules, event by event.

    DIR is the folder of a batch, with folders events and metrics or with event files at its root,
    or a folder of several batches. The gates' verdicts and penalties are taken from the log. Exit
    code 1: an event differs, and its location is shown; 5: there are no runs.
    """
    from runyard.doors.malice.logs.dataset import batch_folders
    from runyard.doors.malice.replays.replay import document
    from runyard.doors.malice.replays.replay import replay as replayed

    found = [replayed(each) for each in batch_folders(folder)]
    lines = [line for each in found for line in _lines(each)]
    session.answer("\n".join([*lines, *_rates(found)]), document(found))
    return EXIT_FAILED if any(each.differences for each in found) else 0


def _lines(found: Replay) -> list[str]:
    rows = [[kind, f"{n:,}", f"{found.equal[kind]:,}"] for kind, n in found.compared.most_common()]
    rows.append(["mallory's score, each run", *(f"{n:,}" for n in found.scores)])
    total, equal, different = found.compared.total(), found.equal.total(), len(found.differences)
    verdict = style("all equal", fg="green")
    if different:
        verdict = style(count(different, "difference"), fg="red")
    lines = [
        style(found.batch.folder.name or str(found.batch.folder), bold=True),
        table(["compared", "events", "equal"], rows, numbers=(1, 2)),
        f"{found.runs_equal} of {found.runs} runs equal, {equal:,} of {total:,} events: {verdict}",
        *(f"  {each.text}" for each in found.differences[:SHOWN]),
    ]
    if different > SHOWN:
        lines.append(f"  and {different - SHOWN:,} more; --json shows all")
    if found.contradictions:
        lines.append("the summary contradicts the log:")
    return [*lines, *(f"  {text}" for text in found.contradictions), ""]


def _rates(found: list[Replay]) -> list[str]:
    from runyard.doors.malice.report.statistics import mallory_rates
    from runyard.doors.malice.report.summary import share

    lines = []
    for when, rates in mallory_rates([each.records for each in found]).items():
        words = "ends as BINDER" if when == "final" else "was ever BINDER"
        lines += [f"mallory {words}, of {of}: {share(rates[of])}" for of in ("runs", "batches")]
    return lines
