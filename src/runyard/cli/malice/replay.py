"""`runyard malice replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared, style
from runyard.cli.table import table

if TYPE_CHECKING:
    from runyard.doors.malice.replays.replay import Replay

EXIT_DIFFERS = 1
SHOWN = 20


@click.command(epilog=examples("runyard malice replay batch_09", "runyard malice replay . --json"))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@shared
def replay(session: Session, folder: Path) -> int:
    """Replay logged runs through these rules, event by event.

    DIR is the folder of a batch, with folders events and metrics or with event files at its root,
    or a folder of several batches. The gates' verdicts and penalties are taken from the log. Exit
    code 1: an event differs, and its location is shown; 5: there are no runs.
    """
    from runyard.doors.malice.logs.dataset import batch_folders
    from runyard.doors.malice.replays.replay import replay as replayed

    found = [replayed(each) for each in batch_folders(folder)]
    for each in found:
        _show(session, each)
    if not session.json:
        _show_rates(session, found)
    session.document(_document(found))
    return EXIT_DIFFERS if any(each.differences for each in found) else 0


def _show(session: Session, found: Replay) -> None:
    session.say(style(found.batch.folder.name or str(found.batch.folder), bold=True))
    rows = [
        [kind, f"{count:,}", f"{found.equal[kind]:,}"]
        for kind, count in found.compared.most_common()
    ]
    rows.append(["mallory's score, each run", *(f"{count:,}" for count in found.scores)])
    session.say(table(["compared", "events", "equal"], rows, numbers=(1, 2)))
    total, equal = found.compared.total(), found.equal.total()
    count = len(found.differences)
    words = "1 difference" if count == 1 else f"{count:,} differences"
    verdict = style(words, fg="red") if count else style("all equal", fg="green")
    session.say(
        f"{found.runs_equal} of {found.runs} runs equal, {equal:,} of {total:,} events: {verdict}"
    )
    for each in found.differences[:SHOWN]:
        session.say(f"  {each.text}")
    if len(found.differences) > SHOWN:
        session.say(f"  and {len(found.differences) - SHOWN:,} more; --json shows all")
    if found.contradictions:
        session.say("the summary contradicts the log:")
    for text in found.contradictions:
        session.say(f"  {text}")
    session.say()


def _show_rates(session: Session, found: list[Replay]) -> None:
    from runyard.doors.malice.report.statistics import mallory_rates
    from runyard.doors.malice.report.summary import share

    for when, rates in mallory_rates([each.records for each in found]).items():
        words = "ends as BINDER" if when == "final" else "was ever BINDER"
        session.say(f"mallory {words}: {share(rates['runs'])} runs")
        session.say(f"{'':<{len(words) + 8}}: {share(rates['batches'])} batches")


def _document(found: list[Replay]) -> dict[str, Any]:
    from runyard.doors.malice.report.statistics import figures, mallory_rates

    compared = {
        kind: {
            "compared": sum(each.compared[kind] for each in found),
            "equal": sum(each.equal[kind] for each in found),
        }
        for kind in sorted({kind for each in found for kind in each.compared})
    }
    records = [each.records for each in found]
    return {
        "runs": sum(each.runs for each in found),
        "runs_equal": sum(each.runs_equal for each in found),
        "events_compared": sum(each["compared"] for each in compared.values()),
        "events_equal": sum(each["equal"] for each in compared.values()),
        "events": compared,
        "scores_compared": sum(each.scores[0] for each in found),
        "scores_equal": sum(each.scores[1] for each in found),
        "differences": [
            {
                "batch": str(each.batch.folder),
                "run": one.run,
                "ticket": one.ticket,
                "event": one.event,
                "field": one.field,
                "logged": one.logged,
                "computed": one.computed,
                "where": one.where,
                "text": one.text,
            }
            for each in found
            for one in each.differences
        ],
        "summary_contradictions": [
            f"{each.batch.folder.name}: {text}" for each in found for text in each.contradictions
        ],
        "mallory_binder": mallory_rates(records),
        "figures": figures([record for each in records for record in each]),
    }
