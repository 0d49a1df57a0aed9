"""What `run`, `resume` and `retry` share: their options, how a run is shown, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runyard.backends import NAMES as BACKENDS
from runyard.cli.session import Session, style
from runyard.errors import NotFound, StoreAway
from runyard.spec.hash_seed import workers_seed

if TYPE_CHECKING:
    from runyard.reports.failures import FailureGroup
    from runyard.reports.result import Result
    from runyard.yard import Yard


EXIT_FAILED, EXIT_USAGE, EXIT_BUDGET, EXIT_DEADLINE = 1, 2, 75, 124
GROUPS_SHOWN = 5
WHY = {
    "deadline": "the deadline has come",
    "stopped": "stopped on request, unfinished",
    "fail-fast": "stopped at the first failure",
    "budget": "the budget is used up",
    "limit": "the tasks to try have run",
}
"""Why a run ended before its batch did, in words."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a batch runs, and whether somebody watches."""

    backend: str
    workers: int | None
    progress: bool


def place_options(function: Function) -> Function:
    """Give a command --backend, --workers, what Ray needs to know, and --progress."""
    for option in reversed(
        [
            click.option(
                "--backend",
                type=click.Choice(BACKENDS),
                default="processes",
                show_default=True,
                callback=_pin_hash_seed,
                help="Where tasks run.",
            ),
            click.option(
                "--workers",
                type=click.IntRange(1),
                metavar="N",
                help="How many at once.  [default: all cores]",
            ),
            click.option(
                "--ray-address",
                metavar="HOST:PORT",
                help="The Ray cluster to join.  [default: $RAY_ADDRESS, else one of its own]",
            ),
            click.option(
                "--fallback",
                type=click.Choice(["serial"]),
                help="Where to run if Ray is not installed or can't start.",
            ),
            click.option(
                "--progress/--no-progress",
                default=True,
                help="Show how it goes, on stderr.  [default: yes]",
            ),
            click.option(
                "--durable",
                is_flag=True,
                expose_value=False,
                callback=_set_durable,
                help="Wait for the disk at each commit: a power cut loses nothing either.",
            ),
        ]
    ):
        function = option(function)
    return function


def need_options(function: Function) -> Function:
    """Give a command --cpus, --gpus, --resource and --runtime-env."""
    for option in reversed(
        [
            click.option(
                "--cpus", type=click.FloatRange(0), metavar="N", help="Cores a task needs (ray)."
            ),
            click.option(
                "--gpus", type=click.FloatRange(0), metavar="N", help="GPUs a task needs (ray)."
            ),
            click.option(
                "--resource",
                "resources",
                metavar="K=N",
                multiple=True,
                callback=_read_amounts,
                help="What else a task needs of its machine (ray).",
            ),
            click.option(
                "--runtime-env",
                metavar="JSON|FILE",
                callback=_read_document,
                help="What Ray prepares on a machine before tasks run there (ray).",
            ),
        ]
    ):
        function = option(function)
    return function


def limit_options(function: Function) -> Function:
    """Give a command --budget, --metric and --until."""
    for option in reversed(
        [
            click.option(
                "--budget",
                metavar="K=N",
                multiple=True,
                callback=_read_amounts,
                help="What the batch may use in all: tasks=N, minutes=N (or seconds, hours), or "
                "the sum of a metric that tasks return; `none` lifts it. Exit 75 when it is used "
                "up.",
            ),
            click.option("--metric", metavar="M", help="Show the running mean of this result."),
            click.option(
                "--until",
                metavar="CONDITION",
                help="Add replicates until this holds, as in 'ci95(mean(profit)) < 0.5'; "
                "`none` lifts it.",
            ),
        ]
    ):
        function = option(function)
    return function


changed_option = click.option(
    "--changed",
    type=click.Choice(["keep", "rerun", "refuse"]),
    help="What to do with outcomes made by code that has changed since: keep them, run their "
    "tasks again, or refuse to run.  [default: keep]",
)


def code_of(end: KeyboardInterrupt | SystemExit) -> int:
    """The exit code of a run that a signal ended."""
    return int(end.code or 0) if isinstance(end, SystemExit) else 128 + signal.SIGINT


def carry_out(
    session: Session,
    yard: Yard,
    name: str,
    run: Callable[[], Result],
    tell: Callable[[Session, Result], int] | None = None,
) -> int:
    """Run, say what came of it; the exit code."""
    interrupted = 0
    try:
        result = run()
    except (KeyboardInterrupt, SystemExit) as end:
        interrupted = code_of(end)
    if interrupted:
        yard.store.hurry(StoreAway.last_seconds)
        try:
            result = yard.results(name)
        except (NotFound, StoreAway):
            return interrupted
    code = (tell or tell_result)(session, result)
    return interrupted or code


def show_notices(session: Session, yard: Yard, *, progress: bool) -> None:
    """Let notices be read where no progress view shows them."""
    from runyard.events import Notice

    if not progress:
        yard.bus.subscribe(Notice, lambda notice: session.note(f"{notice.batch}: {notice.text}"))


def tell_result(session: Session, result: Result) -> int:
    """Say what came out, for people or as JSON; the exit code that it stands for."""
    code = say_result(session, result)
    session.document(final_document(result))
    return code


def say_result(session: Session, result: Result) -> int:
    """Say what came out, for people; the exit code that it stands for."""
    stats = result.stats
    groups = result.failures() if stats.failed else []
    unfinished = stats.total - stats.done
    session.say(summary(session, result, groups))
    _tell_unencodable(session, groups)
    if unfinished:
        budget = result.recorded.options.budget if result.end == "budget" else {}
        more = [word for k, n in budget.items() for word in ("--budget", f"{k}={2 * n:g}")]
        next_command = style(session.command("resume", result.name, *more), bold=True)
        session.note(
            f"{WHY.get(result.end, 'interrupted')}: {stats.done:,} recorded; {next_command} goes on"
        )
    if any(group.kind == "NotEncodable" for group in groups):
        return EXIT_USAGE
    if unfinished and result.end == "deadline":
        return EXIT_DEADLINE
    if result.end == "budget":
        return EXIT_BUDGET
    return EXIT_FAILED if stats.failed or stats.cancelled else 0


def final_document(result: Result) -> dict[str, Any]:
    """The last JSON line of a run; the same bytes each time for a finished batch."""
    stats = result.stats
    return {
        "batch": result.name,
        "total": stats.total,
        "completed": stats.completed,
        "failed": stats.failed,
        "cancelled": stats.cancelled,
        "digest": result.digest,
        "seconds": round(stats.seconds, 3),
    }


def summary(session: Session, result: Result, groups: list[FailureGroup]) -> str:
    """The batch in a few lines, and what to type next."""
    from runyard.reports.versions import mixed_lines

    lines = [result.headline()]
    lines += ["  " + style(line, fg="yellow") for line in mixed_lines(result.mixed_code)]
    lines += ["  " + style(group.line(), fg="red") for group in groups[:GROUPS_SHOWN]]
    if len(groups) > GROUPS_SHOWN:
        lines.append(f"  and {len(groups) - GROUPS_SHOWN} more kinds of failure")
    digest = result.digest
    lines.append(f"  seed {result.seed}" + (f", digest {digest[:16]}" if digest else ""))
    if groups:
        first = f"{result.name}/{groups[0].tasks[0]}"
        lines.append(f"  next: {session.command('repro', first)}")
        lines.append(f"        {session.command('results', result.name, '--failures')}")
    elif digest:
        lines.append(f"  next: {session.command('results', result.name)}")
    return "\n".join(lines)


def _tell_unencodable(session: Session, groups: list[FailureGroup]) -> None:
    for group in groups:
        if group.kind == "NotEncodable":
            session.note(f"{style('error:', fg='red', bold=True)} {group.message}")
            return


def _pin_hash_seed(context: click.Context, parameter: click.Parameter, value: str) -> str:  # noqa: ARG001
    """Let tasks that run in this process hash strings as workers do."""
    if value not in ("processes", "ray"):
        context.ensure_object(Session).pin_hash_seed(workers_seed())
    return value


def _set_durable(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
    context.ensure_object(Session).durable = value


def _read_amounts(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    given: tuple[str, ...],
) -> dict[str, float] | None:
    if not given:
        return None
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        if text == "none":
            return {}
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter(f"{text!r} is not NAME=NUMBER, as in tasks=1000 or cost=2.5")
    return found


def _read_document(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    given: str | None,
) -> dict[str, Any] | None:
    """A JSON object, as it is or in a file."""
    if given is None:
        return None
    import json

    try:
        text = given if given.lstrip().startswith("{") else Path(given).read_text()
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{given!r} is neither JSON nor a file of it: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter('write an object, as in {"env_vars": {"MODE": "fast"}}')
    return found
