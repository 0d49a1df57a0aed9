"""The one tool that an agent has: nine actions on a queue.

`execute` is for asyncio programs and never blocks their loop; `execute_sync` is its twin for
scripts. Both answer whatever they are sent: a call that can't be read gets a sentence that says
how to call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from runyard import clock
from runyard.backends import NAMES, backend_class
from runyard.doors.agent import arguments as read
from runyard.doors.agent import words
from runyard.doors.agent.arguments import BadCall, Wanted
from runyard.doors.agent.exports import FORMATS, export
from runyard.doors.agent.figures import figures, resources
from runyard.doors.agent.launch import backend_for, launch
from runyard.doors.agent.ledger import NAME, Ledger, Refused, one_line
from runyard.doors.agent.model import BatchStats, BatchTask, Response, TaskStatus
from runyard.doors.agent.queue import cancel
from runyard.errors import RunyardError
from runyard.events import Redactor
from runyard.spec.status import FINAL_STATES
from runyard.store.base import Transaction
from runyard.store.recorded import Recorded, encode_options
from runyard.yard import Yard

MOST_LANES = 4096
MOST_PAGE = 200
TICK = 0.25
"""How often `wait` looks."""

Heard = Callable[[int, int, str], Awaitable[None]]


class Action(NamedTuple):
    """How an action is carried out, and what it takes."""

    do: Callable[..., Response]
    names: Sequence[str]


class BatchExecutor:
    """Queues work, runs it in parallel in the background, and collects results."""

    def __init__(self, yard: Yard | str | Path | None = None, *, queue: str = NAME) -> None:
        """Use the queue of this name in a yard (default: `$RUNYARD_YARD`, else `.runyard`)."""
        self.yard = yard if isinstance(yard, Yard) else Yard(yard)
        self._owns_yard = not isinstance(yard, Yard)
        self.ledger = Ledger(self.yard, queue)
        self._redactor = Redactor()
        self._actions = {
            "add": Action(self._add, read.TASK_FIELDS),
            "add_batch": Action(self._add_batch, ("tasks",)),
            "start": Action(self._start, ("max_concurrent", "timeout", "backend")),
            "stop": Action(self._stop, ("graceful",)),
            "status": Action(self._status, ("detailed", "task_id")),
            "results": Action(self._results, ("format", "filter_status", "offset", "limit")),
            "export": Action(self._export, ("format", "output_file")),
            "clear": Action(self._clear, ()),
            "cancel": Action(self._cancel, ("task_id",)),
        }

    @property
    def actions(self) -> list[str]:
        """The names of the nine actions."""
        return list(self._actions)

    async def execute(self, action: str, /, **arguments: Any) -> Response:
        """Carry out an action in a thread; an error is an answer too."""
        return await asyncio.to_thread(self.execute_sync, action, **arguments)

    def execute_sync(self, action: str, /, **arguments: Any) -> Response:
        """Carry out an action; an error is an answer too."""
        try:
            return self.perform(action, **arguments)
        except RunyardError as error:
            return self._refusal(type(error).__name__, error.message, error.hint)
        except Exception as error:  # an agent can't read a traceback
            problem = f"unexpected {type(error).__name__}: {error}"
            return self._refusal(type(error).__name__, problem, "this should not happen")

    def _refusal(self, kind: str, problem: str, hint: str | None) -> Response:
        shown = self._redactor.redact_text(problem)
        data = {"error": kind, "message": shown, "hint": hint}
        text = f"error: {shown}\n{hint}" if hint else f"error: {shown}"
        return Response(words.clipped(text), data=data, ok=False)

    async def wait(self, seconds: float = 60.0, heard: Heard | None = None) -> Response:
        """Wait until the queue is done or nothing runs, at most so long; its status then.

        `heard` is told how many tasks have ended, how many there are, and that in words.
        """
        until = clock.monotonic() + seconds
        while True:
            response = await asyncio.to_thread(self.perform, "status")
            data = response.data
            done = sum(data.get(status.value, 0) for status in FINAL_STATES)
            if heard is not None:
                await heard(done, data["total_tasks"], response.message.partition("\n")[0])
            is_over = data["state"] != "running" or done == data["total_tasks"]
            if is_over or clock.monotonic() >= until:
                return response
            await asyncio.sleep(TICK)

    def perform(self, action: str, /, **arguments: Any) -> Response:
        """Carry out an action, or raise what is wrong with the call."""
        name = str(action).strip().lower().replace("-", "_").replace(" ", "_")
        found = self._actions.get(name)
        if found is None:
            raise BadCall(
                f"there is no action {str(action)[:60]!r}",
                hint=f"use one of: {', '.join(self._actions)}",
            )
        response = found.do(**read.known(name, arguments, found.names))
        message = words.clipped(self._redactor.redact_text(response.message))
        if name == "add_batch":  # ids by the thousand are no secrets
            return Response(message, data=response.data)
        return Response(message, data=self._redactor.redact(response.data))

    def close(self) -> None:
        """Let go of the yard; what was started goes on."""
        if self._owns_yard:
            self.yard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Work in

    def _add(self, **task: Any) -> Response:
        added = self.ledger.add([read.task_of(task)])
        if added.refused:
            raise BadCall(added.refused[0].reason)
        number = added.numbers[0]
        with self.yard.store.snapshot() as view:
            row = self.ledger.row(view)
            engines = self.ledger.engines(view, row)
            seen = self.ledger.task(view, row, number)
            queued = view.queued(row.id, number)
            under_way = self.ledger.under_way(row, engines)
            position = None if queued is None else self.ledger.position(view, queued, under_way)
        data = {
            "task_id": seen.task_id, "name": seen.name, "function": seen.function,
            "priority": seen.priority.name.lower(), "position": position,
            "status": str(seen.status), "running": bool(engines),
        }  # fmt: skip
        return Response(words.added(data), data=data)

    def _add_batch(self, tasks: Any = None) -> Response:
        given = read.tasks(tasks)
        added = self.ledger.add(_wanted(at, each) for at, each in enumerate(given))
        ids = [self.ledger.id_of(number) for number in added.numbers]
        data = {
            "added": len(ids), "refused": len(added.refused), "task_ids": ids,
            "reasons": [each._asdict() for each in added.refused],
        }  # fmt: skip
        return Response(words.added_many(data), data=data)

    # Run

    def _start(self, max_concurrent: Any = 5, timeout: Any = None, backend: Any = None) -> Response:
        lanes = read.whole(max_concurrent, "max_concurrent", 1, MOST_LANES)
        deadline = None if timeout is None else read.duration(timeout, "timeout")
        place = backend_for(lanes) if backend is None else read.choice(backend, "backend", NAMES)
        backend_class(place)
        with self.yard.store.snapshot() as view:
            now = figures(self.ledger, view)
        own = self.ledger.own(now.engines)
        if own:
            return self._answer_running(sum(e.workers for e in own), now.row.pending)
        if not now.row.pending:
            return Response("nothing is queued: add tasks first", data={"started": False})

        def set_deadline(tx: Transaction) -> None:
            options = msgspec.structs.replace(Recorded(now.row).options, deadline=deadline)
            tx.update_batch(now.row.id, options=encode_options(options), control=None)

        self.yard.store.write(set_deadline)
        told = launch(self.ledger, lanes, place)
        if told["pid"] is None:  # somebody else was faster
            return self._answer_running(lanes, now.row.pending)
        data = {
            "started": True, "pid": told["pid"], "max_concurrent": lanes, "backend": place,
            "timeout": deadline, "queued": now.row.pending, "log": told["log"],
        }  # fmt: skip
        return Response(words.started(data), data=data)

    @staticmethod
    def _answer_running(lanes: int, pending: int) -> Response:
        data = {"started": False, "running": True, "max_concurrent": lanes, "unfinished": pending}
        return Response(f"already running, {lanes} at a time; {pending:,} unfinished", data=data)

    def _stop(self, graceful: Any = True) -> Response:
        wait = read.yes_or_no(graceful, "graceful")

        def ask(tx: Transaction) -> int:
            engines = self.ledger.engines(tx, self.ledger.row(tx))
            for engine in engines:
                tx.update_engine(engine.id, stop=1 if wait else 2)
            return len(engines)

        asked = self.yard.store.write(ask)
        if asked and not wait:
            self._await_end()
        with self.yard.store.snapshot() as view:
            stats = figures(self.ledger, view).stats
        data = {
            "stopping": bool(asked), "graceful": wait, "completed": stats.completed,
            "failed": stats.failed, "queued": stats.queued, "running": stats.running,
        }  # fmt: skip
        return Response(words.stopped(data), data=data)

    def _await_end(self, seconds: float = 10.0) -> None:
        import time

        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self.yard.store.snapshot() as view:
                if not self.ledger.engines(view, self.ledger.row(view)):
                    return
            time.sleep(0.05)

    # Look

    def _status(self, detailed: Any = False, task_id: Any = None) -> Response:
        if task_id is not None:
            return self._task_status(self.ledger.number_of(read.text(task_id, "task_id")))
        is_detailed = read.yes_or_no(detailed, "detailed")
        with self.yard.store.snapshot() as view:
            if view.batch(self.ledger.name) is None:
                data = {"state": "stopped", **BatchStats().document()}
                return Response("the queue is empty", data=data)
            now = figures(self.ledger, view)
            data = {**now.document(), "resources": resources(now.engines)}
            if is_detailed:
                data["running_tasks"] = [
                    words.brief(self.ledger.task(view, now.row, number, now.under_way))
                    for number in sorted(now.under_way)[:10]
                ]
                failed = self.ledger.tasks(view, now.row, TaskStatus.FAILED, 0, 5)
                data["failures"] = [words.brief(task) for task in failed]
                data["functions"] = self.ledger.functions.names
        return Response(words.status(data), data=data)

    def _task_status(self, number: int) -> Response:
        with self.yard.store.snapshot() as view:
            row = self.ledger.row(view)
            task = self.ledger.task(view, row, number)
            data = task.document()
            queued = view.queued(row.id, number)
            if queued is not None and task.status is TaskStatus.QUEUED:
                under_way = self.ledger.under_way(row, self.ledger.engines(view, row))
                data["position"] = self.ledger.position(view, queued, under_way)
                data["waits_for"] = queued.waiting
        return Response(words.task(data), data=data)

    def _results(
        self,
        format: Any = "text",  # noqa: A002
        filter_status: Any = None,
        offset: Any = 0,
        limit: Any = 20,
    ) -> Response:
        kind = read.choice(format, "format", ("text", "json"))
        chosen = None
        if filter_status is not None:
            chosen = TaskStatus(read.choice(filter_status, "filter_status", list(TaskStatus)))
        start = read.whole(offset, "offset", 0, 1 << 40)
        size = read.whole(limit, "limit", 1, MOST_PAGE)
        with self.yard.store.snapshot() as view:
            row = self.ledger.row(view)
            found: list[BatchTask] = self.ledger.tasks(view, row, chosen, start, size + 1)
            count = row.done if chosen is None else getattr(row, chosen.value, None)
        page = [self._redactor.redact(task.document()) for task in found[:size]]
        shown, message = words.results(page, kind)
        more = len(found) > size or shown < len(page)
        following = start + shown if more else None
        data = {
            "results": page, "offset": start, "total": count, "next_offset": following,
        }  # fmt: skip
        return Response(words.paged(message, following, count), data=data)

    def _export(self, format: Any = "json", output_file: Any = None) -> Response:  # noqa: A002
        kind = read.choice(format, "format", FORMATS)
        name = None if output_file is None else read.text(output_file, "output_file")
        path, count = export(self.ledger, kind, name, self._redactor.redact)
        data = {"path": str(path), "format": kind, "count": count}
        return Response(f"{count:,} results written to {path}", data=data)

    # Tidy

    def _clear(self) -> Response:
        def forget(tx: Transaction) -> int:
            return tx.forget(self.ledger.row(tx).id)

        cleared = self.yard.store.write(forget)
        return Response(f"{cleared:,} finished tasks removed", data={"cleared": cleared})

    def _cancel(self, task_id: Any = None) -> Response:
        if task_id is None:
            raise BadCall("cancel needs a task_id", hint=f"call it as {read.how('cancel')}")
        number = self.ledger.number_of(read.text(task_id, "task_id"))
        asked = cancel(self.ledger, number)
        name = self.ledger.id_of(number)
        if not asked:
            with self.yard.store.snapshot() as view:
                seen = self.ledger.task(view, self.ledger.row(view), number)
            text = f"{name} is {seen.status} already"
            return Response(text, data={"task_id": name, "cancelled": False, "status": seen.status})
        return Response(f"{name} is cancelled", data={"task_id": name, "cancelled": True})


def _wanted(place: int, given: Any) -> Wanted | Refused:
    try:
        return read.task_of(given)
    except BadCall as error:
        name = str(given.get("name", "")) if isinstance(given, dict) else ""
        return Refused(place, name, one_line(error))


async def once(
    location: str | Path | None, action: str, /, queue: str = NAME, **arguments: Any
) -> Response:
    """Open a queue, carry out one action and close it again, all of it in a thread."""

    def work() -> Response:
        with BatchExecutor(location, queue=queue) as executor:
            return executor.execute_sync(action, **arguments)

    try:
        return await asyncio.to_thread(work)
    except RunyardError as error:  # the yard itself can't be used
        data = {"error": type(error).__name__, "message": error.message}
        return Response(words.clipped(f"error: {error}"), data=data, ok=False)
