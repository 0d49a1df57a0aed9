"""`runyard export`."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.results import codec_option, status_option
from runyard.cli.session import Session, examples, shared
from runyard.errors import NotFound, UsageError
from runyard.format import count
from runyard.reports.export import Outcomes
from runyard.reports.formats import FORMATS, format_named, format_of


@click.command(
    epilog=examples(
        "runyard export walks --format csv",
        "runyard export walks -o walks.parquet",
        "runyard export walks -o failed.json --status failed",
        "runyard export walks --format csv -o - | head",
    )
)
@click.argument("batch")
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    help="Write this format.  [default: by the file's suffix, else json]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Write to this file; - is stdout.  [default: in the batch's folder]",
)
@status_option
@codec_option
@shared
def export(
    session: Session,
    batch: str,
    format_: str | None,
    output: Path | None,
    status: str | None,
    codec: str,
) -> int:
    """Write outcomes to a file.

    The file appears only once it is complete.
    """
    by_suffix = None if format_ or output is None else format_of(output)
    chosen = by_suffix or format_named(format_ or "json")
    to_stdout = output is not None and str(output) in ("-", "/dev/stdout")
    if to_stdout and session.json:
        raise UsageError(
            "--json and `-o -` both write to stdout", hint="name a file after -o, or remove --json"
        )
    with session.yard() as yard:
        result = yard.results(batch, codec=codec)
        stats = result.stats
        if not (stats.done if status is None else int(getattr(stats, status))):
            raise NotFound(f"{batch} has no {status or 'recorded'} outcomes")
        table = Outcomes(result, status)
        if to_stdout:
            chosen.write_to(table, session.stdout())
            return 0
        path = output or yard.batch_folder(batch) / f"outcomes.{chosen.name}"
        written = chosen.write(table, path)
    session.say(f"wrote {count(written, 'outcome')} to {path}")
    session.document(
        {"batch": batch, "format": chosen.name, "path": str(path), "outcomes": written}
    )
    return 0
