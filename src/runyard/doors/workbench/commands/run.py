"""`runyard workbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.command import COUNT, command, option, seed_option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.options import fresh_options, option_flags, place_options
from runyard.cli.running import carry_out, may_forget, show_notices, tell_result
from runyard.cli.session import Session
from runyard.doors.workbench.commands.telling import Checks, tell
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.result import BenchResult
    from runyard.reports.result import Result


@command(
    "runyard workbench run bench.toml",
    "runyard workbench run bench.toml --repetitions 5 --backend serial",
    "runyard workbench run benches:retrievers",
)
@click.argument("bench", metavar="BENCH.toml|MODULE:NAME")
@option("--repetitions", type=COUNT, help="Run each variant on each case N times.")
@seed_option
@fresh_options
@option_flags(["timeout", "retries", "changed"])
@option(
    "--gate",
    "gates",
    metavar="CONDITION",
    multiple=True,
    help="Exit with code 4 unless this holds for every variant; besides those of the bench.",
)
@option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Exit with code 4 if anything got worse than in FILE; write it if there is none.",
)
@option("--update-baseline", is_flag=True, help="Replace the baseline by the scores of this run.")
@option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write JUnit XML, with a testcase for each cell.",
)
@option("--passing", type=float, metavar="SCORE", help="Let scores from this one up pass.")
@place_options
def run(
    session: Session,
    bench: str,
    yes: bool,
    gates: tuple[str, ...],
    baseline: Path | None,
    update_baseline: bool,
    junit: Path | None,
    passing: float | None,
    **given: Any,
) -> int:
    """Run every variant on every case; repeat the command to continue where it stopped."""
    from runyard.doors.workbench.bench.benchfile import read_bench
    from runyard.doors.workbench.bench.workbench import Workbench
    from runyard.stats.conditions import parse

    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE")
    found = read_bench(bench)
    checks = Checks([*found.gates, *gates], baseline, update_baseline, junit, passing)
    for gate in checks.gates:
        parse(gate)  # before anything runs
    if given["fresh"] and found.name and not may_forget(session, found.name, yes=yes):
        return EXIT_FAILED
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=given["progress"])
        workbench = Workbench(yard=yard)
        found.check(workbench, checks.gates)
        made: list[BenchResult] = []

        def start() -> Any:
            made.append(found.run(workbench, **given))
            return made[0].result

        def answer(session: Session, result: Result) -> int:
            return tell(session, made[0], checks) if made else tell_result(session, result)

        return carry_out(session, yard, found.name or "", start, answer)
