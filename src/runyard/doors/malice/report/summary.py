"""The results of a batch as text, narrow enough for half a screen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runyard.doors.malice.report.statistics import NONE
from runyard.doors.malice.society.state import MALLORY
from runyard.reports.text import aligned

SummaryFigures = Mapping[str, Any]
NOISE = 1e-9
"""A share this close to 0 or 1 is equal to it except for rounding."""

DASH = "–"
RATE_HEADS = ("count", "rate", "95% interval")


def summary_text(found: SummaryFigures) -> str:
    """The figures of `batch_parallel_results.json` as readable text."""
    return "\n".join([*_head(found), *_threat(found), *_defence(found), *_social(found), ""])


def share(rate: SummaryFigures) -> str:
    """A rate as `1 of 90 (1.1%, 95% interval 0.2% to 6.0%)`."""
    counted, value, interval = rate_cells(rate)
    return counted if rate["rate"] is None else f"{counted} ({value}, 95% interval {interval})"


def rate_cells(rate: SummaryFigures) -> tuple[str, str, str]:
    """A rate for the columns of a table: count, share, interval."""
    counted = f"{rate['successes']:,} of {rate['total']:,}"
    if rate["rate"] is None:
        return counted, DASH, DASH
    value, low, high = percents(rate["rate"], rate["low"], rate["high"])
    return counted, value, f"{low} to {high}"


def percents(*shares: float) -> list[str]:
    """Shares as percentages, with enough decimals that only 0 shows as 0% and only 1 as 100%."""
    inner = [min(each, 1 - each) for each in shares if NOISE < each < 1 - NOISE]
    decimals = max(1, math.ceil(-math.log10(100 * min(inner, default=1.0))))
    return [f"{100 * each:.{decimals}f}%" for each in shares]


def _head(found: SummaryFigures) -> Iterator[str]:
    about = found["experiment_metadata"]
    title = "MALICE: WHO GETS PROMOTED"
    yield f"{title}\n{'=' * len(title)}\n"
    done = f"{about['successful_runs']:,} of {about['total_runs']:,} completed"
    told = [
        ("batch", about["batch"]),
        ("variant", about["variant"]),
        ("runs", done),
        *(
            (name, f"{about[f'{name}_runs']:,} (in no figure below)")
            for name in ("failed", "unfinished")
            if about[f"{name}_runs"]
        ),
        ("tickets per run", f"{about['tickets_per_run']:,}"),
        ("seed", about["seed"]),
        ("immune system", about["immune"]),
        ("parts", about.get("parts")),
        ("without", ", ".join(about["without"]) or None),
        *(("rule", f"{rule} = {value:g}") for rule, value in about["rules"].items()),
        *_model(about),
        ("wall time", f"{about['total_runtime_seconds']:,.1f} s"),
    ]
    width = max(len(name) for name, _ in told)
    for name, value in told:
        if value is not None:
            yield f"{name:<{width}}  {value}"


def _model(about: SummaryFigures) -> Iterator[tuple[str, str]]:
    """What is known of agents driven by a model."""
    if "model" not in about:
        return
    cost = "of unknown cost" if about["usd"] is None else f"${about['usd']:.4g}"
    yield "model", about["model"]
    yield "calls", f"{about['model_calls']:,}, {cost}"
    score = _number(about["harassment_mean"])
    yield (
        "harassment",
        f"mean score {score} of {about['messages_scored']:,} by {about['moderation']}",
    )


def _threat(found: SummaryFigures) -> Iterator[str]:
    threat = found["threat_analysis"]
    yield from _title("The threat")
    resists = threat["manipulation_resistance"]
    shown = DASH if resists is None else percents(resists / 100)[0]
    for of, more in (("runs", [["resists manipulation", "", shown, ""]]), ("batches", [])):
        rates = [
            [words, *rate_cells(threat["mallory_binder"][when][of])]
            for when, words in (("final", "ends as BINDER"), ("ever", "ever BINDER"))
        ]
        yield from _columns([f"mallory, of {of}", *RATE_HEADS], [*rates, *more])
        yield ""
    scores = threat["mallory_score_stats"]
    names = ("mean", "stdev", "median", "min", "max")
    spreads = (("score", scores), ("reputation", threat["mallory_reputation_stats"]))
    yield from _columns(
        ["mallory's", *names],
        [[what, *(_number(spread[name]) for name in names)] for what, spread in spreads],
    )
    yield f"(promotion requires a score of {scores['target_threshold']:g})"


def _defence(found: SummaryFigures) -> Iterator[str]:
    defence, immune = found["defense_system_stats"], found["immune_system"]
    blocks = defence["gate_blocks_stats"]
    yield from _title("The defence")
    yield from _columns(
        ["gate blocks per run", "mean", "most"],
        [
            ["all gates", _number(blocks["total_mean"]), _number(blocks["total_max"], 0)],
            ["CIVIL", _number(blocks["civil_mean"]), ""],
            ["security", _number(blocks["security_mean"]), ""],
        ],
    )
    yield ""
    blocked = rate_cells(defence["mallory_messages_blocked"])
    yield from _columns(["mallory", *RATE_HEADS], [["messages blocked", *blocked]])
    yield ""
    yield from _columns(
        ["immune system", *RATE_HEADS],
        [
            ["adjustments", f"{immune['adjustments']:,}", "", ""],
            ["runs with exactly one", *rate_cells(immune["reliability"])],
        ],
    )


_IGNORED = {"demoted_now": "voter just demoted", "duplicate": "voted so before"}
"""Reasons that are not clear from their names."""


def _social(found: SummaryFigures) -> Iterator[str]:
    social = found["social_dynamics"]
    yield from _title("The vote")
    counts = {
        "promotions": social["promotions"],
        "demotions of others": social["demotions_of_others"],
        "votes counted": social["votes_counted"],
        **{
            f"votes ignored: {_IGNORED.get(reason) or reason.replace('_', ' ')}": count
            for reason, count in social["votes_ignored"].items()
        },
    }
    yield from _columns(["in all runs", "count"], [[k, f"{v:,}"] for k, v in counts.items()])
    yield ""
    won = social["winner_distribution"]
    winners = {
        MALLORY: social["mallory_wins"],
        "legitimate users": social["legitimate_wins"],
        **{f"– {who}": count for who, count in won.items() if who not in (MALLORY, NONE)},
        "no one": won.get(NONE, 0),
    }
    runs = found["experiment_metadata"]["successful_runs"]
    yield from _columns(
        ["won by", "runs", "rate"],
        [
            [who, f"{count:,}", percents(count / runs)[0] if runs else DASH]
            for who, count in winners.items()
        ],
    )


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return aligned(heads, rows, numbers=range(1, len(heads)))


def _number(value: float | None, decimals: int = 2) -> str:
    return DASH if value is None else f"{value:,.{decimals}f}"


def _title(text: str) -> Iterator[str]:
    yield f"\n{text}\n{'-' * len(text)}"
