"""`runyard logs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from runyard.attempt.kept import STREAMS
from runyard.cli.command import INDEX, command, option
from runyard.cli.session import Session, style
from runyard.cli.values import task_of
from runyard.errors import NotFound, UsageError
from runyard.plaintext import one_line

if TYPE_CHECKING:
    from runyard.yard import Yard

ELSEWHERE = "too long for the store; see the file on the machine that ran the task"


@command(
    "runyard logs walks/17",
    "runyard logs walks/17 --attempt 0",
    "runyard logs walks/17 --only stdout",
    "runyard logs walks/17 --raw > out.txt",
)
@click.argument("task")
@option("--attempt", type=INDEX, help="Show only this attempt, counted from 0.")
@option(
    "--only", type=click.Choice([*STREAMS, "events"]), help="Print only this stream, unformatted."
)
@option("--raw", is_flag=True, help="Print the exact bytes, stdout to stdout and stderr to stderr.")
def logs(session: Session, task: str, attempt: int | None, only: str | None, raw: bool) -> None:
    """Show what a task printed and its events.

    TASK is BATCH/NUMBER. Control characters are shown as escapes such as \\x1b, so that output
    can't control the terminal; --raw prints them unchanged.
    """
    from runyard.reports.story import task_story

    if raw and (session.json or only == "events"):
        raise UsageError(
            "--raw can't be combined with --json or --only events", hint="remove one of them"
        )
    name, number = task_of(task)
    with session.yard() as yard:
        recorded = yard.recorded(name)
        printed, events = yard.printed(name, number), yard.events(name, task=number)
        story = task_story(yard.store, recorded, number, printed, events, attempt)
        if raw:
            _print_raw(session, yard, name, number, attempt, only)
            return
    if only is None:
        session.answer("\n".join(_lines(story)), story)
        return
    texts = [each[only] for each in story["attempts"]] if only in STREAMS else []
    data = None if None in texts else "".join(texts)
    document = {"task": story["task"], "status": story["status"]}
    session.document(document | {only: story["events"] if only == "events" else data})
    if only == "events":
        for event in story["events"]:
            session.say(_event_line(event))
    elif data is None and not session.json:
        raise NotFound(f"{only} of {story['task']} is {ELSEWHERE}")
    elif data:
        session.say(data, newline=False)


def _print_raw(
    session: Session, yard: Yard, name: str, number: int, attempt: int | None, only: str | None
) -> None:
    from runyard.reports.printed import printed_bytes

    with yard.store.snapshot() as view:
        batch = yard.recorded(name).id
        found = printed_bytes(view, batch, yard.batch_folder(name), number)
    for own, streams in sorted(found.items()):
        for stream, kept in zip(STREAMS, streams, strict=True):
            if attempt in (None, own) and only in (None, stream):
                if kept is None:
                    raise NotFound(f"{stream} of {name}/{number} is {ELSEWHERE}")
                session.pass_on(kept, err=only is None and stream == "stderr")


def _lines(story: dict[str, Any]) -> list[str]:
    labels = one_line(" ".join(f"{name}={value}" for name, value in story["labels"].items()))
    lines = [f"{style(story['task'], bold=True)}  {story['status']}  {labels}".rstrip()]
    for attempt in story["attempts"]:
        why = f": {attempt['error']}" if attempt["error"] else ""
        lines.append(style(f"attempt {attempt['attempt']}{why}", bold=True))
        for name in STREAMS:
            text = f"({ELSEWHERE})" if attempt[name] is None else attempt[name]
            if text:
                lines += [style(f"  {name}", dim=True), *_indented(text)]
    if not any(attempt[name] != "" for attempt in story["attempts"] for name in STREAMS):
        lines.append("  no output was kept")
    if story["error"]:
        error = f"{story['error']['kind']}: {story['error']['message']}"
        trace = story["error"]["trace"].rstrip()
        head = [] if trace.endswith(error) else [style(error, fg="red")]
        lines += [*head, *_indented(trace)]
    if story["events"]:
        lines += [
            style("events", bold=True),
            *(f"  {_event_line(event)}" for event in story["events"]),
        ]
    return lines


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]


def _event_line(event: dict[str, Any]) -> str:
    left_out = {"seq", "prev", "hash", "event", "at", "batch", "task"}
    told = "  ".join(f"{k}={v}" for k, v in event.items() if k not in left_out)
    at = event.get("at")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else ""
    return "  ".join([clock, one_line(str(event.get("event", ""))), one_line(told)]).rstrip()
