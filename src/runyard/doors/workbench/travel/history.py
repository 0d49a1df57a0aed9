"""The checkpoints of a recorded thread, as the graph reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.types import StateSnapshot

from runyard.doors.workbench.run.prepared import Prepared
from runyard.doors.workbench.tape.file import ThreadRows
from runyard.doors.workbench.tape.saver import TapeSaver


def history(prepared: Prepared, thread: str, rows: ThreadRows) -> list[StateSnapshot]:
    """The graph's own checkpoints, oldest first; those of subgraphs are not among them."""
    tape = TapeSaver(thread)
    tape.load(rows)
    graph = prepared.fresh({"checkpointer": tape})
    found = list(graph.get_state_history({"configurable": {"thread_id": thread}}))
    return found[::-1]


def id_of(snapshot: StateSnapshot) -> str:
    """The id of a checkpoint."""
    return str(snapshot.config["configurable"]["checkpoint_id"])


def finished(snapshot: StateSnapshot) -> list[Any]:
    """The tasks of the last step that had ended when the run stopped in the middle of it."""
    return [
        task for task in snapshot.tasks
        if task.result is not None and not task.error and not task.interrupts
    ]  # fmt: skip


def is_partial(snapshot: StateSnapshot, snapshots: Sequence[StateSnapshot]) -> bool:
    """Whether a run stopped after this checkpoint with a part of the step done."""
    return snapshot is snapshots[-1] and bool(finished(snapshot))
