"""`runyard repro` and `runyard verify`: rerun recorded tasks and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runyard.backends import NAMES as BACKENDS
from runyard.cli.command import COUNT, codec_option, command, option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.options import progress_option
from runyard.cli.session import Session, style
from runyard.cli.values import task_of
from runyard.format import count
from runyard.spec import hash_seed

if TYPE_CHECKING:
    from runyard.checks.outcomes import ShownOutcome
    from runyard.checks.verify import Verified


@command("runyard repro walks/17", "runyard repro walks/17 --pdb")
@click.argument("task")
@option("--pdb", is_flag=True, help="Open the debugger where the task fails.")
@codec_option
def repro(session: Session, task: str, pdb: bool, codec: str) -> int:
    """Rerun one task in this process and compare.

    TASK is BATCH/NUMBER. It runs with its seed and parameters, but without its memory limit, and
    nothing is recorded. Exit code 0: the same as recorded; 1: different.
    """
    from runyard.checks.outcomes import shown
    from runyard.checks.repro import Rerun

    name, number = task_of(task)
    with session.yard() as yard:
        rerun = Rerun(yard, name, number, session.note)
    session.pin_hash_seed(hash_seed.pinned(rerun.hash_seed))
    now = shown(rerun.run(pdb=pdb), rerun.recorded.codec, "pickle")
    before, same = None, None
    if rerun.before is not None:
        before = shown(rerun.before, rerun.recorded.codec, codec)
        same = before.content == now.content
    if now.trace:
        session.say(now.trace.rstrip())
    session.answer(
        _repro_text(task, before, now),
        {
            "task": task,
            "same": same,
            "recorded": None if before is None else before.to_data(),
            "now": now.to_data(),
        },
    )
    own = hash_seed.own_seed()
    if before is None:
        session.note("there is no recorded outcome to compare it with")
        return 0 if now.status == "completed" else EXIT_FAILED
    if not same and rerun.hash_seed not in ("", own):
        session.note(
            f"recorded with {hash_seed.shown(rerun.hash_seed)}, rerun with {hash_seed.shown(own)}: "
            "the order of a set may cause the difference"
        )
    return 0 if same else EXIT_FAILED


def _repro_text(task: str, before: ShownOutcome | None, now: ShownOutcome) -> str:
    if before is None:
        return f"{task}: {now.text}"
    if before.content == now.content:
        return f"{task}: {style('same', fg='green')} as recorded: {now.text}"
    return f"{task}: {style('differs', fg='red')}\n{before.difference(now)}"


@command(
    "runyard verify walks",
    "runyard verify walks --sample 100% --backend threads",
    "runyard verify walks --sample 50 --backend processes --workers 3",
)
@click.argument("batch")
@option(
    "--sample",
    metavar="N|N%",
    default="10%",
    help="Rerun this number or share of tasks, the same ones each time.",
)
@option(
    "--backend", type=click.Choice(BACKENDS), default="serial", help="Run tasks on this backend."
)
@option("--workers", type=COUNT, help="Run N tasks at once.")
@progress_option
@codec_option
def verify(session: Session, batch: str, sample: str, **given: Any) -> int:
    """Rerun a sample on another backend and compare.

    By default tasks run one after another, which shows that running in parallel changed nothing.
    Exit code 0: all are the same; 1: some differ, and the first one is shown.
    """
    from runyard.checks.verify import read_sample
    from runyard.checks.verify import verify as verify_sample
    from runyard.store.versions import hash_seed_of

    share = read_sample(sample)
    with session.yard() as yard:
        recorded_with = hash_seed_of(yard.recorded(batch))
    session.pin_hash_seed(hash_seed.pinned(recorded_with))
    with session.yard() as yard:
        found = verify_sample(yard, batch, share, **given)
    for cause in _causes(found):
        session.note(cause)
    session.answer(_verify_text(session, found), found.to_data())
    return EXIT_FAILED if found.different else 0


def _verify_text(session: Session, found: Verified) -> str:
    name, again = found.recorded.name, len(found.again)
    total = count(found.recorded.row.total, "task")
    reran = f"{name}: reran {again:,} of {total} on {found.backend}"
    if found.first is None:
        return f"{reran}, {style('all the same', fg='green')}"
    before, now = found.first
    different = len(found.different)
    differ = style(f"{different:,} {'differs' if different == 1 else 'differ'}", fg="red")
    task = f"{name}/{found.different[0]}"
    return (
        f"{reran}, {differ}; the first is {task}"
        f"\n{before.difference(now)}\n  next: {session.command('repro', task)}"
    )


def _causes(found: Verified) -> list[str]:
    """What may cause a difference: other code, or another hash seed."""
    from runyard.reports.versions import mixed_lines

    lines = [style(line, fg="yellow") for line in mixed_lines(found.mixed)]
    if found.outdated:
        lines.append(
            f"{found.outdated:,} of {count(len(found.chosen), 'sampled outcome')} came from code "
            "that has changed since, which may cause a difference"
        )
    if found.other_hash_seeds:
        before, now = found.other_hash_seeds[0], found.hash_seed
        lines.append(
            f"{len(found.other_hash_seeds):,} of the tasks that differ ran with "
            f"{hash_seed.shown(before)}, and now with {hash_seed.shown(now)}: the order of a set "
            "may cause the difference"
        )
    return lines
