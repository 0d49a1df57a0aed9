"""`runyard run`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from runyard import modes
from runyard.cli.command import COUNT, command, option, refuse_together, seed_option
from runyard.cli.exit_codes import EXIT_FAILED
from runyard.cli.options import RUN_FLAGS, fresh_options, option_flags, place_options
from runyard.cli.running import carry_out, may_forget, show_notices
from runyard.cli.session import Session

if TYPE_CHECKING:
    from runyard.spec.batch import Batch
    from runyard.yard import Yard

LOG = "run.log"
"""The file in the batch's folder that a detached run writes to."""


@command(
    "runyard run walks.py:walk --grid dimension=1,2,3 --set steps=1000 --replicates 500",
    "runyard run experiments.toml --workers 8",
    "runyard run --shell 'simulate --seed $RUNYARD_SEED --size {size}' --grid size=10..19",
    "runyard run model:train --grid rate=0.1,0.01 --retries 2 --timeout 10m --detach",
    "runyard run walks.py:walk --grid dimension=1,2,3 --dry-run",
    "runyard run game.py:play --until 'ci95(mean(profit)) < 0.5' --budget minutes=10",
)
@click.argument("target", required=False)
@option("--shell", metavar="COMMAND", help="Run this command; {x} inserts parameter x.")
@option("--set", "fixed", metavar="K=V", multiple=True, help="Fix a parameter for all tasks.")
@option(
    "--grid",
    "lists",
    metavar="K=V,V,…",
    multiple=True,
    help="Run every combination of these values; also K=[…] as JSON and K=first..last.",
)
@option("--replicates", type=COUNT, help="Run each combination N times.")
@seed_option
@option("--name", help="Name the batch.  [default: derived from the batch]")
@option(
    "--common-random-numbers",
    is_flag=True,
    default=None,
    help="Give replicate N the same random numbers for all parameters.",
)
@option("--codec", type=click.Choice(["msgpack", "pickle"]), help="Store values in this format.")
@option_flags(RUN_FLAGS)
@option("--dry-run", is_flag=True, help="Show what would run, without running it.")
@option(
    "--try", "trial", type=COUNT, help="Run and record the next N tasks, then estimate the rest."
)
@option("--detach", is_flag=True, help="Run in the background; print the pid and return.")
@fresh_options
@place_options
def run(
    session: Session,
    backend: str,
    workers: int | None,
    ray_address: str | None,
    fallback: str | None,
    progress: bool,
    fresh: bool,
    yes: bool,
    trial: int | None,
    dry_run: bool,
    detach: bool,
    **given: Any,
) -> int:
    """Run a batch, or continue it.

    TARGET is module:function, path/file.py:function or a batch file (.toml). Repeat the command to
    continue after an interruption; recorded tasks are not run again.
    """
    from runyard.cli.described import batch_of

    refuse_together({"--dry-run": dry_run, "--detach": detach, "--try": trial})
    batch = batch_of(**given)
    if dry_run:
        from runyard.cli import preview

        preview.dry_run(session, batch, fresh=fresh, backend=backend, workers=workers)
        return 0
    if fresh and not may_forget(session, batch.record_name, yes=yes):
        return EXIT_FAILED
    place: dict[str, Any] = {
        "backend": backend, "workers": workers, "ray_address": ray_address, "fallback": fallback,
    }  # fmt: skip
    with session.yard(create=True) as yard:
        show_notices(session, yard, progress=progress and not detach)
        if detach:
            _detach(session, yard, batch, fresh=fresh, **place)
            return 0
        teller = None
        if trial is not None:
            from runyard.cli import preview

            teller = preview.after_trial(yard, batch, fresh=fresh, backend=backend, workers=workers)
        return carry_out(
            session, yard, batch.record_name,
            lambda: yard.run(batch, progress=progress, fresh=fresh, limit=trial, **place), teller,
        )  # fmt: skip


def _detach(session: Session, yard: Yard, batch: Batch, *, fresh: bool, **place: Any) -> None:
    """Record the batch, so that mistakes show here, and let another process run it."""
    name = yard.submit(batch, fresh=fresh)
    log = yard.batch_folder(name) / LOG
    modes.make_folder(log.parent)
    words = ["resume", name]
    for option_, value in place.items():
        words += [f"--{option_.replace('_', '-')}", str(value)] if value is not None else []
    words += ["--json"] if session.json else []
    words += ["--durable"] if session.durable else []
    with open(log, "a", opener=modes.opener) as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "runyard", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            # The address may contain a password, and everyone can see arguments.
            env={**os.environ, "PYTHONUNBUFFERED": "1", "RUNYARD_YARD": session.location},
        )
    session.answer(
        f"{name} is running in the background as process {process.pid}\n  output: {log}\n"
        f"  next: {session.command('status', name)}",
        {"batch": name, "pid": process.pid, "log": str(log)},
    )
    process.returncode = 0  # it outlives this process, which never waits for it
