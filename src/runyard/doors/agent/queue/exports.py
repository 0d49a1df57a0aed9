"""Export of results to files in the yard's export folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from runyard.doors.agent.inputs.arguments import BadCall
from runyard.doors.agent.queue.ledger import Ledger
from runyard.errors import BadName
from runyard.reports.sheets import write_csv
from runyard.spaces import inside, whole_file

FORMATS = ("json", "csv")
FOLDER = "exports"
COLUMNS = {
    "Task ID": "task_id", "Name": "name", "Function": "function", "Status": "status",
    "Priority": "priority", "Created At": "created_at", "Started At": "started_at",
    "Completed At": "completed_at", "Execution Time": "execution_time", "Wait Time": "wait_time",
    "Retry Count": "retry_count", "Result": "result", "Error": "error",
}  # fmt: skip
_TIMES = {"created_at", "started_at", "completed_at"}


def export(
    ledger: Ledger, kind: str, name: str | None, redact: Callable[[Any], Any]
) -> tuple[Path, int]:
    """Write all results to a file; return its path and their number."""
    path = _place(ledger, kind, name)
    count = 0

    def documents() -> Iterable[dict[str, Any]]:
        nonlocal count
        with ledger.yard.store.snapshot() as view:
            for task in ledger.ended(view, ledger.row(view), None):
                count += 1
                yield redact(task.document())

    with whole_file(path) as place, place.open("w", newline="", encoding="utf-8") as file:
        (_write_csv if kind == "csv" else _write_json)(file, documents())
    return path, count


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


def _write_json(file: TextIO, documents: Iterable[dict[str, Any]]) -> None:
    file.write("[")
    for at, document in enumerate(documents):
        file.write(",\n" if at else "\n")
        json.dump(document, file)
    file.write("\n]\n")


def _write_csv(file: TextIO, documents: Iterable[dict[str, Any]]) -> None:
    rows = ([_cell(name, told[name]) for name in COLUMNS.values()] for told in documents)
    write_csv(file, chain([COLUMNS], rows))


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return ""
    if name in _TIMES:
        return datetime.fromtimestamp(value, UTC).isoformat()
    return json.dumps(value) if name == "result" else value
