"""`runyard letitride run` and `runyard letitride compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from runyard import clock
from runyard.backends import NAMES as BACKENDS
from runyard.cli.command import COUNT, INDEX, command, level_option, option, options
from runyard.cli.compare import figures
from runyard.cli.exit_codes import EXIT_FAILED, code_of
from runyard.cli.options import fresh_options
from runyard.cli.running import may_forget
from runyard.cli.session import Session, style
from runyard.cli.table import table
from runyard.doors.letitride.config.output import ChartName
from runyard.format import count

if TYPE_CHECKING:
    from pathlib import Path

    from runyard.doors.letitride.config.model import FullConfig
    from runyard.doors.letitride.engine.blocks import SimulationJob
    from runyard.doors.letitride.report.results import SimulationResults
    from runyard.doors.letitride.simulate.controller import SimulationController
    from runyard.stats.compare_result import Comparison
    from runyard.stats.conditions import Verdict

CHARTS: tuple[str, ...] = get_args(ChartName)
_UNITS = {
    "profit": "base bets per session",
    "wagered": "base bets per session",
    "hands": "hands per session",
    "drawdown": "base bets",
}

_size_options = options(
    option("--sessions", type=COUNT, help="Play N sessions.  [default: as configured]"),
    option("--hands", type=COUNT, help="End a session after N hands.  [default: as configured]"),
    option(
        "--seed",
        type=INDEX,
        help="Set the root seed.  [default: as configured, or chosen and recorded]",
    ),
    option(
        "--workers",
        type=COUNT,
        help="Run N workers; 1 runs in this process.  [default: as configured]",
    ),
    option("--backend", type=click.Choice(BACKENDS), help="Run sessions on this backend."),
)


@command(
    "runyard letitride run game.yaml",
    "runyard letitride run game.yaml --sessions 100000 --seed 7 --output results/",
    "runyard letitride run game.yaml --chart bonus_impact --chart hand_frequency",
    "runyard letitride run game.yaml --until 'ci95(ev_per_hand) < 0.0005'",
)
@click.argument("config", metavar="CONFIG")
@_size_options
@option("--output", metavar="DIR", help="Write files to this folder.  [default: as configured]")
@option(
    "--chart",
    "charts",
    type=click.Choice(CHARTS),
    metavar="NAME",
    multiple=True,
    help=f"Draw this chart instead of the configured ones; repeatable: {', '.join(CHARTS)}.",
)
@option("--until", metavar="CONDITION", help="Add sessions until this condition holds.")
@fresh_options
@option("--quiet", is_flag=True, help="Print nothing but errors.")
def run(session: Session, config: str, **given: Any) -> int:
    """Play the sessions of a configuration.

    Repeat the command to continue where it stopped; recorded sessions are not played again.
    """
    from runyard.doors.letitride.report.files import check_output
    from runyard.doors.letitride.simulate.controller import SimulationController

    found, fresh = _configured(config, given), given["fresh"]
    check_output(found)
    console = found.output.console
    quiet = given["quiet"] or console.verbosity == 0
    note = _notes(session, quiet)
    with session.yard(create=True) as yard:
        controller = SimulationController(
            found, given["workers"], backend=given["backend"], yard=yard
        )
        job = controller.job(open_end=given["until"] is not None)
        html = found.output.formats.html
        if html.enabled and html.chart_library != "svg":
            note(f"charts in the report are inline SVG; {html.chart_library} is not used")
        begin = clock.monotonic()
        batch = controller.batch(job)
        if fresh and not may_forget(session, batch.record_name, yes=given["yes"]):
            return EXIT_FAILED
        before = 0 if fresh else controller.recorded_sessions(batch, job)
        _warm(controller, job, note)
        progress = console.progress_bar and not quiet
        try:
            if given["until"] is None:
                results = controller.run_batch(batch, job, progress=progress, fresh=fresh)
            else:
                results = _until(controller, job, given["until"], note, progress, fresh)
        except (KeyboardInterrupt, SystemExit) as end:
            note("interrupted: finished sessions are recorded; repeat the command to continue")
            return code_of(end)
        seconds = clock.monotonic() - begin
        if results.result.stats.completed < results.result.stats.total:
            note("stopped: finished sessions are recorded; repeat the command to continue")
            return EXIT_FAILED
        files = results.write(given["output"])  # first, since printing may end early in `| head`
        lines = []
        if not quiet and console.show_summary:
            lines += [*_lines(results, console.verbosity), _speed(results, seconds, before)]
        if files and not quiet:
            names = ", ".join(path.name for path in files)
            lines.append(f"  wrote {style(str(files[0].parent), bold=True)}: {names}")
        if lines:
            session.say("\n".join(lines))
        session.document(_document(results, seconds, files))
    return 0


def _document(results: SimulationResults, seconds: float, files: list[Path]) -> dict[str, Any]:
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


@command(
    "runyard letitride compare basic.yaml aggressive.yaml --sessions 20000",
    "runyard letitride compare a.yaml b.yaml c.yaml --metric won",
)
@click.argument("configs", metavar="CONFIG CONFIG…", nargs=-1, required=True)
@_size_options
@option(
    "--metric",
    type=click.Choice(["profit", "won", "hands", "wagered", "drawdown", "ruined"]),
    default="profit",
    help="Compare this metric of sessions; profit, wagered and drawdown are in base bets.",
)
@level_option
@option("--quiet", is_flag=True, help="Show no progress.")
def compare(
    session: Session, configs: tuple[str, ...], metric: str, level: float, quiet: bool, **given: Any
) -> None:
    """Compare configurations session by session, on the same cards."""
    from runyard.doors.letitride.report.comparison import comparable, compare_results
    from runyard.doors.letitride.simulate.controller import SimulationController

    wanted = comparable(configs, [_configured(path, given) for path in configs])
    found: dict[str, SimulationResults] = {}
    with session.yard(create=True) as yard:
        for name, config in wanted.items():
            controller = SimulationController(
                config, given["workers"], backend=given["backend"], yard=yard
            )
            job = controller.job()
            _warm(controller, job, _notes(session, quiet))
            found[name] = controller.run_batch(controller.batch(job), job, progress=not quiet)
        comparisons = compare_results(found, metric, level)
        words = [style(c.words(_UNITS.get(metric, "")), bold=c.shown) for c in comparisons]
        session.answer(
            "\n".join([*words, "", _table(found, comparisons, metric)]),
            {
                "metric": metric,
                "seed": next(iter(found.values())).seed,
                "batches": {name: results.name for name, results in found.items()},
                "comparisons": [each.to_data() for each in comparisons],
                "aggregates": {name: each.aggregate.to_data() for name, each in found.items()},
            },
        )


def _notes(session: Session, quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else session.note  # noqa: ARG005


def _configured(path: str, given: dict[str, Any]) -> FullConfig:
    """Read the configuration in a file, with the options applied."""
    from runyard.doors.letitride.config.file import read_file

    found = read_file(path)
    names = {"sessions": "num_sessions", "hands": "hands_per_session", "seed": "random_seed"}
    changes = {key: given[name] for name, key in names.items() if given[name] is not None}
    if given.get("charts"):
        shown = found.to_data()["output"]["visualizations"]
        shown |= {"enabled": True, "charts": [{"type": name} for name in given["charts"]]}
        found = found.with_(output={"visualizations": shown})
    return found.with_(simulation=changes) if changes else found


def _warm(controller: SimulationController, job: SimulationJob, note: Callable[[str], Any]) -> None:
    """Prepare the kernel, and report if it had to be compiled."""
    from runyard.doors.letitride.engine.play import has_kernel

    warmth = controller.warm_up(job)
    if warmth.compiled:
        note(f"compiled the kernel in {warmth.seconds:.1f} s; it is cached for the next run")
    elif not has_kernel():
        note("numba is not installed: using the plain engine, a few hundred times slower")


def _until(
    controller: SimulationController,
    job: SimulationJob,
    condition: str,
    note: Callable[[str], None],
    progress: bool,
    fresh: bool,
) -> SimulationResults:
    from runyard.doors.letitride.simulate.until import read_condition, run_until

    def tell(verdict: Verdict, blocks: int) -> None:
        note(f"{count(blocks * job.size, 'session')}: {verdict.text}")

    rule = read_condition(condition)
    return run_until(controller, rule, progress=progress, fresh=fresh, on_check=tell)


def _lines(results: SimulationResults, verbosity: int) -> list[str]:
    from runyard.doors.letitride.game.game import STOP_REASONS
    from runyard.doors.letitride.report.text import hand_rows, histogram_text, summary

    found = results.aggregate
    lines = [summary(found), "", histogram_text(found), ""]
    if verbosity > 1:
        rows = [[n, f"{c:,}", f"{s:.5%}", f"{e:.5%}"] for n, c, s, e in hand_rows(found)]
        lines += [table(["hand", "times", "share", "exact"], rows, numbers=(1, 2, 3)), ""]
    if verbosity > 2:
        stops = zip(STOP_REASONS, found.stops.tolist(), strict=True)
        lines += ["stopped by: " + ", ".join(f"{name} {count:,}" for name, count in stops), ""]
    digest = (results.digest or "")[:16]
    return [*lines, f"{results.name}: seed {results.seed}, digest {digest}"]


def _speed(results: SimulationResults, seconds: float, before: int) -> str:
    found = results.aggregate
    fresh = found.sessions - before
    rate = found.hands * fresh / found.sessions / seconds
    there = f"{count(before, 'session')} already recorded; " if before else ""
    told = f"{rate:,.0f} hands per second, including startup and recording"
    return f"  {there}{seconds:.2f} s, {told}" if fresh else f"  {there}none left to play"


def _table(
    found: Mapping[str, SimulationResults], comparisons: Sequence[Comparison], metric: str
) -> str:
    rows = [
        [c.a, c.b, *figures(c), "" if c.correlation is None else f"{c.correlation:.2f}"]
        for c in comparisons
    ]
    sessions = next(iter(found.values())).total_sessions
    heads = ["a", "b", f"{metric} a", f"{metric} b", "a − b", "p", "correlation"]
    text = table(heads, rows, numbers=(2, 3, 4, 5, 6))
    return f"{text}\n{count(sessions, 'session')} of each, on the same cards"
