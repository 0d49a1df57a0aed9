"""`runyard export` and `runyard report`: outcomes as files."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.applications import hooks_of
from runyard.cli.command import codec_option, command, option, status_option
from runyard.cli.session import Session
from runyard.errors import NotFound, UsageError
from runyard.format import count
from runyard.reports.export import Outcomes
from runyard.reports.formats import FORMATS, format_named, format_of
from runyard.spaces import near


@command(
    "runyard export walks --format csv",
    "runyard export walks -o walks.parquet",
    "runyard export walks -o failed.json --status failed",
    "runyard export walks --format csv -o - | head",
)
@click.argument("batch")
@option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    help="Write this format.  [default: by the file's suffix, else json]",
)
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Write to this file; - is stdout.  [default: in the batch's folder]",
)
@status_option
@codec_option
def export(
    session: Session,
    batch: str,
    format_: str | None,
    output: Path | None,
    status: str | None,
    codec: str,
) -> None:
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
        if not getattr(result.stats, status or "done"):
            raise NotFound(f"{batch} has no {status or 'recorded'} outcomes")
        table = Outcomes(result, status)
        if to_stdout:
            chosen.write_to(table, session.stdout())
            return
        path = output or yard.batch_folder(batch) / f"outcomes.{chosen.name}"
        written = chosen.write(table, path)
    session.answer(
        f"wrote {count(written, 'outcome')} to {path}",
        {"batch": batch, "format": chosen.name, "path": str(path), "outcomes": written},
    )


@command(
    "runyard report walks",
    "runyard report walks --open",
    "runyard report walks --metric distance --by dimension -o walks.html",
)
@click.argument("batch")
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file.  [default: report.html in the batch's folder]",
)
@option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show only this metric; repeat for more.",
)
@option("--by", multiple=True, metavar="NAME", help="Group by this; repeat for more.")
@option("--open", "open_", is_flag=True, help="Open it in the browser.")
@codec_option
def report(
    session: Session,
    batch: str,
    output: Path | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    open_: bool,
    codec: str,
) -> None:
    """Write a self-contained HTML report.

    It shows what ran, the results, comparisons, a timeline of the workers, and failures with the
    commands that reproduce them. The file makes no network requests.
    """
    from runyard.reports.html import write_report

    with session.yard() as yard:
        hooks = hooks_of(yard.recorded(batch))
        if hooks is not None:
            hooks.register_sections()
        path = write_report(
            yard.results(batch, codec=codec), yard.batch_folder(batch), output,
            metrics=metrics, by=by, yard=session.location,
        )  # fmt: skip
    document = {"batch": batch, "path": str(path), "bytes": path.stat().st_size}
    session.answer(str(path if output else near(path)), document)
    if open_:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
