"""What becomes of outcomes whose code has changed since they were recorded."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import NamedTuple

from runyard.attempt.load import load
from runyard.errors import BadTarget, CodeChangedWarning, CodeHasChanged
from runyard.events import CodeChanged, Notice
from runyard.schedule import control
from runyard.schedule.sharing import targets
from runyard.spec.edited import edited
from runyard.spec.fingerprint import fingerprint
from runyard.spec.options import Changed
from runyard.spec.task import Target
from runyard.store.base import Snapshot, Store, Transaction
from runyard.store.rows import BatchRow
from runyard.store.stored_batch import StoredBatch
from runyard.store.versions import outdated

_PACKAGE = f"{__name__.partition('.')[0]}."


class Change(NamedTuple):
    """Outcomes on record that other code made."""

    event: CodeChanged
    tasks: list[int]


class Settled(NamedTuple):
    """What was done about it."""

    events: list[CodeChanged]
    again: list[int]  # tasks whose outcome was forgotten
    row: BatchRow | None = None  # the batch as it is now, where that changed


def warn(text: str) -> None:
    """Warn the caller, where in their own code they called Runyard."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, CodeChangedWarning, stacklevel=depth + 1)


def edited_modules(batch: str, modules: Iterable[str]) -> list[Notice]:
    """Warn of modules that this process knows as they were before their last edit."""
    files = edited(modules)
    if not files:
        return []
    text = (
        f"{' and '.join(files)}: edited after it was imported; this process has the old code, and "
        "new worker processes load the new one. Reload it with importlib.reload, or restart Python"
    )
    warn(text)
    return [Notice(batch=batch, text=text, level="warning")]


def present_code(view: Snapshot, recorded: StoredBatch) -> dict[str, str]:
    """The fingerprints that the batch's code has in this process, where it is found by name."""
    called = targets(view, recorded.row)
    elsewhere = {target.ref for target in called if target.kind in ("value", "shell")}
    code = {}
    for name in ({target.ref for target in called} | recorded.versions.keys()) - elsewhere:
        # A task whose function is gone fails by itself.
        with contextlib.suppress(BadTarget):
            code[name] = fingerprint(load(Target.parse(name), recorded.row.root))
    return code


def find_change(
    view: Snapshot, recorded: StoredBatch, code: Mapping[str, str], changed: Changed
) -> Change | None:
    """The outcomes that other code made, and what becomes of them; raises to refuse them."""
    found = outdated(view, recorded, code)
    if not found:
        return None
    functions, tasks = list(found), sorted(set().union(*found.values()))
    one = len(tasks) == 1
    count = "1 outcome was" if one else f"{len(tasks):,} outcomes were"
    text = f"the code of {' and '.join(functions)} has changed since {count} recorded"
    if changed == "refuse":
        raise CodeHasChanged(
            f"{recorded.name}: {text}",
            hint="keep them with --changed keep, run their tasks again with --changed rerun "
            "(in Python changed=…), or choose another name",
        )
    if changed == "rerun":
        text += "; its task runs again" if one else "; their tasks run again"
    else:
        text += f"; {'it is' if one else 'they are'} kept"
        text += ' (to run again: --changed rerun, or changed="rerun" in Python)'
    event = CodeChanged(
        batch=recorded.name, text=text, level="warning", functions=functions,
        outcomes=len(tasks), action=changed,
    )  # fmt: skip
    return Change(event, tasks)


def settle_changes(
    tx: Transaction, store: Store, recorded: StoredBatch, code: Mapping[str, str], changed: Changed
) -> Settled:
    """Keep outcomes that other code made, forget them so that their tasks run again, or refuse."""
    change = find_change(tx, recorded, code, changed)
    if change is None:
        return Settled([], [])
    if changed == "keep":
        return Settled([change.event], [])
    control.refuse_running(tx, store, recorded)
    again = control.requeue(tx, recorded, change.tasks)
    return Settled([change.event], again, tx.batch_by_id(recorded.id))
