"""`runyard export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from runyard.cli.results import codec_option, status_option
from runyard.cli.session import Session, examples, shared
from runyard.errors import NotFound, UsageError
from runyard.plaintext import counted
from runyard.reports import export as files


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
    type=click.Choice(list(files.FORMATS)),
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
    settled = format_ or _format_of(output, list(files.FORMATS))
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
        if to_stdout:
            files.write_to(result, settled, session.stdout(), status)
            return 0
        path = output or yard.batch_folder(batch) / f"outcomes.{settled}"
        count = files.export(result, settled, path, status)
    session.say(f"wrote {counted(count, 'outcome')} to {path}")
    session.document({"batch": batch, "format": settled, "path": str(path), "outcomes": count})
    return 0


def _format_of(path: Path | None, formats: Sequence[str]) -> str:
    """The format of the file's suffix; JSON without one."""
    suffix = "" if path is None else path.suffix[1:].lower()
    if suffix and suffix not in formats:
        raise UsageError(
            f"unknown suffix of {path}",
            hint=f"use one of .{', .'.join(formats)}, or choose a format with --format",
        )
    return suffix or "json"
