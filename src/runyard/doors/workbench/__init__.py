"""The workflow test bench: variants of a LangGraph graph on test cases, recorded and resumable.

from runyard.doors.workbench import Workbench

bench = Workbench()
result = bench.run(graph, initial_state={"query": "test"})
results = bench.run_batch(
    graph,
    variants=[{"retrieve": "fast"}, {"retrieve": "thorough"}],
    test_cases=[{"query": "Q1"}, {"query": "Q2"}],
)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.doors import lazy_names

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell, Checkpoint
    from runyard.doors.workbench.bench.result import BenchResult
    from runyard.doors.workbench.bench.workbench import Workbench
    from runyard.doors.workbench.describe.cases import Case, load_cases
    from runyard.doors.workbench.describe.variants import Variant
    from runyard.doors.workbench.evaluate.judge import Judge, PairJudge
    from runyard.doors.workbench.evaluate.ready import (
        Cost,
        ExactMatch,
        JsonMatch,
        Latency,
        NumericMatch,
        RegexMatch,
        ToolCallMatch,
    )
    from runyard.doors.workbench.evaluate.trajectories import TrajectoryMatch

__all__ = [  # noqa: RUF022  grouped: running, describing, what came out, evaluators
    "Workbench",
    "Variant", "Case", "load_cases",
    "BenchResult", "Cell", "Checkpoint",
    "ExactMatch", "JsonMatch", "RegexMatch", "NumericMatch", "TrajectoryMatch", "ToolCallMatch",
    "Latency", "Cost", "Judge", "PairJudge",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "bench.workbench": "Workbench",
        "describe.variants": "Variant",
        "describe.cases": "Case load_cases",
        "bench.result": "BenchResult",
        "bench.cell": "Cell Checkpoint",
        "evaluate.ready": "ExactMatch JsonMatch RegexMatch NumericMatch ToolCallMatch Latency Cost",
        "evaluate.trajectories": "TrajectoryMatch",
        "evaluate.judge": "Judge PairJudge",
    },
)
