"""A batch's figures as a text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.doors.malice.state import MALLORY
from runyard.doors.malice.statistics import NONE

Figures = Mapping[str, Any]


def summary_text(found: Figures) -> str:
    """The figures of `batch_parallel_results.json`, to be read."""
    return "\n".join([*_head(found), *_threat(found), *_defence(found), *_social(found), ""])


def share(rate: Figures) -> str:
    """A rate as `1 of 90 (1.1%, 95% interval 0.2% to 6.0%)`."""
    counted = f"{rate['successes']} of {rate['total']}"
    if rate["rate"] is None:
        return counted
    low, high = (f"{100 * rate[name]:.1f}%" for name in ("low", "high"))
    return f"{counted} ({100 * rate['rate']:.1f}%, 95% interval {low} to {high})"


def number(value: float | None, decimals: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{decimals}f}"


def _head(found: Figures) -> Iterator[str]:
    about = found["experiment_metadata"]
    title = "MALICE: WHO GETS PROMOTED"
    yield f"{title}\n{'=' * len(title)}\n"
    yield f"batch              {about['batch']}"
    if about["variant"] is not None:
        yield f"variant            {about['variant']}"
    runs = f"{about['successful_runs']} of {about['total_runs']} runs completed"
    for name in ("failed", "unfinished"):
        if about[f"{name}_runs"]:
            runs += f", {about[f'{name}_runs']} {name} (in no figure below)"
    yield f"runs               {runs}"
    yield f"tickets a run      {about['tickets_per_run']}"
    yield f"seed               {about['seed']}"
    yield f"immune system      {about['immune']}"
    if about["without"]:
        yield f"without            {', '.join(about['without'])}"
    for rule, value in about["rules"].items():
        yield f"rule               {rule} = {value:g}"
    yield f"wall time          {about['total_runtime_seconds']:.1f} s"


def _threat(found: Figures) -> Iterator[str]:
    threat = found["threat_analysis"]
    yield from _title("The threat")
    for when, words in (("final", "ends as BINDER"), ("ever", "ever BINDER")):
        rates = threat["mallory_binder"][when]
        yield f"mallory {words}, of runs      {share(rates['runs'])}"
        yield f"mallory {words}, of batches   {share(rates['batches'])}"
    scores = threat["mallory_score_stats"]
    most = f"of the {scores['target_threshold']:g} that a promotion takes"
    yield f"mallory's score          {_spread(scores)} {most}"
    yield f"mallory's reputation     {_spread(threat['mallory_reputation_stats'])}"


def _defence(found: Figures) -> Iterator[str]:
    defence, immune = found["defense_system_stats"], found["immune_system"]
    blocks = defence["gate_blocks_stats"]
    yield from _title("The defence")
    yield (
        f"gate blocks a run        {number(blocks['total_mean'])} "
        f"(CIVIL {number(blocks['civil_mean'])}, security {number(blocks['security_mean'])})"
    )
    yield f"mallory's messages blocked   {share(defence['mallory_messages_blocked'])}"
    yield f"immune adjustments       {immune['adjustments']}"
    yield f"runs with exactly one    {share(immune['reliability'])}"


def _social(found: Figures) -> Iterator[str]:
    social = found["social_dynamics"]
    yield from _title("The vote")
    yield f"promotions               {social['promotions']}"
    yield f"demotions of others      {social['demotions_of_others']}"
    yield f"votes counted            {social['votes_counted']}"
    for reason, count in social["votes_ignored"].items():
        yield f"votes ignored            {count} ({reason.replace('_', ' ')})"
    runs = found["experiment_metadata"]["successful_runs"]
    for who, count in social["winner_distribution"].items():
        name = {NONE: "nobody", MALLORY: "mallory"}.get(who, who)
        yield f"won by {name:<17} {count} ({100 * count / runs:.1f}%)"


def _spread(figures: Figures) -> str:
    mean, low, high = (number(figures[name]) for name in ("mean", "min", "max"))
    return f"{mean} on average, median {number(figures['median'])}, {low} to {high}"


def _title(text: str) -> Iterator[str]:
    yield f"\n{text}\n{'-' * len(text)}"
