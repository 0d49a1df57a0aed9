"""Compare what a user names: the sides and the metric are chosen, compared, and judged by gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from runyard.errors import UsageError
from runyard.format import listed
from runyard.reports.comparing import (
    Compared,
    CompareOptions,
    Groups,
    compare_each,
    compare_groups,
    groups_of,
    groups_of_two,
    whole,
)
from runyard.reports.gates import Gates, GateVerdict
from runyard.reports.result import Result
from runyard.stats.conditions import Condition


class Decision(NamedTuple):
    """What was compared, with which result, and whether the gates hold."""

    groups: Groups
    compared: Compared
    verdicts: list[GateVerdict]

    @property
    def holds(self) -> bool:
        """Whether all gates hold."""
        return all(verdict.holds for verdict in self.verdicts)

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        missing = self.compared.missing.items()
        return {
            "metric": self.groups.metric,
            "comparisons": [comparison.to_data() for comparison in self.compared.found],
            "not_compared": [{"a": a, "b": b, "reason": reason} for (a, b), reason in missing],
            "gates": [verdict.to_data() for verdict in self.verdicts],
        }


def decide(
    results: Sequence[Result],
    *,
    by: str | None = None,
    metric: str | None = None,
    only: Sequence[str] | None = None,
    gates: Mapping[str, Condition],
    **options: Unpack[CompareOptions],
) -> Decision:
    """Compare the variants of one batch, or two batches; a gate alone needs no comparison."""
    groups = _sides(results, by, metric, only, bool(gates))
    judges = Gates(gates, groups, **options)
    compared = Compared([], {})
    if groups.metric is not None:
        compared = compare_each(groups, groups.metric, **options)
        if not compared.found and not gates:
            compare_groups(groups, groups.metric, **options)  # raises the reason
    return Decision(groups, compared, judges.judge(compared))


def _sides(
    results: Sequence[Result],
    by: str | None,
    metric: str | None,
    only: Sequence[str] | None,
    gates: bool,
) -> Groups:
    """The groups to compare; a single one if there are only gates to check."""
    result, *others = results
    for second in others:
        if by is not None or only is not None:
            which = "--by compares inside one batch" if by else "--only selects values of --by"
            raise UsageError(which, hint="remove it, or one of the batches")
        return groups_of_two(result, second, metric or _only_metric(results, gates))
    if by is None:
        axes = [name for name in result.coordinates if name != "replicate"]
        if gates and metric is None:
            return Groups({result.name: whole(result)}, False, None)
        if len(axes) != 1:
            raise UsageError(
                f"{result.name} can be compared by: {', '.join(axes) or 'nothing'}",
                hint="choose one with --by, or name a second batch",
            )
        by = axes[0]
    return groups_of(result, metric or _only_metric(results, gates), by, only)


def _only_metric(results: Sequence[Result], gates: bool) -> str | None:
    """The only metric; None if gates can do without one."""
    names = list(dict.fromkeys(name for result in results for name in result.columns.names))
    if len(names) == 1:
        return names[0]
    if gates:
        return None
    who = " and ".join(result.name for result in results)
    if not names:
        raise UsageError(f"the tasks of {who} return no numbers to compare")
    raise UsageError(
        f"{who} {'has' if len(results) == 1 else 'have'} {len(names)} metrics",
        hint=f"choose one with --metric: {listed(names)}",
    )
