"""The results of a batch of runs: a JSON file, a readable summary, a table.

Rates and distributions are over completed runs. Failed and timed-out runs are listed as such, and
never count as contained.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runyard.doors.malice.logs.audit import DEBUG, PARTIALS, run_of
from runyard.doors.malice.report.statistics import (
    NONE,
    distribution,
    gate_rate,
    immune_reliability,
    mallory_rates,
    winners,
)
from runyard.doors.malice.run.experiment import Config
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import MALLORY
from runyard.reports.sheets import write_csv
from runyard.spaces import remove_tree, whole_file
from runyard.spec import seeds
from runyard.spec.status import Status

if TYPE_CHECKING:
    from runyard.reports.result import Result

RESULTS, SUMMARY, TABLE = "batch_parallel_results.json", "batch_summary.txt", "runs.csv"
PICTURES = frozenset({"rises", "falls", "votes", "immune", "reputations", "reputations_at"})
"""Fields of a record that only charts use; they are not listed."""


@dataclass
class Runs:
    """The runs of a batch, or of one of its variants."""

    name: str | None  # of the variant
    params: dict[str, Any]
    total: int
    records: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """Their configuration."""
        known = {k: v for k, v in self.params.items() if k in ("tickets", "immune")}
        return Config(
            **known,
            without=tuple(self.params.get("without", ())),
            rules=Rules.of(self.params.get("rules") or {}),
        )


def runs_of(result: Result) -> list[Runs]:
    """The outcomes on record, by variant."""
    plan = result.recorded.plan
    assert plan is not None
    variants = [axis for axis in plan.axes if axis.role == "variant"]
    each = plan.total // (len(variants[0].values) if variants else 1)
    settings: list[dict[str, Any]] = (
        [{**plan.fixed, **variants[0].params(at)} for at in range(len(variants[0].values))]
        if variants
        else [plan.fixed]
    )
    found = {s.get("name"): Runs(s.get("name"), dict(s), each) for s in settings}
    for outcome in result.outcomes():
        runs = found[outcome.params.get("name")]
        if outcome.status is Status.COMPLETED:
            runs.records.append(outcome.value)
            continue
        error = outcome.error
        runs.failed.append(
            {
                "run_id": plan.replicate(outcome.task) + 1,
                "seed": seeds.number(result.seed, *plan.seed_key(outcome.task)),
                "status": str(outcome.status),
                "error": None if error is None else error.kind,
                "message": None if error is None else error.message,
                "mallory_outcome": None,
            }
        )
    return list(found.values())


def document(runs: Runs, result: Result) -> dict[str, Any]:
    """Everything about these runs, as plain JSON data."""
    records, config = runs.records, runs.config
    rates = mallory_rates([records])
    share = rates["final"]["runs"]["rate"]
    blocks = {
        name: distribution([r[f"{name}_gate_blocks"] for r in records])
        for name in ("total", "civil", "security")
    }
    won = winners(records)
    return {
        "experiment_metadata": _metadata(runs, result),
        "threat_analysis": {
            "mallory_success_rate_percent": None if share is None else 100 * share,
            "manipulation_resistance": None if share is None else 100 * (1 - share),
            "mallory_binder": rates,
            "mallory_score_stats": {
                **distribution([r["mallory_final_score"] for r in records]),
                "target_threshold": config.rules.promote_at,
            },
            "mallory_reputation_stats": distribution([r["mallory_reputation"] for r in records]),
        },
        "defense_system_stats": {
            "gate_blocks_stats": {
                **{f"{name}_mean": found["mean"] for name, found in blocks.items()},
                "total_max": blocks["total"]["max"],
            },
            "mallory_messages_blocked": gate_rate(records),
        },
        "social_dynamics": {
            "winner_distribution": won,
            "mallory_wins": won.get(MALLORY, 0),
            "legitimate_wins": sum(n for who, n in won.items() if who not in (MALLORY, NONE)),
            "promotions": sum(r["promotions"] for r in records),
            "demotions_of_others": sum(r["demotions_of_others"] for r in records),
            "votes_counted": sum(r["votes_counted"] for r in records),
            "votes_ignored": _summed([r["votes_ignored"] for r in records]),
        },
        "immune_system": {
            "mode": config.immune,
            "adjustments": sum(r["immune_adjustments"] for r in records),
            "reliability": immune_reliability(records),
        },
        "detailed_results": sorted(
            [*map(_listed, records), *runs.failed], key=lambda each: each["run_id"]
        ),
    }


def _metadata(runs: Runs, result: Result) -> dict[str, Any]:
    config = runs.config
    return {
        "batch": result.name,
        "variant": runs.name,
        "total_runs": runs.total,
        "successful_runs": len(runs.records),
        "failed_runs": len(runs.failed),
        "unfinished_runs": runs.total - len(runs.records) - len(runs.failed),
        "tickets_per_run": config.tickets,
        "seed": result.seed,
        "immune": config.immune,
        "parts": runs.params.get("parts"),
        "without": list(config.without),
        "rules": dict(runs.params.get("rules") or {}),
        "digest": result.digest,
        "total_runtime_seconds": round(result.stats.seconds, 3),
        **_of_model(runs),
    }


def _of_model(runs: Runs) -> dict[str, Any]:
    """What is known of agents driven by a model: its settings, scores and costs."""
    if "model" not in runs.params:
        return {}
    records = runs.records
    costs = [r["usd"] for r in records]
    means = [(r["harassment_mean"], r["messages_scored"]) for r in records if r["messages_scored"]]
    scored = sum(n for _, n in means)
    return {
        "model": runs.params["model"],
        "moderation": runs.params.get("moderation", "model"),
        "model_calls": sum(r["calls"] for r in records),
        "input_tokens": sum(r["input_tokens"] for r in records),
        "output_tokens": sum(r["output_tokens"] for r in records),
        "usd": None if None in costs else math.fsum(costs),
        "messages_scored": scored,
        "harassment_mean": math.fsum(m * n for m, n in means) / scored if scored else None,
    }


def write_results(runs: Runs, result: Result, folder: Path) -> list[Path]:
    """Write the three files of these runs atomically; return their paths."""
    from runyard.doors.malice.report.summary import summary_text

    folder.mkdir(parents=True, exist_ok=True)
    found = document(runs, result)
    texts = {
        RESULTS: msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n",
        SUMMARY: summary_text(found),
        TABLE: _table(found["detailed_results"]),
    }
    for name, text in texts.items():
        with whole_file(folder / name) as place:
            place.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def tidy_logs(folder: Path, finished: Sequence[int]) -> list[int]:
    """Keep one pair of logs for each finished run, and remove incomplete ones.

    A run whose worker died after its logs were in place has run again; both pairs are equal.
    Returns the finished runs whose logs are missing.
    """
    remove_tree(folder / PARTIALS)
    kept = frozenset(finished)
    missing: set[int] = set()
    for place in (folder, folder / DEBUG):
        seen: set[int] = set()
        for path in sorted(place.glob("malice_*.jsonl"), reverse=True):
            run = run_of(path)
            if run is not None and (run in seen or run not in kept):
                path.unlink(missing_ok=True)
            elif run is not None:
                seen.add(run)
        missing |= kept - seen
    return sorted(missing)


def _listed(record: dict[str, Any]) -> dict[str, Any]:
    listed = {name: value for name, value in record.items() if name not in PICTURES}
    return {"run_id": listed.pop("run_id"), "status": str(Status.COMPLETED), **listed}


def _summed(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = sorted({name for each in counts for name in each})
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def _table(listed: Sequence[dict[str, Any]]) -> str:
    columns = [
        "run_id", "status", "seed", "tickets_processed", "run_time_seconds",
        "mallory_final_score", "mallory_reputation", "mallory_outcome", "mallory_became_binder",
        "mallory_ever_binder", "mallory_demoted_at", "civil_gate_blocks", "security_gate_blocks",
        "total_gate_blocks", "promotions", "demotions_of_others", "votes_counted",
        "immune_adjustments", "winner", "error",
    ]  # fmt: skip
    text = io.StringIO()
    write_csv(text, chain([columns], (_cells(each, columns) for each in listed)))
    return text.getvalue()


def _cells(each: dict[str, Any], columns: Sequence[str]) -> Iterator[Any]:
    for name in columns:
        value = each.get(name)
        yield "" if value is None else value
