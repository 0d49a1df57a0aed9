"""Outcomes of one batch that were made by different versions of its code."""

from __future__ import annotations

from typing import NamedTuple

from runyard.format import count, moment
from runyard.store.base import Snapshot
from runyard.store.stored_batch import StoredBatch
from runyard.store.versions import mixed


class CodeVersion(NamedTuple):
    """One version of a function, and how many of the batch's outcomes it made."""

    fingerprint: str
    since: float  # when it was first seen, as wall time
    outcomes: int


MixedCode = dict[str, list[CodeVersion]]
"""By function, the oldest version first."""


def mixed_code(view: Snapshot, recorded: StoredBatch) -> MixedCode:
    """The functions of which several versions made outcomes."""
    return {
        name: [CodeVersion(v.fingerprint, v.since, made) for v, made in versions]
        for name, versions in mixed(view, recorded).items()
    }


def mixed_lines(found: MixedCode) -> list[str]:
    """Mixed code in words, one line per function."""
    lines = []
    for name, versions in found.items():
        parts = [
            f"{count(v.outcomes, 'outcome')} from {v.fingerprint[:8]} (since {moment(v.since)})"
            for v in versions
        ]
        lines.append(f"mixed code: {len(versions)} versions of {name}: {', '.join(parts)}")
    return lines
