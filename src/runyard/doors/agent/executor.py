"""The tool that agents use: nine actions on a queue.

`execute` is for asyncio programs and never blocks their loop; `execute_sync` is for scripts. Both
always return a response: an invalid call gets a sentence that says how to call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from runyard.backends import NAMES, backend_class
from runyard.doors.agent.inputs import arguments as read
from runyard.doors.agent.inputs.arguments import DEFAULT_QUEUE, BadCall
from runyard.doors.agent.queue import messages, views
from runyard.doors.agent.queue.adding import add, read_task
from runyard.doors.agent.queue.async_queue import cancel
from runyard.doors.agent.queue.exports import export
from runyard.doors.agent.queue.figures import figures
from runyard.doors.agent.queue.ledger import ORDERS, Ledger
from runyard.doors.agent.queue.model import Response, TaskStatus
from runyard.doors.agent.queue.waiting import OnProgress, OnStatus, done, until_done
from runyard.doors.agent.worker.launch import backend_for, launch
from runyard.errors import RunyardError
from runyard.events import Redactor
from runyard.format import count
from runyard.reports.formats import FORMATS
from runyard.spec.status import FINAL_STATES
from runyard.store.base import Snapshot, Transaction
from runyard.store.stored_batch import StoredBatch, encode_options
from runyard.yard import Yard

MOST_LANES = 4096
MOST_PAGE = 200


class Action(NamedTuple):
    """How an action is performed, and the arguments it takes."""

    do: Callable[..., Response]
    names: Sequence[str]


class BatchExecutor:
    """Queues work, runs it in parallel in the background, and collects results."""

    def __init__(
        self, yard: Yard | str | Path | None = None, *, queue: str = DEFAULT_QUEUE
    ) -> None:
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
            "results": Action(
                self._results, ("format", "filter_status", "offset", "limit", "order")
            ),
            "export": Action(self._export, ("format", "output_file")),
            "clear": Action(self._clear, ()),
            "cancel": Action(self._cancel, ("task_id",)),
        }

    @property
    def actions(self) -> list[str]:
        """The names of the nine actions."""
        return list(self._actions)

    async def execute(self, /, action: str = "", **arguments: Any) -> Response:
        """Perform an action in a thread; errors are returned as responses."""
        return await asyncio.to_thread(self.execute_sync, action, **arguments)

    def execute_sync(self, /, action: str = "", **arguments: Any) -> Response:
        """Perform an action; errors are returned as responses."""
        try:
            return self.perform(action, **arguments)
        except RunyardError as error:
            return self._refusal(type(error).__name__, error.message, error.hint)
        except Exception as error:  # an agent can't read a traceback
            problem = f"unexpected {type(error).__name__}: {error}"
            return self._refusal(type(error).__name__, problem, "this is a bug in Runyard")

    def _refusal(self, kind: str, problem: str, hint: str | None) -> Response:
        shown = self._redactor.redact_text(problem)
        data = {"error": kind, "message": shown, "hint": hint}
        text = f"error: {shown}\n{hint}" if hint else f"error: {shown}"
        return Response(messages.clipped(text), data=data, ok=False)

    async def wait(
        self, seconds: Any = 60.0, on_progress: OnProgress | None = None, *, tasks: Any = None
    ) -> Response:
        """Wait until the queue is done or nothing runs, at most `seconds`; return its status.

        `seconds` may be text such as "5m"; None sets no limit. With `tasks`, a list of ids, wait
        for these alone. `on_progress` gets the number of ended tasks, of all tasks, and a message.
        """

        async def tell(status: Response) -> None:
            if on_progress is not None:
                await on_progress(
                    done(status.data), status.data["total_tasks"], messages.first_line(status)
                )

        try:
            return await self.perform_wait(seconds, tell, tasks=tasks)
        except RunyardError as error:
            return self._refusal(type(error).__name__, error.message, error.hint)

    async def perform_wait(
        self, seconds: Any = None, on_status: OnStatus | None = None, *, tasks: Any = None
    ) -> Response:
        """Like `wait`, but raise if the call is invalid; `on_status` gets each status."""
        most = None if seconds is None else read.duration(seconds, "seconds")
        return self._clean(await until_done(self.ledger, most, read.task_ids(tasks), on_status))

    def perform(self, /, action: str = "", **arguments: Any) -> Response:
        """Perform an action; raise if the call is invalid."""
        name = read.choice(action, "action", self.actions)
        found = self._actions[name]
        response = found.do(**read.known(name, arguments, found.names))
        if name == "add_batch":  # thousands of ids need no redaction
            message = messages.clipped(self._redactor.redact_text(response.message))
            return Response(message, data=response.data)
        return self._clean(response)

    def _clean(self, response: Response) -> Response:
        """A response without secrets, and not too long."""
        message = messages.clipped(self._redactor.redact_text(response.message))
        return Response(message, data=self._redactor.redact(response.data))

    def close(self) -> None:
        """Close the yard; a worker that was started keeps running."""
        if self._owns_yard:
            self.yard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Adding

    def _add(self, **task: Any) -> Response:
        added = add(self.ledger, [read.task_of(task)])
        if added.refused:
            raise BadCall(added.refused[0].reason)
        number = added.numbers[0]
        with self.yard.store.snapshot() as view:
            row = self.ledger.row(view)
            engines = self.ledger.engines(view, row)
            seen = self.ledger.task(view, row, number)
            queued = view.queued(row.id, number)
            under_way = self.ledger.under_way(view, row)
            position = None if queued is None else self.ledger.position(view, queued, under_way)
        data = {
            "task_id": seen.task_id, "name": seen.name, "function": seen.function,
            "priority": seen.priority.name.lower(), "position": position,
            "status": str(seen.status), "running": bool(engines),
        }  # fmt: skip
        return Response(messages.added(data), data=data)

    def _add_batch(self, tasks: Any = None) -> Response:
        given = read.tasks(tasks)
        added = add(self.ledger, (read_task(at, each) for at, each in enumerate(given)))
        ids = [self.ledger.id_of(number) for number in added.numbers]
        data = {
            "added": len(ids), "refused": len(added.refused), "task_ids": ids,
            "reasons": [each._asdict() for each in added.refused],
        }  # fmt: skip
        return Response(messages.added_many(data), data=data)

    # Running

    def _start(self, max_concurrent: Any = 5, timeout: Any = None, backend: Any = None) -> Response:
        lanes = read.whole(max_concurrent, "max_concurrent", 1, MOST_LANES)
        deadline = None if timeout is None else read.duration(timeout, "timeout")
        place = backend_for(lanes) if backend is None else read.choice(backend, "backend", NAMES)
        backend_class(place)
        with self.yard.store.snapshot() as view:
            now = figures(self.ledger, view)
        if not now.row.pending:
            return Response("nothing is queued: add tasks first", data={"started": False})
        own = self.ledger.own(now.engines)
        if own:
            return self._answer_running(sum(e.workers for e in own), now.row.pending)

        def set_deadline(tx: Transaction) -> None:
            options = msgspec.structs.replace(StoredBatch(now.row).options, deadline=deadline)
            tx.update_batch(now.row.id, options=encode_options(options), control=None)

        self.yard.store.write(set_deadline)
        told = launch(self.ledger, lanes, place)
        if told["pid"] is None:  # another call started it first
            with self.yard.store.snapshot() as view:
                now = figures(self.ledger, view)
            return self._answer_running(now.lanes, now.row.pending)
        data = {
            "started": True, "pid": told["pid"], "max_concurrent": lanes, "backend": place,
            "timeout": deadline, "queued": now.row.pending, "log": told["log"],
        }  # fmt: skip
        return Response(messages.started(data), data=data)

    @staticmethod
    def _answer_running(lanes: int, pending: int) -> Response:
        data = {"started": False, "running": True, "max_concurrent": lanes, "unfinished": pending}
        return Response(
            f"already running, {lanes} at a time; {count(pending, 'unfinished task')}", data=data
        )

    def _stop(self, graceful: Any = True) -> Response:
        wait = read.yes_or_no(graceful, "graceful")

        def ask(tx: Transaction) -> int:
            engines = self.ledger.engines(tx, self.ledger.row(tx))
            for engine in engines:
                tx.update_engine(engine.id, stop=1 if wait else 2)
            return len(engines)

        asked = self.yard.store.write(ask)
        if asked and not wait:
            self._await(lambda view: not self.ledger.engines(view, self.ledger.row(view)))
        with self.yard.store.snapshot() as view:
            stats = figures(self.ledger, view).stats
        data = {
            "stopping": bool(asked), "graceful": wait, "completed": stats.completed,
            "failed": stats.failed, "queued": stats.queued, "running": stats.running,
        }  # fmt: skip
        return Response(messages.stopped(data), data=data)

    def _await(self, is_so: Callable[[Snapshot], bool], seconds: float = 10.0) -> bool:
        """Poll until a condition holds; False if it takes too long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self.yard.store.snapshot() as view:
                if is_so(view):
                    return True
            time.sleep(0.02)
        return False

    # Reading

    def _status(self, detailed: Any = False, task_id: Any = None) -> Response:
        if task_id is not None:
            number = self.ledger.number_of(read.text(task_id, "task_id"))
            return views.task_status(self.ledger, number)
        return views.status(self.ledger, detailed=read.yes_or_no(detailed, "detailed"))

    def _results(
        self,
        format: Any = "text",  # noqa: A002
        filter_status: Any = None,
        offset: Any = 0,
        limit: Any = 20,
        order: Any = "added",
    ) -> Response:
        chosen = None
        if filter_status is not None:
            chosen = TaskStatus(read.choice(filter_status, "filter_status", list(TaskStatus)))
        sequence = read.choice(order, "order", ORDERS)
        if sequence != "added" and chosen is not None and chosen not in FINAL_STATES:
            raise BadCall(
                f"{chosen} tasks have not ended and can't be in the order {sequence!r}",
                hint="leave out order or filter_status",
            )
        return views.results(
            self.ledger, self._redactor.redact,
            kind=read.choice(format, "format", ("text", "json")), status=chosen,
            offset=read.whole(offset, "offset", 0, 1 << 40),
            limit=read.whole(limit, "limit", 1, MOST_PAGE), order=sequence,
        )  # fmt: skip

    def _export(self, format: Any = "json", output_file: Any = None) -> Response:  # noqa: A002
        kind = read.choice(format, "format", tuple(FORMATS))
        name = None if output_file is None else read.text(output_file, "output_file")
        path, written = export(self.ledger, kind, name, self._redactor.redact)
        data = {"path": str(path), "format": kind, "count": written}
        return Response(f"wrote {count(written, 'result')} to {path}", data=data)

    # Clearing and cancelling

    def _clear(self) -> Response:
        def forget(tx: Transaction) -> int:
            return tx.forget(self.ledger.row(tx).id)

        cleared = self.yard.store.write(forget)
        return Response(f"removed {count(cleared, 'ended task')}", data={"cleared": cleared})

    def _cancel(self, task_id: Any = None) -> Response:
        if task_id is None:
            raise BadCall("cancel needs a task_id", hint=f"call it as {read.how('cancel')}")
        number = self.ledger.number_of(read.text(task_id, "task_id"))
        asked = cancel(self.ledger, number)
        if asked:
            self._await(lambda view: view.outcome(self.ledger.row(view).id, number) is not None)
        with self.yard.store.snapshot() as view:
            seen = self.ledger.task(view, self.ledger.row(view), number)
        is_cancelled = asked and seen.status not in (TaskStatus.COMPLETED, TaskStatus.FAILED)
        data = {"task_id": seen.task_id, "cancelled": is_cancelled, "status": str(seen.status)}
        return Response(messages.cancelled(data), data=data)


async def once(location: str | Path | None, /, action: str = "", **arguments: Any) -> Response:
    """Open the queue, perform one action and close it, all in a thread."""

    def work() -> Response:
        with BatchExecutor(location) as executor:
            return executor.execute_sync(action, **arguments)

    try:
        return await asyncio.to_thread(work)
    except RunyardError as error:  # the yard itself can't be used
        data = {"error": type(error).__name__, "message": error.message}
        return Response(messages.clipped(f"error: {error}"), data=data, ok=False)
