"""`runyard queue`: the agent's queue on the command line, a command for each action."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared
from runyard.cli.values import assignments, value_of
from runyard.errors import UsageError
from runyard.reports.formats import FORMATS
from runyard.spaces import read_text

if TYPE_CHECKING:
    from runyard.doors.agent.executor import BatchExecutor

PRIORITIES = ("low", "medium", "high", "critical")


@click.group(
    epilog=examples(
        "runyard queue add hello code_execution --set code='print(1)'",
        "runyard queue start --max-concurrent 5",
        "runyard queue wait",
        "runyard queue results",
    )
)
def queue() -> None:
    """A queue that agents and people add tasks to; a worker runs them in the background."""


def _queue_option(function: Any) -> Any:
    return click.option(
        "--queue", "name_of_queue", default="queue", show_default=True, help="Name of the queue."
    )(function)


@contextlib.contextmanager
def _opened(
    session: Session, name_of_queue: str, *, create: bool = False
) -> Iterator[BatchExecutor]:
    """Open the queue. Without a yard it is empty, and reading it makes none."""
    from runyard.doors.agent.executor import BatchExecutor
    from runyard.yard import Yard

    makes = create or session.has_yard()
    with session.yard(create=True) if makes else Yard("memory:") as yard:
        yield BatchExecutor(yard, queue=name_of_queue)


def _perform(session: Session, name_of_queue: str, action: str, **arguments: Any) -> int:
    with _opened(session, name_of_queue, create=action.startswith("add")) as executor:
        response = executor.perform(action, **arguments)
    session.say(response.message)
    session.document(response.data)
    return 0


@queue.command(
    epilog=examples(
        "runyard queue add hello code_execution --set code='print(1)' --priority high",
        "runyard queue add nap simulate --set duration=2 --depends-on queue/0",
    )
)
@click.argument("name")
@click.argument("function")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="A parameter; repeatable.")
@click.option("--params", help="All parameters as one JSON object.")
@click.option("--priority", default="medium", show_default=True, help=", ".join(PRIORITIES))
@click.option("--max-retries", default="3", show_default=True, help="Retries after a failure.")
@click.option("--timeout", help="Time limit of an attempt: 30s, 5m.")
@click.option(
    "--depends-on", multiple=True, metavar="TASK", help="Run after this task; repeatable."
)
@_queue_option
@shared
def add(
    session: Session,
    name_of_queue: str,
    sets: tuple[str, ...],
    params: str | None,
    depends_on: tuple[str, ...],
    **task: Any,
) -> int:
    """Add one task: FUNCTION with parameters, under a NAME."""
    given = {name: value_of(text) for name, text in assignments(sets, "--set").items()}
    if params is not None and given:
        raise UsageError("--params and --set can't be combined", hint="use one of the two")
    return _perform(
        session, name_of_queue, "add", params=params or given, depends_on=list(depends_on), **task
    )


@queue.command(
    "add-batch",
    epilog=examples("runyard queue add-batch tasks.json", "… | runyard queue add-batch -"),
)
@click.argument("file", type=click.Path(allow_dash=True))
@_queue_option
@shared
def add_batch(session: Session, name_of_queue: str, file: str) -> int:
    """Add the tasks of a JSON FILE; - reads stdin.

    FILE holds a list of objects with `name`, `function`, `params` and other arguments of `add`.
    """
    try:
        tasks = json.loads(read_text(sys.stdin if file == "-" else Path(file)))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} can't be read: {error}", hint="give a JSON list") from error
    return _perform(session, name_of_queue, "add_batch", tasks=tasks)


@queue.command(epilog=examples("runyard queue start", "runyard queue start --max-concurrent 20"))
@click.option("--max-concurrent", default="5", show_default=True, help="Tasks at a time.")
@click.option("--timeout", help="Time limit of the whole run: 10m, 2h.")
@click.option("--backend", help="processes, async, threads or serial.")
@_queue_option
@shared
def start(session: Session, name_of_queue: str, **arguments: Any) -> int:
    """Run the queue in the background."""
    return _perform(session, name_of_queue, "start", **arguments)


@queue.command(epilog=examples("runyard queue stop", "runyard queue stop --now"))
@click.option("--now", is_flag=True, help="Don't wait for running tasks; requeue them.")
@_queue_option
@shared
def stop(session: Session, name_of_queue: str, now: bool) -> int:
    """Stop the worker after the running tasks."""
    return _perform(session, name_of_queue, "stop", graceful=not now)


@queue.command(epilog=examples("runyard queue status", "runyard queue status queue/0"))
@click.argument("task_id", metavar="[TASK]", required=False)
@click.option("--detailed", is_flag=True, help="List running, upcoming and failed tasks.")
@_queue_option
@shared
def status(session: Session, name_of_queue: str, **arguments: Any) -> int:
    """Show the status of the queue, or of one task."""
    return _perform(session, name_of_queue, "status", **arguments)


@queue.command(
    epilog=examples(
        "runyard queue wait",
        "runyard queue wait --timeout 30s",
        "runyard queue wait queue/3 queue/4 && runyard queue results --order latest",
    )
)
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@click.option("--timeout", help="Wait at most this long: 30s, 5m.  [default: no limit]")
@_queue_option
@shared
def wait(session: Session, name_of_queue: str, tasks: tuple[str, ...], timeout: str | None) -> int:
    """Wait until the queue, or the given TASKs, are done.

    Exit code 0: all completed; 1: some failed or were cancelled; 3: nothing is running and some
    are still queued; 124: the timeout is over.
    """
    from runyard.cli.waiting import wait_for

    with _opened(session, name_of_queue) as executor:
        return wait_for(session, executor, tasks, timeout)


@queue.command(
    epilog=examples(
        "runyard queue results",
        "runyard queue results --status failed",
        "runyard queue results --order latest --limit 5",
    )
)
@click.option(
    "--status", "filter_status", help="Only tasks with this status: completed, failed, cancelled, …"
)
@click.option(
    "--order",
    default="added",
    show_default=True,
    help="added, ended (earliest end first) or latest (latest end first).",
)
@click.option("--offset", default="0", show_default=True, help="Results to skip.")
@click.option("--limit", default="20", show_default=True, help="The most results to show.")
@_queue_option
@shared
def results(session: Session, name_of_queue: str, **arguments: Any) -> int:
    """Show results, a page at a time."""
    return _perform(session, name_of_queue, "results", **arguments)


@queue.command(epilog=examples("runyard queue export --format csv"))
@click.option(
    "--format", type=click.Choice(list(FORMATS)), default="json", show_default=True,
    help="Format of the file.",
)  # fmt: skip
@click.option("--output-file", help="A file name; files go to the yard's export folder.")
@_queue_option
@shared
def export(session: Session, name_of_queue: str, **arguments: Any) -> int:
    """Write all results to a file."""
    return _perform(session, name_of_queue, "export", **arguments)


@queue.command(epilog=examples("runyard queue clear"))
@_queue_option
@shared
def clear(session: Session, name_of_queue: str) -> int:
    """Remove the tasks that have ended."""
    return _perform(session, name_of_queue, "clear")


@queue.command(epilog=examples("runyard queue cancel queue/3"))
@click.argument("task_id", metavar="TASK")
@_queue_option
@shared
def cancel(session: Session, name_of_queue: str, task_id: str) -> int:
    """Cancel a task, running or not."""
    return _perform(session, name_of_queue, "cancel", task_id=task_id)


@queue.command(
    "install-agent-zero", epilog=examples("runyard queue install-agent-zero ~/agent-zero")
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@shared
def install_agent_zero(session: Session, folder: str) -> int:
    """Write the plugin for Agent Zero into DIR.

    It consists of the tool, the prompt that explains it, and the manifest.
    """
    from runyard.doors.agent.server.agent_zero import install

    written = [str(path) for path in install(Path(folder), session.location)]
    session.say("\n".join(["written:", *(f"  {path}" for path in written)]))
    session.document({"written": written})
    return 0
