"""What `run`, `resume` and `retry` share: where to run, how a run is shown, and how it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from runyard.cli.exit_codes import (
    EXIT_BUDGET,
    EXIT_DEADLINE,
    EXIT_FAILED,
    EXIT_USAGE,
    code_of,
)
from runyard.cli.session import Session, style
from runyard.errors import NotFound, StoreAway
from runyard.format import count
from runyard.spec.hash_seed import VARIABLE, given_seed, pinned
from runyard.spec.option_kinds import TASKS

if TYPE_CHECKING:
    from runyard.reports.failures import FailureGroup
    from runyard.reports.result import Result
    from runyard.store.stored_batch import StoredBatch
    from runyard.yard import Yard

GROUPS_SHOWN = 5
IN_WORKERS = ("processes", "ray")
"""Backends whose tasks run outside of this process."""

WHY = {
    "deadline": "deadline reached",
    "stopped": "stopped on request",
    "fail-fast": "stopped at the first failure",
    "budget": "budget used up",
    "limit": "trial finished",
}
"""Why a run ended before its batch did."""


@contextlib.contextmanager
def hashing_as_recorded(session: Session, recorded: StoredBatch, backend: str) -> Iterator[None]:
    """Let tasks hash strings as the batch's last ones did, unless the user gives a seed.

    Workers get the seed; for tasks that run in this process, the program restarts with it.
    """
    from runyard.store.versions import hash_seed_of

    seed = given_seed() or pinned(hash_seed_of(recorded))
    if backend not in IN_WORKERS:
        session.pin_hash_seed(seed)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = seed
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def carry_out(
    session: Session,
    yard: Yard,
    name: str,
    run: Callable[[], Result],
    tell: Callable[[Session, Result], int] | None = None,
) -> int:
    """Run, show the result, and return the exit code."""
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


def may_forget(session: Session, name: str, *, yes: bool) -> bool:
    """Whether --fresh may delete a batch's recorded outcomes, if there are any."""
    if yes:
        return True
    with session.yard(or_empty=True) as yard:
        try:
            done = yard.results(name).stats.done
        except NotFound:
            return True
    return not done or session.confirm_loss(
        f"--fresh would delete {count(done, 'outcome')} of {name}"
    )


def show_notices(session: Session, yard: Yard, *, progress: bool) -> None:
    """Print notices where no progress view shows them."""
    from runyard.events import Notice

    if not progress:

        def tell(notice: Notice) -> None:
            session.note(f"{notice.batch}: {notice.text}" if notice.batch else notice.text)

        yard.bus.subscribe(Notice, tell)


def tell_result(session: Session, result: Result) -> int:
    """Show a result, as text or JSON, and return the exit code."""
    code = say_result(session, result)
    session.document(final_document(result))
    return code


def say_result(session: Session, result: Result) -> int:
    """Show a result as text, and return the exit code."""
    stats = result.stats
    groups = result.failures()
    unfinished = stats.total - stats.done
    unencodable = [group for group in groups if group.kind == "NotEncodable"]
    session.say(_summary(session, result, groups))
    for group in unencodable[:1]:
        session.note(f"{style('error:', fg='red', bold=True)} {group.message}")
    if unfinished:
        session.note(
            f"{WHY.get(result.end, 'interrupted')} with {stats.done:,} of {stats.total:,} tasks "
            f"recorded; run `{resume_command(session, result)}` to continue"
        )
    return EXIT_USAGE if unencodable else exit_code(result)


def resume_command(session: Session, result: Result) -> str:
    """The command that continues a batch, with a larger budget if that was used up."""
    budget = result.recorded.options.budget if result.end == "budget" else {}
    done = result.stats.done
    larger = {k: 2 * (max(n, done) if k == TASKS else n) for k, n in budget.items()}
    more = [word for k, n in larger.items() for word in ("--budget", f"{k}={n:g}")]
    return style(session.command("resume", result.name, *more), bold=True)


def exit_code(result: Result) -> int:
    """The exit code of a run that was not interrupted."""
    stats = result.stats
    if result.end == "deadline" and stats.done < stats.total:
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


def result_lines(result: Result, groups: list[FailureGroup]) -> list[str]:
    """The state of a batch on one line; under it mixed code and the first kinds of failure."""
    from runyard.reports.versions import mixed_lines

    lines = [result.headline()]
    lines += ["  " + style(line, fg="yellow") for line in mixed_lines(result.mixed_code)]
    lines += ["  " + style(group.line(), fg="red") for group in groups[:GROUPS_SHOWN]]
    if len(groups) > GROUPS_SHOWN:
        lines.append(f"  and {count(len(groups) - GROUPS_SHOWN, 'more kind')} of failure")
    return lines


def _summary(session: Session, result: Result, groups: list[FailureGroup]) -> str:
    """The result in a few lines, and the commands to use next."""
    lines = result_lines(result, groups)
    digest = result.digest
    lines.append(f"  seed {result.seed}" + (f", digest {digest[:16]}" if digest else ""))
    if groups:
        first = f"{result.name}/{groups[0].tasks[0]}"
        lines.append(f"  next: {session.command('repro', first)}")
        lines.append(f"        {session.command('results', result.name, '--failures')}")
    elif digest:
        lines.append(f"  next: {session.command('results', result.name)}")
    return "\n".join(lines)
