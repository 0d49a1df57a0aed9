"""Export of results to files in the yard's export folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from runyard.doors.agent.inputs.arguments import BadCall
from runyard.doors.agent.queue.ledger import Ledger
from runyard.errors import BadName
from runyard.reports.formats import Exportable, format_named
from runyard.spaces import inside

FOLDER = "exports"
COLUMNS = {
    "Task ID": "task_id", "Name": "name", "Function": "function", "Status": "status",
    "Priority": "priority", "Created At": "created_at", "Started At": "started_at",
    "Completed At": "completed_at", "Execution Time": "execution_time", "Wait Time": "wait_time",
    "Retry Count": "retry_count", "Result": "result", "Error": "error",
}  # fmt: skip
_TIMES = {"created_at", "started_at", "completed_at"}
_NUMBERS = {"execution_time": "double", "wait_time": "double", "retry_count": "int64"}
_PAGE = 10_000


class QueueResults(Exportable):
    """The results of a queue."""

    def __init__(self, ledger: Ledger, redact: Callable[[Any], Any]) -> None:
        self._ledger = ledger
        self._redact = redact

    def documents(self) -> Iterator[dict[str, Any]]:
        """Every task that has ended."""
        with self._ledger.yard.store.snapshot() as view:
            for task in self._ledger.ended(view, self._ledger.row(view), None):
                yield self._redact(task.document())

    def rows(self) -> Iterator[list[Any]]:
        """A column for each name in `COLUMNS`."""
        yield list(COLUMNS)
        for document in self.documents():
            cells = (_cell(name, document[name]) for name in COLUMNS.values())
            yield ["" if cell is None else cell for cell in cells]

    def lines(self) -> Iterator[str]:
        """Name, status, and the result or the error."""
        for task in self.documents():
            ended = json.dumps(task["result"]) if task["error"] is None else task["error"]
            yield (
                "  ".join(" ".join(str(task[n]).split()) for n in ("task_id", "name", "status"))
                + "  "
                + " ".join(ended.split())
            )

    def kinds(self) -> dict[str, str]:
        """Text, except for counts and seconds."""
        return {head: _NUMBERS.get(name, "string") for head, name in COLUMNS.items()}

    def pages(self) -> Iterator[dict[str, Any]]:
        """The rows, by column."""
        documents = self.documents()
        while page := list(islice(documents, _PAGE)):
            yield {head: [_cell(n, each[n]) for each in page] for head, n in COLUMNS.items()}


def export(
    ledger: Ledger, kind: str, name: str | None, redact: Callable[[Any], Any]
) -> tuple[Path, int]:
    """Write all results to a file; return its path and their number."""
    path = _place(ledger, kind, name)
    return path, format_named(kind).write(QueueResults(ledger, redact), path)


def _place(ledger: Ledger, kind: str, name: str | None) -> Path:
    folder = ledger.yard.folder / FOLDER
    chosen = name or f"{ledger.name}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.{kind}"
    try:
        path = inside(folder, *(Path(chosen).parts or [chosen]))
    except BadName as error:
        raise BadCall(
            f"output_file is {chosen[:60]!r}: {error.message}",
            hint=f"give a plain file name; files go to {folder}",
        ) from None
    return path


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _TIMES:
        return datetime.fromtimestamp(value, UTC).isoformat()
    return json.dumps(value) if name == "result" else value
