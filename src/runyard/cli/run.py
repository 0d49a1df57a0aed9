"""`runyard run`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from runyard import modes
from runyard.cli.asking import fresh_options, may_forget
from runyard.cli.described import BatchArguments, batch_of
from runyard.cli.options import RUN_FLAGS, option_flags
from runyard.cli.running import (
    EXIT_FAILED,
    carry_out,
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
"""The file in the batch's folder that a detached run writes to."""


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
@click.option("--shell", metavar="COMMAND", help="Run this command; {x} inserts parameter x.")
@click.option("--set", "set_", metavar="K=V", multiple=True, help="Fix a parameter for all tasks.")
@click.option(
    "--grid",
    metavar="K=V,V,…",
    multiple=True,
    help="Run every combination of these values; also K=[…] as JSON and K=first..last.",
)
@click.option(
    "--replicates", type=click.IntRange(1), metavar="N", help="Run each combination N times."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="Set the root seed.  [default: chosen and recorded]",
)
@click.option("--name", help="Name the batch.  [default: derived from the batch]")
@click.option(
    "--common-random-numbers",
    is_flag=True,
    default=None,
    help="Give replicate N the same random numbers for all parameters.",
)
@click.option(
    "--codec", type=click.Choice(["msgpack", "pickle"]), help="Store values in this format."
)
@option_flags(RUN_FLAGS)
@click.option("--dry-run", is_flag=True, help="Show what would run, without running it.")
@click.option(
    "--try",
    "trial",
    type=click.IntRange(1),
    metavar="N",
    help="Run and record the next N tasks, then estimate the rest.",
)
@click.option("--detach", is_flag=True, help="Run in the background; print the pid and return.")
@fresh_options
@place_options
@shared
def run(session: Session, **given: Any) -> int:
    """Run a batch, or continue it.

    TARGET is module:function, path/file.py:function or a batch file (.toml). Repeat the command to
    continue after an interruption; recorded tasks are not run again.
    """
    place = {name: given.pop(name) for name in _PLACE}
    progress, fresh, yes = (given.pop(name) for name in ("progress", "fresh", "yes"))
    trial, ways = given.pop("trial"), {name: given.pop(name) for name in ("dry_run", "detach")}
    _refuse_both({**ways, "try": trial is not None})
    words = BatchArguments(set=given.pop("set_"), **{k: given.pop(k) for k in _WORDS})
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
    """Refuse flags that can't be combined."""
    chosen = [f"--{name.replace('_', '-')}" for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} can't be combined", hint="remove one of them")


_PLACE = ("backend", "workers", "ray_address", "fallback")
_WORDS = (
    "target", "shell", "grid", "replicates", "common_random_numbers", "seed", "name", "codec",
)  # fmt: skip


def _detach(session: Session, yard: Yard, batch: Batch, *, fresh: bool, **place: Any) -> int:
    """Record the batch, so that mistakes show here, and let another process run it."""
    name = yard.submit(batch, fresh=fresh)
    log = yard.batch_folder(name) / LOG
    modes.make_folder(log.parent)
    words = ["resume", name]
    for option, value in place.items():
        words += [f"--{option.replace('_', '-')}", str(value)] if value is not None else []
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
    session.say(f"{name} runs in the background as process {process.pid}")
    session.say(f"  output: {log}")
    session.say(f"  next: {session.command('status', name)}")
    session.document({"batch": name, "pid": process.pid, "log": str(log)})
    process.returncode = 0  # it outlives this process, which never waits for it
    return 0
