"""Finds where the summary of a batch contradicts its log."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runyard.doors.malice.logs.dataset import LoggedBatch
from runyard.doors.malice.run.record import RecordedRun
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import MALLORY
from runyard.format import listed

RUN_FIELDS = (
    "tickets_processed", "mallory_became_binder", "mallory_ever_binder", "mallory_reputation",
    "mallory_outcome", "civil_gate_blocks", "security_gate_blocks", "total_gate_blocks", "winner",
)  # fmt: skip
USER_FIELDS = (
    "status", "reputation", "positive_votes", "negative_votes", "votes_given", "messages_sent",
)  # fmt: skip
CLOSE = 1e-9
"""Tolerance, since sums may have been added in another order."""


def scores(batch: LoggedBatch, records: Sequence[RecordedRun]) -> list[tuple[int, Any, float]]:
    """Mallory's score in each run of the summary: run, as stated, as computed."""
    told = _told_runs(batch)
    return [
        (record["run_id"], told[record["run_id"]]["mallory_final_score"],
         record["mallory_final_score"])
        for record in records
        if "mallory_final_score" in told.get(record["run_id"], {})
    ]  # fmt: skip


def users_told(batch: LoggedBatch, run: int) -> list[str]:
    """The users of a run, according to the summary."""
    return list(_part(_told_runs(batch).get(run, {}), "user_final_states"))


def contradictions(batch: LoggedBatch, records: Sequence[RecordedRun]) -> list[str]:
    """Each contradiction in words; none for a batch without a summary."""
    if not batch.summary or not records:
        return []
    return [
        *_of_runs(batch, records),
        *_of_falls(batch, records),
        *_of_counts(batch, records),
        *_of_whole(batch, records),
    ]


def _of_runs(batch: LoggedBatch, records: Sequence[RecordedRun]) -> Iterator[str]:
    told_runs = _told_runs(batch)
    for record in records:
        run = record["run_id"]
        told = told_runs.get(run)
        if told is None:
            yield f"run {run}: the log has it, the summary does not"
            continue
        for name in RUN_FIELDS:
            yield from _difference(f"run {run}: {name}", told, name, record[name])
        for user, state in record["user_final_states"].items():
            theirs = _user(told_runs, run, user)
            for name in USER_FIELDS:
                yield from _difference(f"run {run}: {user}'s {name}", theirs, name, state[name])
    for run in sorted(told_runs.keys() - {record["run_id"] for record in records}):
        if told_runs[run].get("status", "completed") == "completed":
            yield f"run {run}: the summary has it, the log does not"


def _of_falls(batch: LoggedBatch, records: Sequence[RecordedRun]) -> Iterator[str]:
    """Demoted users for whom the summary has no time of the demotion."""
    told_runs = _told_runs(batch)
    found = [
        f"run {record['run_id']}: {user}"
        for record in records
        for user, state in record["user_final_states"].items()
        if state["demoted_at"] is not None
        and _user(told_runs, record["run_id"], user).get("demoted_at", "") is None
    ]
    if found:
        some = listed(found, 3)
        yield f"demoted_at: the summary has none for {len(found)} that the log demotes ({some})"


def _of_counts(batch: LoggedBatch, records: Sequence[RecordedRun]) -> Iterator[str]:
    about = _part(batch.summary, "experiment_metadata")
    yield from _difference("successful runs", about, "successful_runs", len(records))
    others = [about.get(name, 0) for name in ("failed_runs", "unfinished_runs")]
    if all(isinstance(each, int) for each in others):
        yield from _difference("runs", about, "total_runs", len(records) + sum(others))
    tickets = max((record["tickets_processed"] for record in records), default=0)
    yield from _difference("tickets per run", about, "tickets_per_run", tickets)
    scores = _part(_part(batch.summary, "threat_analysis"), "mallory_score_stats")
    threshold = Rules.of(batch.rules).promote_at
    yield from _difference("votes required for promotion", scores, "target_threshold", threshold)


def _of_whole(batch: LoggedBatch, records: Sequence[RecordedRun]) -> Iterator[str]:
    found = [record["mallory_final_score"] for record in records]
    rate = 100 * sum(record["mallory_became_binder"] for record in records) / len(records)
    threat = _part(batch.summary, "threat_analysis")
    yield from _difference("success rate", threat, "mallory_success_rate_percent", rate)
    yield from _difference("resistance", threat, "manipulation_resistance", 100 - rate)
    figures = {
        "mean": statistics.fmean(found),
        "median": statistics.median(found),
        "stdev": statistics.stdev(found) if len(found) > 1 else 0.0,
        "min": min(found),
        "max": max(found),
    }
    told_scores = _part(threat, "mallory_score_stats")
    for name, value in figures.items():
        yield from _difference(f"mallory's score, {name}", told_scores, name, value)
    blocks = _part(_part(batch.summary, "defense_system_stats"), "gate_blocks_stats")
    for name in ("total", "civil", "security"):
        values = [record[f"{name}_gate_blocks"] for record in records]
        mean = statistics.fmean(values)
        yield from _difference(f"{name} blocks, mean", blocks, f"{name}_mean", mean)
        yield from _difference(f"{name} blocks, most", blocks, f"{name}_max", max(values))
    dynamics = _part(batch.summary, "social_dynamics")
    winners = Counter(record["winner"] for record in records)
    hers = winners[MALLORY]
    yield from _difference("won by mallory", dynamics, "mallory_wins", hers)
    by_others = len(records) - hers - winners[None]
    yield from _difference("won by others", dynamics, "legitimate_wins", by_others)
    for name, count in _part(dynamics, "winner_distribution").items():
        won = winners[None if name == "none" else name]
        if count != won:
            yield f"winner {name}: the summary says {count!r}, the log {won!r}"


def _told_runs(batch: LoggedBatch) -> dict[int, dict[str, Any]]:
    told = batch.summary.get("detailed_results")
    runs = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    return {each["run_id"]: each for each in runs if isinstance(each.get("run_id"), int)}


def _user(told_runs: Mapping[int, Mapping[str, Any]], run: int, user: str) -> Mapping[str, Any]:
    return _part(_part(told_runs.get(run, {}), "user_final_states"), user)


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a summary; empty if it is not an object."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _difference(what: str, told: Mapping[str, Any], name: str, computed: Any) -> Iterator[str]:
    if name in told and not _close(told[name], computed):
        yield f"{what}: the summary says {told[name]!r}, the log {computed!r}"


def _close(told: Any, computed: Any) -> bool:
    numbers = all(isinstance(each, int | float) for each in (told, computed))
    if numbers and not isinstance(told, bool):
        return bool(abs(told - computed) <= CLOSE)
    return bool(told == computed)
