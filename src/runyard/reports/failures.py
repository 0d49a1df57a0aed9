"""Failures, grouped by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from runyard.plaintext import one_line
from runyard.spec.outcome import ErrorInfo, OutcomeRow

EXAMPLES = 5
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one class at one place, whose messages differ only in numbers."""

    kind: str
    where: str
    message: str  # of the first one
    count: int
    tasks: tuple[int, ...]  # the first few
    trace: str  # of the first one

    def line(self) -> str:
        """The group on one line."""
        first = self.message.partition("\n")[0]
        place = f"  ({self.where})" if self.where else ""
        return one_line(f"{self.count:,} × {self.kind}: {first}{place}")


def group_failures(rows: Iterable[OutcomeRow]) -> list[FailureGroup]:
    """The groups, the largest first."""
    groups: dict[tuple[str, str, str], tuple[ErrorInfo, list[int], int]] = {}
    for row in rows:
        if row.error is None:
            continue
        info = ErrorInfo.decode(row.error)
        key = info.kind, info.where, _NUMBERS.sub("#", info.message)
        first, tasks, count = groups.get(key, (info, [], 0))
        if len(tasks) < EXAMPLES:
            tasks.append(row.task)
        groups[key] = (first, tasks, count + 1)
    found = [
        FailureGroup(info.kind, info.where, info.message, count, tuple(tasks), info.trace)
        for info, tasks, count in groups.values()
    ]
    return sorted(found, key=lambda group: (-group.count, group.tasks))
