"""A metric by variant and case, as data and as a table."""

from __future__ import annotations

from runyard.format import show
from runyard.reports.text import aligned


class Matrix(dict[str, dict[str, float | None]]):
    """A metric's mean by variant and case, None where it is missing; `str` draws it as a table."""

    @property
    def heads(self) -> list[str]:
        """The heads of the table: a column for each variant."""
        return ["case", *self]

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the table: one for each case."""
        cases = dict.fromkeys(case for row in self.values() for case in row)
        return [[case, *(_shown(row.get(case)) for row in self.values())] for case in cases]

    def __str__(self) -> str:
        return "\n".join(aligned(self.heads, self.rows, range(1, len(self) + 1)))


def _shown(value: float | None) -> str:
    return "–" if value is None else show(value, 3)
