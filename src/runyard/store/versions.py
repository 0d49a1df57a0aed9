"""Which version of the code produced which outcomes.

A batch's record keeps every fingerprint of each of its functions, with the first engine that ran
it. An outcome names its engine, and so the version of the code that produced it.

    walk: 5f1e… from engine 0 on, 9b02… from engine 7 on     an outcome of engine 8: 9b02…
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runyard.spec.batch import decode_listed
from runyard.spec.codec import encode
from runyard.spec.outcome import decoding_stored
from runyard.store.base import Snapshot
from runyard.store.stored_batch import StoredBatch, Version

NO_END = 1 << 31
"""Larger than any engine's number."""


class CodeVersion(NamedTuple):
    """One version of a function, and how many of the batch's outcomes it made."""

    fingerprint: str
    since: float  # when it was first seen, as wall time
    outcomes: int


MixedCode = dict[str, list[CodeVersion]]
"""By function, the oldest version first."""


def first(code: Mapping[str, str], at: float) -> bytes:
    """The version history of a new batch, encoded."""
    return encode({name: [Version(0, found, at)] for name, found in code.items()})


def extended(
    recorded: StoredBatch, code: Mapping[str, str], engine: int, at: float, hash_seed: str
) -> bytes | None:
    """The history extended by the code that this engine runs; None if it adds nothing."""
    known = recorded.versions
    new = {}
    for name, now in code.items():
        earlier = known.get(name, [])
        last = earlier[-1] if earlier else None
        if last is None or last.fingerprint != now:
            new[name] = [*earlier, Version(engine, now, at, hash_seed)]
        elif not last.hash_seed:
            new[name] = [*earlier[:-1], last._replace(hash_seed=hash_seed)]
        elif last.hash_seed != hash_seed:
            new[name] = [*earlier, Version(engine, now, last.since, hash_seed)]
    return encode(known | new) if new else None


def hash_seed_of(recorded: StoredBatch, engine: int = NO_END) -> str:
    """The hash seed of this engine's tasks, by default of the last engine's; "" if unknown."""
    made = [
        (version.engine, version.hash_seed)
        for versions in recorded.versions.values()
        for version in versions
        if version.engine <= engine
    ]
    return max(made, default=(0, ""))[1]


def outdated(
    view: Snapshot, recorded: StoredBatch, code: Mapping[str, str]
) -> dict[str, list[int]]:
    """Tasks whose outcomes were produced by a different version of the code, by function."""
    known = recorded.versions
    changed = {n for n, now in code.items() if any(v.fingerprint != now for v in known.get(n, ()))}
    found = {}
    for name in sorted(changed):
        others = (
            task
            for version, tasks in _made(view, recorded, name, known[name])
            if version.fingerprint != code[name]
            for task in tasks
        )
        tasks = sorted(others)
        if tasks:
            found[name] = tasks
    return found


def mixed_code(view: Snapshot, recorded: StoredBatch) -> MixedCode:
    """The functions of which several versions made outcomes."""
    found = {}
    for name, versions in recorded.versions.items():
        known: dict[str, CodeVersion] = {}
        is_one = len({version.fingerprint for version in versions}) == 1
        for version, tasks in () if is_one else _made(view, recorded, name, versions):
            if tasks:
                first = CodeVersion(version.fingerprint, version.since, 0)
                earlier = known.get(version.fingerprint, first)
                known[version.fingerprint] = earlier._replace(
                    outcomes=earlier.outcomes + len(tasks)
                )
        if len(known) > 1:
            found[name] = list(known.values())
    return found


def _made(
    view: Snapshot, recorded: StoredBatch, name: str, versions: list[Version]
) -> Iterator[tuple[Version, list[int]]]:
    """Each version with the tasks whose outcomes it produced."""
    own = _tasks_of(view, recorded, name)
    ends = [version.engine for version in versions[1:]] + [NO_END]
    for version, end in zip(versions, ends, strict=True):
        tasks = view.made_by(recorded.id, version.engine, end)
        yield version, tasks if own is None else [task for task in tasks if task in own]


def _tasks_of(view: Snapshot, recorded: StoredBatch, name: str) -> set[int] | None:
    """The tasks of a list that call this function; None if the code applies to all tasks."""
    if not recorded.listed:
        return None
    with decoding_stored(f"the tasks of {recorded.name}"):
        rows = view.tasks(recorded.id)
        return {r.task for r in rows if decode_listed(r.content).target.ref == name} or None
