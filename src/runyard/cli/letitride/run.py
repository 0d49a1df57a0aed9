"""`runyard letitride run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from runyard import clock
from runyard.backends import NAMES as BACKENDS
from runyard.cli.asking import fresh_options, may_forget
from runyard.cli.running import EXIT_FAILED, code_of
from runyard.cli.session import Session, examples, shared, style
from runyard.doors.letitride.config.output import ChartName

if TYPE_CHECKING:
    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.engine.blocks import SimulationJob
    from runyard.doors.letitride.report.results import SimulationResults
    from runyard.doors.letitride.simulate.controller import SimulationController
    from runyard.spec.batch import Batch
    from runyard.stats.conditions import Verdict

CHARTS: tuple[str, ...] = get_args(ChartName)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def size_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that override a configuration: --sessions, --hands, --seed, …"""
    for option in reversed(
        [
            click.option(
                "--sessions",
                type=click.IntRange(1),
                metavar="N",
                help="Sessions to play.  [default: as configured]",
            ),
            click.option(
                "--hands",
                type=click.IntRange(1),
                metavar="N",
                help="Most hands of a session.  [default: as configured]",
            ),
            click.option(
                "--seed",
                type=click.IntRange(0),
                metavar="N",
                help="Root seed.  [default: as configured, or chosen and recorded]",
            ),
            click.option(
                "--workers",
                type=click.IntRange(1),
                metavar="N",
                help="Number of workers; 1 runs in this process.  [default: as configured]",
            ),
            click.option(
                "--backend", type=click.Choice(BACKENDS), help="Backend that runs the sessions."
            ),
        ]
    ):
        function = option(function)
    return function


@click.command(
    epilog=examples(
        "runyard letitride run game.yaml",
        "runyard letitride run game.yaml --sessions 100000 --seed 7 --output results/",
        "runyard letitride run game.yaml --chart bonus_impact --chart hand_frequency",
        "runyard letitride run game.yaml --until 'ci95(ev_per_hand) < 0.0005'",
    )
)
@click.argument("config", metavar="CONFIG")
@size_options
@click.option("--output", metavar="DIR", help="Folder for files.  [default: as configured]")
@click.option(
    "--chart",
    "charts",
    type=click.Choice(CHARTS),
    metavar="NAME",
    multiple=True,
    help=f"Draw this chart instead of the configured ones; repeatable: {', '.join(CHARTS)}.",
)
@click.option("--until", metavar="CONDITION", help="Add sessions until this condition holds.")
@fresh_options
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@shared
def run(session: Session, config: str, **given: Any) -> int:
    """Play the sessions of a configuration.

    Repeat the command to continue where it stopped; recorded sessions are not played again.
    """
    from runyard.doors.letitride.report.files import check_output
    from runyard.doors.letitride.simulate.controller import SimulationController

    found = configured(config, given)
    check_output(found)
    console = found.output.console
    quiet = given["quiet"] or console.verbosity == 0
    progress = console.progress_bar and not quiet
    with session.yard(create=True) as yard:
        controller = SimulationController(
            found, given["workers"], backend=given["backend"], yard=yard
        )
        job = controller.job(open_end=given["until"] is not None)
        note = (lambda text: None) if quiet else session.note  # noqa: ARG005
        html = found.output.formats.html
        if html.enabled and html.chart_library != "svg":
            note(f"charts in the report are inline SVG; {html.chart_library} is not used")
        begin = clock.monotonic()
        batch = controller.batch(job)
        if given["fresh"] and not may_forget(session, batch.record_name, yes=given["yes"]):
            return EXIT_FAILED
        before = controller.recorded_sessions(batch, job)
        warm(controller, job, note)
        try:
            results = _played(controller, batch, job, given, progress, note)
        except (KeyboardInterrupt, SystemExit) as end:
            note("interrupted: finished sessions are recorded; repeat the command to continue")
            return code_of(end)
        seconds = clock.monotonic() - begin
        if results.result.stats.completed < results.result.stats.total:
            note("stopped: finished sessions are recorded; repeat the command to continue")
            return 1
        files = results.write(given["output"])  # first, since printing may end early in `| head`
        if not quiet and console.show_summary:
            _show(session, results, console.verbosity)
            _show_speed(session, results, seconds, 0 if given["fresh"] else before)
        _tell_files(session, files, quiet)
        session.document(_document(results, files, seconds))
    return 0


def configured(path: str, given: dict[str, Any]) -> FullConfig:
    """Read the configuration in a file, with the options applied."""
    from runyard.doors.letitride.config.file import read_file

    found = read_file(path)
    names = {"sessions": "num_sessions", "hands": "hands_per_session", "seed": "random_seed"}
    changes = {key: given[name] for name, key in names.items() if given.get(name) is not None}
    if given.get("charts"):
        shown = found.to_data()["output"]["visualizations"]
        shown |= {"enabled": True, "charts": [{"type": name} for name in given["charts"]]}
        found = found.with_(output={"visualizations": shown})
    return found.with_(simulation=changes) if changes else found


def warm(controller: SimulationController, job: SimulationJob, note: Callable[[str], Any]) -> None:
    """Prepare the kernel, and report if it had to be compiled."""
    from runyard.doors.letitride.engine.play import has_kernel

    warmth = controller.warm_up(job)
    if warmth.compiled:
        note(f"compiled the kernel in {warmth.seconds:.1f} s; it is cached for the next run")
    elif not has_kernel():
        note("numba is not installed: using the plain engine, a few hundred times slower")


def _played(
    controller: SimulationController,
    batch: Batch,
    job: SimulationJob,
    given: dict[str, Any],
    progress: bool,
    note: Callable[[str], Any],
) -> SimulationResults:
    if given["until"] is None:
        return controller.run_batch(batch, job, progress=progress, fresh=given["fresh"])
    from runyard.doors.letitride.simulate.until import read_condition, run_until

    def on_check(verdict: Verdict, blocks: int) -> None:
        note(f"{blocks * job.size:,} sessions: {verdict.text}")

    return run_until(
        controller,
        read_condition(given["until"]),
        progress=progress,
        fresh=given["fresh"],
        on_check=on_check,
    )


def _show(session: Session, results: SimulationResults, verbosity: int) -> None:
    from runyard.doors.letitride.report.text import hand_rows, histogram_text, summary

    found = results.aggregate
    session.say(summary(found))
    session.say()
    session.say(histogram_text(found))
    if verbosity > 1:
        from runyard.cli.table import table

        rows = [[n, f"{c:,}", f"{s:.5%}", f"{e:.5%}"] for n, c, s, e in hand_rows(found)]
        session.say()
        session.say(table(["hand", "times", "share", "exact"], rows, numbers=(1, 2, 3)))
    if verbosity > 2:
        session.say()
        stops = zip(_reasons(), found.stops.tolist(), strict=True)
        session.say("stopped by: " + ", ".join(f"{name} {count:,}" for name, count in stops))
    session.say()
    session.say(f"{results.name}: seed {results.seed}, digest {(results.digest or '')[:16]}")


def _show_speed(session: Session, results: SimulationResults, seconds: float, before: int) -> None:
    found = results.aggregate
    fresh = found.sessions - before
    rate = found.hands * fresh / found.sessions / seconds
    there = f"{before:,} sessions were already recorded, " if before else ""
    told = (
        f"{rate:,.0f} hands a second, including start-up and recording" if fresh else "none played"
    )
    session.say(f"  {there}{seconds:.2f} s, {told}")


def _reasons() -> tuple[str, ...]:
    from runyard.doors.letitride.game.game import STOP_REASONS

    return STOP_REASONS


def _tell_files(session: Session, files: list[Path], quiet: bool) -> None:
    if quiet or not files:
        return
    session.say(f"  wrote {style(str(files[0].parent), bold=True)}: "
                + ", ".join(path.name for path in files))  # fmt: skip


def _document(results: SimulationResults, files: list[Path], seconds: float) -> dict[str, Any]:
    return {
        "batch": results.name,
        "seed": results.seed,
        "sessions": results.aggregate.sessions,
        "hands": results.aggregate.hands,
        "digest": results.digest,
        "seconds": round(seconds, 3),
        "files": [str(path) for path in files],
        "aggregate": results.aggregate.to_data(),
    }
