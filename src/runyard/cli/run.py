"""`runyard run`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.asking import fresh_options, may_forget
from runyard.cli.described import Words, batch_of
from runyard.cli.running import (
    EXIT_FAILED,
    carry_out,
    changed_option,
    limit_options,
    need_options,
    place_options,
    show_notices,
)
from runyard.cli.session import Session, examples, shared
from runyard.errors import UsageError

if TYPE_CHECKING:
    from runyard.reports.result import Result
    from runyard.spec.batch import Batch
    from runyard.yard import Yard

LOG = "run.log"
"""Where a detached run writes, in its batch's folder."""


@click.command(
    epilog=examples(
        "runyard run walks.py:walk --grid dimension=1,2,3 --set steps=1000 --replicates 500",
        "runyard run experiments.toml --workers 8",
        "runyard run --shell 'simulate --seed $RUNYARD_SEED --size {size}' --grid size=10..19",
        "runyard run model:train --grid rate=0.1,0.01 --retries 2 --timeout 10m --detach",
        "runyard run walks.py:walk --grid dimension=1,2,3 --dry-run",
        "runyard run game.py:play --until 'ci95(mean(profit)) < 0.5' --budget minutes=10",
    )
)
@click.argument("target", required=False)
@click.option("--shell", metavar="COMMAND", help="A command; {x} stands for the parameter x.")
@click.option("--set", "set_", metavar="K=V", multiple=True, help="The same for every task.")
@click.option(
    "--grid",
    metavar="K=V,V,…",
    multiple=True,
    help="Every combination of these; also K=[…] as JSON and K=first..last.",
)
@click.option("--replicates", type=click.IntRange(1), metavar="N", help="So many of each.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="The root seed.  [default: chosen and recorded]",
)
@click.option("--name", help="The batch's name.  [default: made from what it is]")
@click.option(
    "--common-random-numbers",
    is_flag=True,
    default=None,
    help="Replicate r sees the same random numbers under every parameter.",
)
@click.option("--codec", type=click.Choice(["msgpack", "pickle"]), help="How values are stored.")
@click.option(
    "--retries", type=click.IntRange(0), metavar="N", help="Errors that a task may survive."
)
@click.option("--timeout", metavar="TIME", help="For one attempt: 30s, 5m, 2h.")
@click.option("--memory", metavar="SIZE", help="For one attempt: 512MB, 2GiB.")
@click.option("--deadline", metavar="TIME", help="For the whole run.")
@click.option(
    "--priority",
    type=click.Choice(["low", "medium", "high", "critical"]),
    help="What `resume` goes on with first.  [default: medium]",
)
@click.option("--fail-fast", is_flag=True, default=None, help="Stop at the first failure.")
@fresh_options
@click.option(
    "--keep",
    type=click.Choice(["always", "failed", "never"]),
    help="Which workspaces stay.  [default: always]",
)
@click.option("--capture/--no-capture", default=None, help="Keep what tasks print.  [default: yes]")
@click.option(
    "--chdir", "--in-workspace", "chdir", is_flag=True, default=None,
    help="Run each task inside its own workspace.",
)  # fmt: skip
@changed_option
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@click.option(
    "--try",
    "trial",
    type=click.IntRange(1),
    metavar="N",
    help="Run and record the next N tasks, then estimate what the rest takes.",
)
@click.option("--detach", is_flag=True, help="Run in the background; say its pid and return.")
@need_options
@limit_options
@place_options
@shared
def run(session: Session, **given: Any) -> int:
    """Run a batch, or go on with it.

    TARGET is module:function, path/file.py:function or a batch file (.toml). The same command
    again goes on where it stopped; what is recorded is not run again.
    """
    place = {name: given.pop(name) for name in _PLACE}
    progress, fresh, yes = (given.pop(name) for name in ("progress", "fresh", "yes"))
    trial, ways = given.pop("trial"), {name: given.pop(name) for name in ("dry_run", "detach")}
    _refuse_both({**ways, "try": trial is not None})
    words = Words(set=given.pop("set_"), **{k: given.pop(k) for k in _WORDS})
    batch = batch_of(words).with_options(**given)
    name = batch.record_name
    if ways["dry_run"]:
        from runyard.cli.preview import preview

        return preview(session, batch, fresh=fresh, **place)
    if fresh and not may_forget(session, name, yes=yes):
        return EXIT_FAILED
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=progress and not ways["detach"])
        if ways["detach"]:
            return _detach(session, yard, batch, fresh=fresh, **place)
        teller = None
        if trial is not None:
            from runyard.cli.preview import after_trial

            teller = after_trial(yard, batch, fresh=fresh, **place)

        def work() -> Result:
            return yard.run(batch, progress=progress, fresh=fresh, limit=trial, **place)

        return carry_out(session, yard, name, work, teller)


def _refuse_both(given: dict[str, bool]) -> None:
    """Refuse two ways of running that exclude each other."""
    chosen = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other", hint="drop one of them")


_PLACE = ("backend", "workers", "ray_address", "fallback")
_WORDS = (
    "target", "shell", "grid", "replicates", "common_random_numbers", "seed", "name", "codec",
)  # fmt: skip


def _detach(session: Session, yard: Yard, batch: Batch, *, fresh: bool, **place: Any) -> int:
    """Put the batch on record, so that a mistake shows here, and let another process run it."""
    name = yard.submit(batch, fresh=fresh)
    log = yard.batch_folder(name) / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    words = ["resume", name]
    for option, value in place.items():
        words += [f"--{option.replace('_', '-')}", str(value)] if value is not None else []
    words += ["--json"] if session.json else []
    words += ["--durable"] if session.durable else []
    with log.open("a") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "runyard", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            # The address may have a password in it, and arguments are seen by everyone.
            env={**os.environ, "PYTHONUNBUFFERED": "1", "RUNYARD_YARD": session.location},
        )
    session.say(f"{name} runs in the background as process {process.pid}")
    session.say(f"  output: {log}")
    session.say(f"  next: {session.command('status', name)}")
    session.document({"batch": name, "pid": process.pid, "log": str(log)})
    process.returncode = 0  # it outlives us: nobody waits for it
    return 0
