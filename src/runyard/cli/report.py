"""`runyard report`."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.results import codec_option
from runyard.cli.session import DEFAULT_YARD, Session, examples, shared
from runyard.doors import hooks_of


@click.command(
    epilog=examples(
        "runyard report walks",
        "runyard report walks --open",
        "runyard report walks --metric distance --by dimension -o walks.html",
    )
)
@click.argument("batch")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file.  [default: report.html in the batch's folder]",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show only this metric; repeat for more.",
)
@click.option("--by", multiple=True, metavar="NAME", help="Group by this; repeat for more.")
@click.option("--open", "open_", is_flag=True, help="Open it in the browser.")
@codec_option
@shared
def report(
    session: Session,
    batch: str,
    output: Path | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    open_: bool,
    codec: str,
) -> int:
    """Write a self-contained HTML report.

    It shows what ran, the results, comparisons, a timeline of the workers, and failures with the
    commands that reproduce them. The file makes no network requests.
    """
    from runyard.reports.html import write_report

    given = None if session.location == DEFAULT_YARD else session.place
    with session.yard() as yard:
        hooks = hooks_of(yard.recorded(batch))
        if hooks is not None:
            hooks.register_sections()
        path = write_report(
            yard.results(batch, codec=codec), yard.batch_folder(batch), output,
            metrics=metrics, by=by, yard=given,
        )  # fmt: skip
    session.say(str(path if output else _near(path)))
    session.document({"batch": batch, "path": str(path), "bytes": path.stat().st_size})
    if open_:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
    return 0


def _near(path: Path) -> Path:
    """The path from here, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
