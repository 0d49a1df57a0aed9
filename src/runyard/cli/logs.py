"""`runyard logs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from runyard.cli.session import Session, examples, shared, style
from runyard.cli.tasks import batch_with, task_of
from runyard.errors import NotFound, UsageError
from runyard.plaintext import one_line

if TYPE_CHECKING:
    from runyard.reports.printed import TaskOutput
    from runyard.store.rows import AttemptRow
    from runyard.yard import Yard

STREAMS = ("stdout", "stderr")
ELSEWHERE = "too long for the store; see the file on the machine that ran the task"


@click.command(
    epilog=examples(
        "runyard logs walks/17",
        "runyard logs walks/17 --attempt 0",
        "runyard logs walks/17 --only stdout",
        "runyard logs walks/17 --raw > out.txt",
    )
)
@click.argument("task")
@click.option(
    "--attempt", type=click.IntRange(0), metavar="N", help="Show only this attempt, counted from 0."
)
@click.option(
    "--only", type=click.Choice([*STREAMS, "events"]), help="Print only this stream, unformatted."
)
@click.option(
    "--raw",
    is_flag=True,
    help="Print the exact bytes, stdout to stdout and stderr to stderr.",
)
@shared
def logs(session: Session, task: str, attempt: int | None, only: str | None, raw: bool) -> int:
    """Show what a task printed and its events.

    TASK is BATCH/NUMBER. Control characters are shown as escapes such as \\x1b, so that output
    can't control the terminal; --raw prints them unchanged.
    """
    if raw and (session.json or only == "events"):
        raise UsageError(
            "--raw can't be combined with --json or --only events", hint="remove one of them"
        )
    name, number = task_of(task)
    with session.yard() as yard:
        story = _story(yard, name, number, attempt)
        if raw:
            _print_raw(session, yard, name, number, attempt, only)
            return 0
    if only is not None:
        story = {"task": story["task"], "status": story["status"]} | _only(story, only)
    session.document(story)
    if session.json:
        return 0
    if only is None:
        _show(session, story)
    else:
        _show_only(session, story, only)
    return 0


def _print_raw(
    session: Session, yard: Yard, name: str, number: int, attempt: int | None, only: str | None
) -> None:
    from runyard.reports.printed import printed_bytes

    recorded = batch_with(yard, name, number)
    with yard.store.snapshot() as view:
        found = printed_bytes(view, recorded.id, yard.batch_folder(name), number)
    for own, streams in sorted(found.items()):
        for stream, kept in zip(STREAMS, streams, strict=True):
            if attempt in (None, own) and only in (None, stream):
                if kept is None:
                    raise NotFound(f"{stream} of {name}/{number} is {ELSEWHERE}")
                session.pass_on(kept, err=only is None and stream == "stderr")


def _story(yard: Yard, name: str, number: int, attempt: int | None) -> dict[str, Any]:
    from runyard.spec.outcome import ErrorInfo
    from runyard.spec.shown import jsonable
    from runyard.spec.status import Status

    recorded = batch_with(yard, name, number)
    with yard.store.snapshot() as view:
        row = recorded.outcome(view, number)
        earlier = view.attempts(recorded.id, number)
        labels = recorded.labels(view, number)
    attempts = _attempts(yard.printed(name, number), earlier, attempt)
    if attempt is not None and not attempts and (row is None or row.attempt != attempt):
        raise NotFound(f"{name}/{number} has no attempt {attempt}")
    error = None if row is None or row.error is None else ErrorInfo.decode(row.error)
    return {
        "task": f"{name}/{number}",
        "status": "unfinished" if row is None else str(Status.of(row.status)),
        "labels": jsonable(labels),
        "seconds": None if row is None else row.seconds,
        "error": None if error is None else error._asdict(),
        "attempts": attempts,
        "events": [
            event
            for event in yard.events(name, task=number)
            if attempt is None or event.get("attempt", attempt) == attempt
        ],
    }


def _attempts(
    printed: dict[int, TaskOutput], earlier: list[AttemptRow], wanted: int | None
) -> list[dict[str, Any]]:
    """What each attempt printed, and the errors of all but the last."""
    from runyard.reports.printed import TaskOutput
    from runyard.spec.outcome import ErrorInfo

    errors: dict[int, str] = {}
    own = 0
    for row in earlier:
        info = ErrorInfo.decode(row.error)
        errors[own] = f"{info.kind}: {info.message}"
        own += 1 - row.crash
    return [
        {"attempt": n, "error": errors.get(n), **printed.get(n, TaskOutput())._asdict()}
        for n in sorted(printed.keys() | errors.keys())
        if wanted in (None, n)
    ]


def _only(story: dict[str, Any], only: str) -> dict[str, Any]:
    if only == "events":
        return {"events": story["events"]}
    texts = [attempt[only] for attempt in story["attempts"]]
    return {only: None if None in texts else "".join(texts)}


def _show_only(session: Session, story: dict[str, Any], only: str) -> None:
    if only == "events":
        for event in story["events"]:
            session.say(_event_line(event))
    elif story[only] is None:
        raise NotFound(f"{only} of {story['task']} is {ELSEWHERE}")
    elif story[only]:
        session.say(story[only], newline=False)


def _show(session: Session, story: dict[str, Any]) -> None:
    labels = one_line(" ".join(f"{name}={value}" for name, value in story["labels"].items()))
    session.say(f"{style(story['task'], bold=True)}  {story['status']}  {labels}".rstrip())
    for attempt in story["attempts"]:
        why = f": {attempt['error']}" if attempt["error"] else ""
        session.say(style(f"attempt {attempt['attempt']}{why}", bold=True))
        for name in STREAMS:
            text = f"({ELSEWHERE})" if attempt[name] is None else attempt[name]
            if text:
                session.say(style(f"  {name}", dim=True))
                session.say("\n".join(f"    {line}" for line in text.splitlines()))
    if not any(attempt[name] != "" for attempt in story["attempts"] for name in STREAMS):
        session.say("  no output was kept")
    if story["error"]:
        session.say(style(f"{story['error']['kind']}: {story['error']['message']}", fg="red"))
        if story["error"]["trace"]:
            session.say("\n".join(f"    {line}" for line in story["error"]["trace"].splitlines()))
    if story["events"]:
        session.say(style("events", bold=True))
        for event in story["events"]:
            session.say(f"  {_event_line(event)}")


def _event_line(event: dict[str, Any]) -> str:
    left_out = {"seq", "prev", "hash", "event", "at", "batch", "task"}
    told = "  ".join(f"{k}={v}" for k, v in event.items() if k not in left_out)
    at = event.get("at")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else ""
    return "  ".join([clock, one_line(str(event.get("event", ""))), one_line(told)]).rstrip()
