"""Outcomes whose code has changed since they were recorded: kept, run again, or refused."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from runyard.attempt.load import load
from runyard.backends import runs_in_engine
from runyard.errors import BadTarget, CodeChangedWarning, CodeHasChanged
from runyard.events import CodeChanged, Notice
from runyard.format import count
from runyard.schedule.cancelling import refuse_running
from runyard.schedule.retries import requeue
from runyard.schedule.sharing import targets
from runyard.spec.edited import edited
from runyard.spec.fingerprint import examine
from runyard.spec.options import Changed
from runyard.spec.task import Target
from runyard.store.base import Snapshot, Store, Transaction
from runyard.store.stored_batch import StoredBatch
from runyard.store.versions import outdated

_PACKAGE = f"{__name__.partition('.')[0]}."


class Code(NamedTuple):
    """The code of functions, as a backend runs it."""

    fingerprints: dict[str, str]
    edited: list[str]  # files that this process has imported as they were before their last edit
    loaded: frozenset[str] = frozenset()  # modules that workers load by themselves


class CodeChange(NamedTuple):
    """Recorded outcomes that were made by other code."""

    event: CodeChanged
    again: list[int]  # the tasks that run again for it


Settled = tuple[StoredBatch, CodeChange | None]
"""A batch as it is once the change of its code is settled, and the change."""


def warn(text: str) -> None:
    """Warn at the line of the caller's own code that called Runyard, each time."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, CodeChangedWarning, stacklevel=1)
        return
    # `warnings.warn` would warn only once for each line.
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__")
    warnings.warn_explicit(text, CodeChangedWarning, file, frame.f_lineno, module)


def edited_notices(batch: str, files: Collection[str]) -> list[Notice]:
    """Warn of modules that were edited after this process imported them."""
    if not files:
        return []
    text = (
        f"{' and '.join(files)}: edited after the import; this process has the old code, and new "
        "worker processes load the new code; use importlib.reload, or restart Python"
    )
    warn(text)
    return [Notice(batch=batch, text=text, level="warning")]


def edited_meanwhile(batch: str, code: Code) -> list[Notice]:
    """Warn once of files that were edited since the run began: each worker loads them anew."""
    files = [file for file in edited(code.loaded) if file not in code.edited]
    if not files:
        return []
    code.edited.extend(files)
    text = (
        f"{' and '.join(files)}: edited while the batch ran; workers that started after that have "
        "loaded the new code, so outcomes of this run may come from either version"
    )
    warn(text)
    return [Notice(batch=batch, text=text, level="warning")]


def examined(functions: Mapping[str, Callable[..., Any]], backend: str) -> Code:
    """Examine functions. Worker processes load modules as their files are now."""
    anew = not runs_in_engine(backend)
    fingerprints: dict[str, str] = {}
    files, modules = set[str](), set[str]()
    for name, function in functions.items():
        found = examine(function)
        stale = edited(found.modules)
        files.update(stale)
        modules.update(found.modules)
        fingerprints[name] = (
            _with_files(found.fingerprint, stale) if anew and stale else found.fingerprint
        )
    return Code(fingerprints, sorted(files), frozenset(modules if anew else ()))


def _with_files(fingerprint: str, files: Collection[str]) -> str:
    """A fingerprint that also covers the present content of files that only workers load."""
    content = hashlib.sha256(fingerprint.encode())
    for file in files:
        with contextlib.suppress(OSError):
            content.update(Path(file).read_bytes())
    return content.hexdigest()[:16]


def present_code(view: Snapshot, recorded: StoredBatch, backend: str) -> Code:
    """The batch's code as it is now, where it can be found by name."""
    called = targets(view, recorded.row)
    elsewhere = {target.ref for target in called if target.kind in ("value", "shell")}
    functions = {}
    for name in ({target.ref for target in called} | recorded.versions.keys()) - elsewhere:
        # A task whose function is gone fails by itself.
        with contextlib.suppress(BadTarget):
            functions[name] = load(Target.parse(name), recorded.row.root)
    return examined(functions, backend)


def find_change(
    view: Snapshot, recorded: StoredBatch, code: Mapping[str, str], changed: Changed
) -> CodeChange | None:
    """The outcomes that other code made, and what becomes of them; raises to refuse them."""
    found = outdated(view, recorded, code)
    if not found:
        return None
    functions, tasks = list(found), sorted(set().union(*found.values()))
    one = len(tasks) == 1
    made = count(len(tasks), "outcome was", "outcomes were")
    text = f"the code of {' and '.join(functions)} has changed since {made} recorded"
    if changed == "refuse":
        raise CodeHasChanged(
            f"{recorded.name}: {text}",
            hint="keep them with --changed keep, rerun their tasks with --changed rerun "
            "(in Python: changed=…), or choose another name",
        )
    if changed == "rerun":
        text += "; rerunning its task" if one else "; rerunning their tasks"
    else:
        text += f"; {'it is' if one else 'they are'} kept"
        text += ' (to rerun: --changed rerun, or changed="rerun" in Python)'
    event = CodeChanged(
        batch=recorded.name, text=text, level="warning", functions=functions,
        outcomes=len(tasks), action=changed,
    )  # fmt: skip
    return CodeChange(event, tasks if changed == "rerun" else [])


def settle_changes(
    tx: Transaction, store: Store, recorded: StoredBatch, code: Mapping[str, str], changed: Changed
) -> Settled:
    """Keep outcomes that other code made, forget them so that their tasks run again, or refuse."""
    change = find_change(tx, recorded, code, changed)
    if change is None or not change.again:
        return recorded, change
    refuse_running(tx, store, recorded)
    again = requeue(tx, recorded, change.again)
    row = tx.batch_by_id(recorded.id)
    return recorded if row is None else StoredBatch(row), change._replace(again=again)
