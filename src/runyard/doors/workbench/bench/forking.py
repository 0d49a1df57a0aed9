"""Forks of a cell: where they begin, and the bench of one cell that runs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from runyard.doors.workbench.bench.cell import Cell, Checkpoint
from runyard.doors.workbench.bench.describing import Bench, Implementations, describe
from runyard.doors.workbench.describe.cases import Case
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.doors.workbench.describe.variants import Variant, read_variant
from runyard.doors.workbench.run.program import CellProgram
from runyard.doors.workbench.travel.copying import root_before, up_to, with_state
from runyard.doors.workbench.travel.history import finished, history, id_of, is_partial
from runyard.errors import BadSpec, NotFound, UsageError
from runyard.events import EventBus, Notice
from runyard.spec.names import did_you_mean

How = Literal["go on", "stay", "answer"]
ForkStart = dict[str, Any]
"""Where a cell begins instead of at its input: rows of a thread, and what to do there."""


def checkpoints(cell: Cell) -> list[Checkpoint]:
    """The checkpoints of a cell, oldest first."""
    rows = cell.rows
    if not rows.checkpoints:
        return []
    found = history(cell.prepared, cell.thread_id, rows)
    return [
        Checkpoint(
            id_of(each),
            tuple(
                task.name
                for task in each.tasks
                if not is_partial(each, found) or task not in finished(each)
            ),
            each.values,
            (each.metadata or {}).get("step", -1),
            dict(each.metadata or {}),
        )
        for each in found
    ]


def begin_at(
    cell: Cell,
    checkpoint: Checkpoint | str | int,
    how: How,
    bus: EventBus,
    *,
    state: Mapping[str, Any] | None = None,
    changed: Collection[str] = (),
) -> ForkStart:
    """Begin at a checkpoint of a cell; the tasks after it run again."""
    rows = cell.rows
    if not rows.checkpoints:
        raise _no_checkpoints(cell)
    snapshots = history(cell.prepared, cell.thread_id, rows)
    ids = [id_of(each) for each in snapshots]
    wanted = _wanted(cell, checkpoint, ids)
    if wanted not in ids:
        root = root_before(rows, wanted)
        if root is None:
            raise NotFound(
                f"{cell.id} has no checkpoint {wanted!r}", hint=f"it has: {', '.join(ids)}"
            )
        text = f"{wanted} is a checkpoint of a subgraph; the fork begins at its parent's, {root}"
        bus.publish(Notice(batch=cell.id.rpartition("/")[0], text=text, level="warning"))
        wanted = root
    snapshot = snapshots[ids.index(wanted)]
    keep = finished(snapshot) if is_partial(snapshot, snapshots) else []
    kept = [task.id for task in keep if task.name not in changed]
    copied = up_to(rows, wanted, kept)
    if state is not None:
        channels = cell.prepared.graph.channels
        for name in state:
            if name not in (cell.prepared.state_keys or ()):
                known = list(cell.prepared.state_keys)
                raise BadSpec(
                    f"the state has no {name!r}{did_you_mean(name, known)}",
                    hint=f"it has: {', '.join(known)}",
                )
        copied = with_state(copied, wanted, state, channels)
    following = sorted(task.name for task in snapshot.tasks if task.id not in kept)
    return {
        "rows": copied.pack(), "how": how, "next": following, "thread": cell.thread_id,
        "checkpoint": wanted,
    }  # fmt: skip


def nodes_changed(cell: Cell, variant: Any) -> set[str]:
    """The nodes that a variant may implement otherwise than the cell did."""
    if variant is None:
        return set()
    return {*read_variant(variant, cell.prepared.nodes).nodes, *cell.source.params["nodes"]}


def where_it_paused(cell: Cell) -> ForkStart:
    """Begin where a cell was interrupted."""
    if cell.status != "interrupted":
        raise UsageError(
            f"{cell.id} is {cell.status}, so there is nothing to resume",
            hint="to run it again from a checkpoint, use fork",
        )
    rows = cell.rows
    if not rows.checkpoints:
        raise _no_checkpoints(cell)
    return {"rows": rows.pack(), "how": "answer", "thread": cell.thread_id}


def describe_fork(
    cell: Cell,
    start: ForkStart,
    variant: Any,
    answers: Any,
    settings: CellSettings,
    registered: Implementations,
) -> Bench:
    """The bench of one cell that begins at `start`, with the cell's own variant or another one."""
    source = cell.source
    program, params = source.program, source.params
    if settings.checkpoints == "off":
        raise BadSpec("a fork needs checkpoints", hint='leave out checkpoints="off"')
    case = Case(cell.inputs, cell.expected, cell.case, answers, cell.tags)
    graph = (
        program.resolve(params["graph"]) if params["graph"] in program.objects else params["graph"]
    )
    wanted = Variant(
        nodes={node: program.resolve(each) for node, each in params["nodes"].items()},
        config=program.unpacked(params.get("config", {})),
        context=program.unpacked(params.get("context")),
        name=cell.variant,
    )
    if variant is not None:
        wanted = read_variant(variant, cell.prepared.nodes)
    settings = msgspec.structs.replace(settings, share_prefix=False)
    bench = describe(graph, [wanted], [case], settings, registered, params.get("store"))
    objects = {**program.objects, **bench.program.objects}
    joined = CellProgram(objects, settings)
    return replace(bench, program=joined, fixed={**bench.fixed, "start": start})


def _wanted(cell: Cell, checkpoint: Checkpoint | str | int, ids: Sequence[str]) -> str:
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.id
    if isinstance(checkpoint, str):
        return checkpoint
    if type(checkpoint) is int:
        if -len(ids) <= checkpoint < len(ids):
            return ids[checkpoint]
        raise NotFound(
            f"{cell.id} has no checkpoint number {checkpoint}", hint=f"it has 0 to {len(ids) - 1}"
        )
    found = getattr(checkpoint, "config", {}).get("configurable", {}).get("checkpoint_id")
    if isinstance(found, str):  # a snapshot of LangGraph's
        return found
    raise BadSpec(
        f"{checkpoint!r} is not a checkpoint", hint="pass one of result.checkpoints(), or its id"
    )


def _no_checkpoints(cell: Cell) -> NotFound:
    return NotFound(
        f"{cell.id} has no checkpoints on this machine",
        hint=f'they are files below {cell.source.folder}, unless it ran with checkpoints="off"',
    )
