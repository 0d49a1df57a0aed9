"""`runyard queue …`: a command for each action of the agent's queue."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard import interrupts
from runyard.cli.command import command, examples_of, option, refuse_together, yes_option
from runyard.cli.exit_codes import EXIT_DEADLINE, EXIT_ENGINE, EXIT_FAILED
from runyard.cli.session import Session
from runyard.cli.values import assignments, value_of
from runyard.doors.agent.inputs.arguments import DEFAULT_QUEUE, duration
from runyard.errors import UsageError
from runyard.format import count
from runyard.reports.formats import FORMATS
from runyard.spaces import read_text

if TYPE_CHECKING:
    from runyard.doors.agent.executor import BatchExecutor

PRIORITIES = "low, medium, high, critical"

queue_option = option(
    "--queue",
    "name_of_queue",
    metavar="NAME",
    default=DEFAULT_QUEUE,
    help="Use the queue of this name.",
)


@click.group(
    epilog=examples_of(
        "runyard queue add hello code_execution --set code='print(1)'",
        "runyard queue start --max-concurrent 5",
        "runyard queue wait",
        "runyard queue results",
    )
)
def queue() -> None:
    """A queue that agents and people add tasks to; a worker runs them in the background."""


@contextlib.contextmanager
def opened(session: Session, name: str, *, create: bool = False) -> Iterator[BatchExecutor]:
    """Open the queue. Without a yard it is empty, and reading it makes none."""
    from runyard.doors.agent.executor import BatchExecutor

    with session.yard(create=create, or_empty=True) as yard:
        yield BatchExecutor(yard, queue=name)


def _perform(session: Session, name_of_queue: str, action: str, **arguments: Any) -> None:
    with opened(session, name_of_queue, create=action.startswith("add")) as executor:
        response = executor.perform(action, **arguments)
    session.answer(response.message, response.data)


@command(
    "runyard queue add hello code_execution --set code='print(1)' --priority high",
    "runyard queue add nap simulate --set duration=2 --depends-on queue/0",
    group=queue,
)
@click.argument("name")
@click.argument("function")
@option("--set", "sets", multiple=True, metavar="K=V", help="Set a parameter; repeatable.")
@option("--params", help="Set all parameters as one JSON object.")
@option("--priority", default="medium", help=f"Run with this priority: {PRIORITIES}.")
@option("--max-retries", metavar="N", default="3", help="Retry up to N times after a failure.")
@option("--timeout", metavar="TIME", help="Limit the time of an attempt: 30s, 5m.")
@option("--depends-on", multiple=True, metavar="TASK", help="Run after this task; repeatable.")
@queue_option
def add(
    session: Session,
    sets: tuple[str, ...],
    params: str | None,
    depends_on: tuple[str, ...],
    **task: Any,
) -> None:
    """Add a task named NAME that calls FUNCTION."""
    given = {name: value_of(text) for name, text in assignments(sets, "--set").items()}
    refuse_together({"--params": params is not None, "--set": given})
    _perform(session, action="add", params=params or given, depends_on=list(depends_on), **task)


@command(
    "runyard queue add-batch tasks.json",
    "… | runyard queue add-batch -",
    name="add-batch",
    group=queue,
)
@click.argument("file", type=click.Path(allow_dash=True))
@queue_option
def add_batch(session: Session, name_of_queue: str, file: str) -> None:
    """Add the tasks in a JSON FILE; - reads stdin.

    FILE holds a list of objects with `name`, `function`, `params` and other arguments of `add`.
    """
    try:
        tasks = json.loads(read_text(sys.stdin if file == "-" else Path(file)))
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} is not valid JSON: {error}", hint="pass a JSON list of tasks"
        ) from error
    _perform(session, name_of_queue, "add_batch", tasks=tasks)


@command("runyard queue start", "runyard queue start --max-concurrent 20", group=queue)
@option("--max-concurrent", metavar="N", default="5", help="Run N tasks at a time.")
@option("--timeout", metavar="TIME", help="Limit the time of the whole run: 10m, 2h.")
@option("--backend", help="Run on this backend: processes, async, threads or serial.")
@queue_option
def start(session: Session, **arguments: Any) -> None:
    """Run the queue in the background."""
    _perform(session, action="start", **arguments)


@command("runyard queue stop", "runyard queue stop --now", group=queue)
@option("--now", is_flag=True, help="Don't wait for running tasks; requeue them.")
@queue_option
def stop(session: Session, name_of_queue: str, now: bool) -> None:
    """Stop the worker once its running tasks end."""
    _perform(session, name_of_queue, "stop", graceful=not now)


@command("runyard queue status", "runyard queue status queue/0", group=queue)
@click.argument("task_id", metavar="[TASK]", required=False)
@option("--detailed", is_flag=True, help="List running, upcoming and failed tasks.")
@queue_option
def status(session: Session, **arguments: Any) -> None:
    """Show the status of the queue, or of one task."""
    _perform(session, action="status", **arguments)


@command(
    "runyard queue wait",
    "runyard queue wait --timeout 30s",
    "runyard queue wait queue/3 queue/4 && runyard queue results --order latest",
    group=queue,
)
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@option("--timeout", metavar="TIME", help="Wait at most this long: 30s, 5m.  [default: no limit]")
@queue_option
def wait(session: Session, name_of_queue: str, tasks: tuple[str, ...], timeout: str | None) -> int:
    """Wait until the queue or the given TASKs are done.

    Exit code 0: all completed; 1: some failed or were cancelled; 3: no worker is running and
    tasks are still queued; 124: timed out.
    """
    from runyard.doors.agent.queue.watching import Watch
    from runyard.reports.progress import show

    seconds = None if timeout is None else duration(timeout, "timeout")
    with opened(session, name_of_queue) as executor:
        watch = Watch(executor.yard.bus, name_of_queue)
        with show(executor.yard.bus, None), interrupts.by_asyncio():
            waiting = executor.perform_wait(seconds, watch.see, tasks=list(tasks) or None)
            response = asyncio.run(waiting)
            watch.end(response)
    data = response.data
    session.answer(response.message, data)
    if data["state"] == "running":
        session.note(f"{name_of_queue} is not finished after {timeout}")
        return EXIT_DEADLINE
    if data["queued"]:
        own_name = [] if name_of_queue == DEFAULT_QUEUE else ["--queue", name_of_queue]
        start = session.command("queue", "start", *own_name)
        session.note(f"no worker is running; start one with `{start}`")
        return EXIT_ENGINE
    return EXIT_FAILED if data["failed"] or data["cancelled"] else 0


@command(
    "runyard queue results",
    "runyard queue results --status failed",
    "runyard queue results --order latest --limit 5",
    group=queue,
)
@option(
    "--status",
    "filter_status",
    help="Show only tasks with this status: completed, failed, cancelled, …",
)
@option(
    "--order",
    default="added",
    help="Sort by added, ended (earliest end first) or latest (latest end first).",
)
@option("--offset", metavar="N", default="0", help="Skip the first N results.")
@option("--limit", metavar="N", default="20", help="Show at most N results.")
@queue_option
def results(session: Session, **arguments: Any) -> None:
    """Show results, a page at a time."""
    _perform(session, action="results", **arguments)


@command("runyard queue export --format csv", group=queue)
@option("--format", type=click.Choice(list(FORMATS)), default="json", help="Write this format.")
@option("--output-file", help="Write to this file in the yard's export folder.")
@queue_option
def export(session: Session, **arguments: Any) -> None:
    """Write all results to a file."""
    _perform(session, action="export", **arguments)


@command("runyard queue clear", "runyard queue clear --yes", group=queue)
@yes_option
@queue_option
def clear(session: Session, name_of_queue: str, yes: bool) -> int:
    """Remove the tasks that have ended."""
    from runyard.doors.agent.queue.waiting import done

    with opened(session, name_of_queue) as executor:
        ended = done(executor.perform("status").data)
        loss = f"this would delete {count(ended, 'ended task')} of {name_of_queue}"
        if ended and not yes and not session.confirm_loss(loss):
            return EXIT_FAILED
        response = executor.perform("clear")
    session.answer(response.message, response.data)
    return 0


@command("runyard queue cancel queue/3", group=queue)
@click.argument("task_id", metavar="TASK")
@queue_option
def cancel(session: Session, **arguments: Any) -> None:
    """Cancel a task, running or not."""
    _perform(session, action="cancel", **arguments)


@command("runyard queue install-agent-zero ~/agent-zero", name="install-agent-zero", group=queue)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
def install_agent_zero(session: Session, folder: str) -> None:
    """Write the Agent Zero plugin into DIR.

    It consists of the tool, the prompt that explains it, and the manifest.
    """
    from runyard.doors.agent.server.agent_zero import install

    written = [str(path) for path in install(Path(folder), session.location)]
    session.answer("\n  ".join(["written:", *written]), {"written": written})
