"""Whether a cell visited the nodes it should have: evaluators of trajectories.

The nodes of a subgraph are `subgraph:node`. They count if the expected trajectory names any such
node; otherwise only the graph's own nodes do. A node that `Send` runs three times is there three
times. Nodes that run side by side may come in any order: put them into a list of their own, as in
`["plan", ["work", "work"], "collect"]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runyard.errors import BadSpec

Mode = Literal["strict", "unordered", "subset", "superset"]
"""The same nodes in the same order; in any order; no others than expected; at least these."""

INNER = ":"
KEY = "trajectory"


def check_mode(mode: str) -> None:
    """Refuse a mode that does not exist."""
    if mode not in get_args(Mode):
        raise BadSpec(f"there is no mode {mode!r}", hint=f"use one of: {', '.join(get_args(Mode))}")


@dataclass(frozen=True)
class TrajectoryMatch:
    """Compares the visited nodes with those expected: `nodes`, or what the case expects.

    A case expects a list of nodes, or a dict with `trajectory`.
    """

    mode: Mode = "strict"
    nodes: Sequence[Any] | None = None
    subgraphs: bool | None = None  # whether inner nodes count; None: if the expected ones name any

    def __post_init__(self) -> None:
        check_mode(self.mode)

    def __call__(self, trajectory: Sequence[str], reference: Any) -> dict[str, Any]:
        """1 if it matches."""
        expected = self.nodes if self.nodes is not None else expected_nodes(reference)
        inner = self.subgraphs
        if inner is None:
            inner = any(INNER in node for node in _flat(expected))
        visited = [node for node in trajectory if inner or INNER not in node]
        problem = difference(visited, expected, self.mode)
        return {"score": problem is None, "reason": problem or ""}


def expected_nodes(reference: Any) -> Sequence[Any]:
    """The nodes that a case expects."""
    found = reference.get(KEY) if isinstance(reference, Mapping) else reference
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise BadSpec(
            f"the case expects {reference!r:.80}, which is not a list of nodes",
            hint=f'write expected=["a", "b"], {{"{KEY}": […]}} or TrajectoryMatch(nodes=[…])',
        )
    return found


def difference(visited: Sequence[str], expected: Sequence[Any], mode: Mode) -> str | None:
    """How a trajectory differs from the expected one; None if it does not."""
    if mode == "strict":
        return _first_difference(visited, expected)
    have, want = Counter(visited), Counter(_flat(expected))
    return mismatch(_counted(want - have), _counted(have - want), mode)


def mismatch(missing: str, unexpected: str, mode: Mode) -> str | None:
    """What a mode minds of what is missing and what is not expected; None for nothing."""
    problems = []
    if missing and mode != "subset":
        problems.append(f"missing: {missing}")
    if unexpected and mode != "superset":
        problems.append(f"not expected: {unexpected}")
    return "; ".join(problems) or None


def _first_difference(visited: Sequence[str], expected: Sequence[Any]) -> str | None:
    at = 0
    for each in expected:
        wanted = [each] if isinstance(each, str) else list(_flat(each))
        got = list(visited[at : at + len(wanted)])
        if Counter(got) != Counter(wanted):
            place = f"step {at + 1}"
            return f"{place}: expected {_listed(wanted)}, visited {_listed(got)}"
        at += len(wanted)
    if at < len(visited):
        return f"after the expected {at}: visited {_listed(visited[at:])}"
    return None


def _flat(nodes: Any) -> Iterator[str]:
    for each in nodes:
        if isinstance(each, str):
            yield each
        else:
            yield from _flat(each)


def _listed(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) or "nothing"


def _counted(nodes: Counter[str]) -> str:
    return ", ".join(name if n == 1 else f"{name} × {n}" for name, n in sorted(nodes.items()))
