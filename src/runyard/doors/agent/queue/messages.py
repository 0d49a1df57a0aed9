"""Responses as text, in less than 3,000 characters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runyard.doors.agent.queue.model import BatchTask, Response, TaskStatus
from runyard.format import count
from runyard.spec.shown import json_text
from runyard.spec.status import FINAL_STATES

MOST = 2900
"""The most characters of a response."""

_RESULT = 400
"""The most characters of one result or error."""

_OUTPUT = 750
"""The most characters of each output stream of a failed task."""

_ENDED = frozenset(status.value for status in FINAL_STATES)
_LISTS = {"running": "running_tasks", "next": "next_tasks", "failed": "failures"}
"""The lists of a detailed status."""


def clipped(text: str, most: int = MOST) -> str:
    """Text that can be sent: valid Unicode, and not too long."""
    text = json_text(text)
    return text if len(text) <= most else text[: most - 40] + "\n… (the rest was left out)"


def ending(text: str, most: int) -> str:
    """The end of a text that is too long."""
    return text if len(text) <= most else f"… {text[2 - most :]}"


def first_line(response: Response) -> str:
    """The first line of a response."""
    return response.message.partition("\n")[0]


def added(data: Mapping[str, Any]) -> str:
    """The response to `add`."""
    text = f"added {data['task_id']} ({data['name']}, {data['function']}, {data['priority']})"
    if data["position"] is not None:
        text += f", position {data['position']} in the queue"
    return text if data["running"] else text + "; nothing is running yet: call start"


def added_many(data: Mapping[str, Any]) -> str:
    """The response to `add_batch`."""
    ids = data["task_ids"]
    span = "" if not ids else f": {ids[0]}" if len(ids) == 1 else f": {ids[0]} to {ids[-1]}"
    lines = [f"{count(data['added'], 'task')} added{span}; {data['refused']:,} refused"]
    lines += [f"  task {r['place']} ({r['name']}): {r['reason']}" for r in data["reasons"][:10]]
    if data["refused"] > 10:
        lines.append(f"  and {data['refused'] - 10:,} more")
    return "\n".join(lines)


def started(data: Mapping[str, Any]) -> str:
    """The response to `start`."""
    limit = f", for at most {data['timeout']:g} s" if data["timeout"] else ""
    return (
        f"started: {count(data['queued'], 'task')} in the background, "
        f"{data['max_concurrent']} at a time on {data['backend']}{limit} "
        f"(worker {data['pid']}); ask for status or results"
    )


def stopped(data: Mapping[str, Any]) -> str:
    """What `stop` says."""
    if not data["stopping"]:
        head = "nothing was running"
    elif data["graceful"]:
        running = data["running"]
        head = f"stopping, {running:,} still running" if running else "stopping"
    else:
        head = "stopped; running tasks were requeued"
    counts = (
        f"{data['completed']:,} completed, {data['failed']:,} failed, {data['queued']:,} queued"
    )
    return f"{head}: {counts}"


def cancelled(data: Mapping[str, Any]) -> str:
    """What `cancel` says."""
    if data["cancelled"]:
        return f"{data['task_id']} is {'' if data['status'] == 'cancelled' else 'being '}cancelled"
    return f"{data['task_id']} has already ended: {data['status']}"


def status(data: Mapping[str, Any]) -> str:
    """What `status` says of the queue."""
    is_finished = data["total_tasks"] and not data["queued"] and not data["running"]
    lines = [
        f"{'finished' if is_finished else data['state']}, "
        f"{data['progress_percentage']:.1f}% of {count(data['total_tasks'], 'task')} done: "
        f"{data['completed']:,} completed, {data['failed']:,} failed, "
        f"{data['cancelled']:,} cancelled, {data['running']:,} running, {data['queued']:,} queued",
        f"mean task time {data['average_task_time']:.3g} s, "
        f"mean wait {data['wait_time']['mean']:.3g} s, {data['rate']:.3g} tasks/s, "
        f"total time {data['total_execution_time']:.1f} s",
    ]
    if data["success_rate"] is not None:
        lines[1] += f", {100 * data['success_rate']:.1f}% succeeded"
    if data["estimated_time_remaining"] is not None:
        lines.append(f"about {data['estimated_time_remaining']:.1f} s left")
    used = data.get("resources")
    if used and data["state"] == "running":
        lines.append(
            f"{data['active_workers']} of {data['max_concurrent']} workers busy; "
            f"{used['memory_mb']} MB, {used['cpu_percent']}% CPU in {used['processes']} processes"
        )
    for title, name in _LISTS.items():
        lines += [f"  {title}: {_listed(each)}" for each in data.get(name, ())]
        left_out = data.get("left_out", {}).get(name)
        if left_out:
            lines.append(f"  and {left_out:,} more {title}")
    return "\n".join(lines)


def progress(data: Mapping[str, Any]) -> str:
    """The progress of tasks that are waited for."""
    counts = ", ".join(f"{data[each.value]:,} {each}" for each in TaskStatus if data[each.value])
    lines = [f"{count(data['total_tasks'], 'task')}: {counts}"]
    return "\n".join([*lines, *(f"  {_line(each)}" for each in data["tasks"])])


def brief(found: BatchTask) -> dict[str, Any]:
    """A task in brief."""
    error = None if found.error is None else clipped(found.error, 200)
    return {
        "task_id": found.task_id, "name": clipped(found.name, 80), "function": found.function,
        "status": str(found.status), "priority": found.priority.name.lower(), "error": error,
    }  # fmt: skip


def task(data: Mapping[str, Any]) -> str:
    """The status of one task."""
    lines = [_line(data)]
    if data.get("position") and not data.get("waits_for"):
        lines.append(f"position {data['position']} in the queue")
    if data.get("waits_for"):
        lines.append(f"waits for {count(data['waits_for'], 'task')}")
    if data["retry_count"]:
        lines.append(f"retries: {data['retry_count']} of {data['max_retries']}")
    if data["error"] and data["status"] not in _ENDED:
        lines.append(f"the last attempt failed: {_error(data)}")
    if data["execution_time"] is not None:
        lines.append(f"took {data['execution_time']:.3g} s, waited {data['wait_time']:.3g} s")
    if data["status"] == TaskStatus.FAILED:
        lines += _last_output(data)
    elif data["result"] is not None:
        lines.append(f"result: {clipped(json.dumps(data['result']), 2000)}")
    return "\n".join(lines)


def _last_output(data: Mapping[str, Any]) -> list[str]:
    """The ends of a failed task's output, and of its traceback unless the output has it."""
    printed = data["result"] if isinstance(data["result"], Mapping) else {}
    found = {name: str(printed.get(name) or "").rstrip() for name in ("stdout", "stderr")}
    trace = (data["trace"] or "").rstrip()
    if "\n" in trace and trace not in found["stderr"]:
        found["trace"] = trace
    return [f"{name}:\n{ending(text, _OUTPUT)}" for name, text in found.items() if text]


def results(page: Sequence[Mapping[str, Any]], kind: str) -> tuple[int, str]:
    """As many results as fit one response, and their number."""
    lines: list[str] = []
    room = MOST - 200
    for each in page:
        line = _compact(each) if kind == "json" else _result(each)
        room -= len(line) + 2
        if room < 0 and lines:
            break
        lines.append(line)
    body = f"[{','.join(lines)}]" if kind == "json" else "\n".join(lines)
    return len(lines), body if page else "no results"


def paged(text: str, following: int | None, found: int | None) -> str:
    """Results, and how to get the rest."""
    if following is None:
        return text
    of = "" if found is None else f" of {found:,}"
    return f"{text}\nmore{of}: call results with offset={following}"


def _result(data: Mapping[str, Any]) -> str:
    line = _line(data)
    if data["status"] == TaskStatus.FAILED and data["result"] is not None:
        line += f" (status {data['task_id']} shows its output)"
    elif data["result"] is not None:
        line += f" → {clipped(json.dumps(data['result']), _RESULT)}"
    return line


def _compact(data: Mapping[str, Any]) -> str:
    names = ("task_id", "name", "status", "execution_time", "result", "error")
    found = {name: data[name] for name in names}
    text = json.dumps(found)
    if len(text) > 2 * _RESULT:
        short = {n: clipped(json.dumps(found[n]), _RESULT) for n in ("result", "error") if found[n]}
        text = json.dumps({**found, **short, "clipped": True})
    return text


def _listed(data: Mapping[str, Any]) -> str:
    """A task of a detailed status, whose title names its state."""
    where = ""
    if data.get("waits_for"):
        where = f", waits for {count(data['waits_for'], 'task')}"
    elif data.get("position"):
        where = f", position {data['position']}"
    return _task(data) + _why(data) + where


def _line(data: Mapping[str, Any]) -> str:
    return f"{_task(data)} {data['status']}{_why(data)}"


def _task(data: Mapping[str, Any]) -> str:
    return f"{data['task_id']} {data['name']} ({data['function']})"


def _why(data: Mapping[str, Any]) -> str:
    return f": {_error(data)}" if data["status"] in _ENDED and data["error"] else ""


def _error(data: Mapping[str, Any]) -> str:
    """An error on one line."""
    return clipped("; ".join(part.strip() for part in data["error"].splitlines()), _RESULT)
