"""Exact copies of a thread, as rows: every namespace, up to a checkpoint.

Checkpoint ids stay, and with them the ids of tasks, so that LangGraph goes on in the copy as it
would have in the original. One row alone would lose what `DeltaChannel` keeps in earlier ones, and
`update_state` would run routers again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from runyard.doors.workbench.tape.file import CheckpointRow, ThreadRows
from runyard.doors.workbench.tape.serde import StrictSerializer

_serde = StrictSerializer()


def up_to(rows: ThreadRows, checkpoint: str, keep: Collection[str] = ()) -> ThreadRows:
    """The rows up to a checkpoint of the graph itself.

    What its tasks wrote after it is left out, so that they run again, but for the tasks in `keep`.
    """
    checkpoints = [row for row in rows.checkpoints if row.id <= checkpoint]
    writes = [
        row
        for row in rows.writes
        if row.id < checkpoint or (row.id == checkpoint and (row.ns or row.task in keep))
    ]
    return ThreadRows(checkpoints, writes)


def with_state(
    rows: ThreadRows, checkpoint: str, state: Mapping[str, Any], channels: Mapping[str, Any]
) -> ThreadRows:
    """The rows with other values of the state at a checkpoint. Reducers are not applied."""

    def changed(row: CheckpointRow) -> CheckpointRow:
        if (row.ns, row.id) != ("", checkpoint):
            return row
        found = _serde.loads_typed((row.type, row.checkpoint))
        values = {
            name: _DeltaSnapshot(value) if isinstance(channels[name], DeltaChannel) else value
            for name, value in state.items()
        }
        found["channel_values"] = {**found["channel_values"], **values}
        kind, data = _serde.dumps_typed(found)
        return row._replace(type=kind, checkpoint=data)

    return ThreadRows([changed(row) for row in rows.checkpoints], rows.writes)


def root_before(rows: ThreadRows, checkpoint: str) -> str | None:
    """The graph's own checkpoint under which a subgraph made one."""
    if not any(row.ns and row.id == checkpoint for row in rows.checkpoints):
        return None
    return max(
        (row.id for row in rows.checkpoints if not row.ns and row.id < checkpoint), default=None
    )
