"""Ten million outcomes summarised and compared: Runyard against DuckDB and polars on its export.

All three read columns of the same numbers: Runyard those that it keeps beside a finished batch, the
others the Parquet file that it exported. Making either from the record is done once and shown.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.ours import WORKERS
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import draw

OUTCOMES = 10_000_000
POLICIES = ("a", "b")
METRICS = ("profit", "won")


def measure(rounds: int) -> list[Figure]:
    """10,000,000 outcomes summarised and compared, against DuckDB and polars."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        yard, parquet = str(Path(folder, "yard")), str(Path(folder, "outcomes.parquet"))
        made = fresh(f"{__name__}:make", yard=yard, parquet=parquet, outcomes=OUTCOMES)
        measured = in_rounds(
            "decide",
            {
                "Runyard": lambda _: fresh(f"{__name__}:ours", yard=yard),
                "DuckDB": lambda _: fresh(f"{__name__}:with_duckdb", parquet=parquet),
                "polars": lambda _: fresh(f"{__name__}:with_polars", parquet=parquet),
            },
            rounds,
        )
    _check_answers(measured)
    seconds = {name: [run["seconds"] for run in runs] for name, runs in measured.items()}
    fastest = [min(pair) for pair in zip(seconds["DuckDB"], seconds["polars"], strict=True)]
    memory = max(run["memory"] for run in measured["Runyard"])
    label = f"{OUTCOMES:,} outcomes summarised and compared"
    best = {name: min(times) for name, times in seconds.items()}
    note = ", ".join(f"{name} {time:.2f} s" for name, time in best.items())
    once = f"once: {made['run']:.0f} s to run, {made['columns']:.0f} s to read, "
    once += f"{made['export']:.0f} s to export"
    return [
        Figure(
            "decide", f"{label}: speed of the faster of DuckDB and polars reached",
            100 * median_ratio(fastest, seconds["Runyard"]), "%", at_least(30),
            f"{note} (best), {spread(fastest, seconds['Runyard'])}; {once}",
        ),
        Figure(
            "decide", f"{label}: peak memory", memory, "MB", at_most(300),
            f"while reading the record: {made['memory']:.0f} MB",
        ),
    ]  # fmt: skip


def make(yard: str, parquet: str, outcomes: int, folder: str) -> dict[str, float]:
    """Run the batch, read its columns, export it."""
    import runyard as ry
    from runyard.reports.export import export

    grid = ry.grid(draw, policy=list(POLICIES), case=range(outcomes // len(POLICIES)), name="big")
    clock = time.perf_counter()
    ry.run(grid, yard=yard, workers=WORKERS, progress=False)
    ran = time.perf_counter() - clock
    read = fresh(f"{__name__}:read", yard=yard)
    clock = time.perf_counter()
    export(ry.Yard(yard).results("big"), "parquet", Path(parquet))
    return {"run": ran, "export": time.perf_counter() - clock, **read}


def read(yard: str, folder: str) -> dict[str, float]:
    """Turn the record into columns, in a process of its own to see what that takes."""
    import runyard as ry

    clock = time.perf_counter()
    assert ry.Yard(yard).results("big").columns.names == METRICS
    return {"columns": time.perf_counter() - clock, "memory": _peak()}


def ours(yard: str, folder: str) -> dict[str, Any]:
    """Summaries by policy, and the policies compared in pairs."""
    import runyard as ry
    from runyard.reports.comparing import compare_groups, groups_of

    clock = time.perf_counter()
    result = ry.Yard(yard).results("big")
    groups = result.summaries(METRICS, "policy")
    (compared,) = compare_groups(groups_of(result, "profit", "policy"), "profit")
    seconds = time.perf_counter() - clock
    means = [group.summaries["profit"].mean for group in groups]
    return _answer(seconds, means, compared.mean_a - compared.mean_b)


def with_duckdb(parquet: str, folder: str) -> dict[str, Any]:
    """The same with DuckDB."""
    import duckdb

    clock = time.perf_counter()
    figures = ", ".join(
        f"count({m}), avg({m}), stddev({m}), min({m}), max({m}), "
        f"approx_quantile({m}, [0.05, 0.25, 0.5, 0.75, 0.95])"
        for m in METRICS
    )
    rows = duckdb.execute(
        f"SELECT policy, avg(profit), {figures} FROM '{parquet}' GROUP BY policy ORDER BY policy"
    ).fetchall()
    (effect, _, _), = duckdb.execute(
        f"""SELECT avg(d), stddev(d), count(d) FROM (
            SELECT x.profit - y.profit AS d FROM '{parquet}' x JOIN '{parquet}' y USING ("case")
            WHERE x.policy = 'a' AND y.policy = 'b')"""
    ).fetchall()  # fmt: skip
    return _answer(time.perf_counter() - clock, [row[1] for row in rows], effect)


def with_polars(parquet: str, folder: str) -> dict[str, Any]:
    """The same with polars."""
    import polars as pl

    clock = time.perf_counter()
    table = pl.scan_parquet(parquet)
    figures = []
    for metric in METRICS:
        column = pl.col(metric)
        figures += [
            column.count().alias(f"{metric} n"),
            column.mean().alias(metric),
            column.std().alias(f"{metric} sd"),
            column.min().alias(f"{metric} min"),
            column.max().alias(f"{metric} max"),
            *(column.quantile(q).alias(f"{metric} {q}") for q in (0.05, 0.25, 0.5, 0.75, 0.95)),
        ]
    rows = table.group_by("policy").agg(figures).sort("policy").collect()
    one, other = (table.filter(pl.col("policy") == p).select("case", "profit") for p in POLICIES)
    pairs = one.join(other, on="case").select(d=pl.col("profit") - pl.col("profit_right"))
    found = pairs.select(pl.col("d").mean(), sd=pl.col("d").std(), n=pl.len()).collect()
    return _answer(time.perf_counter() - clock, rows["profit"].to_list(), found["d"][0])


def _answer(seconds: float, means: list[float], effect: float) -> dict[str, Any]:
    return {"seconds": seconds, "memory": _peak(), "means": means, "effect": effect}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _check_answers(measured: dict[str, list[dict[str, Any]]]) -> None:
    """Whoever is fast must also be right."""
    figures = [[*run["means"], run["effect"]] for runs in measured.values() for run in runs]
    for column in zip(*figures, strict=True):
        assert max(column) - min(column) < 1e-9, f"the answers differ: {column}"
