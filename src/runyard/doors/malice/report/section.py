"""This door's section of a batch's HTML report; importing this module registers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from runyard.doors.malice.report import pictures
from runyard.doors.malice.report.results import Runs, document, runs_of
from runyard.doors.malice.report.summary import rate_cells, share
from runyard.doors.malice.run.task import malice
from runyard.reports.html import (
    Html,
    ReportContext,
    Section,
    element,
    facts,
    join,
    paragraph,
    register,
    table,
    tiles,
)
from runyard.reports.html.blocks import number
from runyard.spec.task import Target
from runyard.store.stored_batch import StoredBatch

ORDER = 5
_OWN = Target.of(malice)


def is_ours(recorded: StoredBatch) -> bool:
    """Whether a batch consists of runs of this door."""
    return recorded.target == _OWN


def malice_section(context: ReportContext) -> Section:
    """Figures and charts of each variant, after an overview if there are several."""
    found = [_Variant(runs, document(runs, context.result)) for runs in runs_of(context.result)]
    parts = [_overview(found)] if len(found) > 1 else []
    return Section("Who gets promoted", join([*parts, *map(_part, found)]), order=ORDER)


class _Variant(NamedTuple):
    """The runs of a variant, and their figures."""

    runs: Runs
    figures: dict[str, Any]


def _overview(found: Sequence[_Variant]) -> Html:
    heads = [
        "variant", "runs completed", "ends as BINDER", "ever BINDER", "score", "reputation",
        "promotions", "gate blocks",
    ]  # fmt: skip
    told = (
        "mallory: how often she ends as BINDER or ever was one, her mean score and reputation. "
        "Promotions and gate blocks are means per run."
    )
    rows = map(_overview_row, found)
    return join(
        [
            table(heads, rows, numbers=range(1, len(heads)), caption="Variants"),
            paragraph(told, class_="aside"),
        ]
    )


def _overview_row(part: _Variant) -> list[str]:
    about, threat = part.figures["experiment_metadata"], part.figures["threat_analysis"]
    runs = about["successful_runs"]
    promotions = part.figures["social_dynamics"]["promotions"]
    return [
        str(part.runs.name),
        f"{runs:,} of {about['total_runs']:,}",
        *(_short(threat["mallory_binder"][when]["runs"]) for when in ("final", "ever")),
        number(threat["mallory_score_stats"]["mean"], 2),
        number(threat["mallory_reputation_stats"]["mean"], 2),
        number(promotions / runs if runs else None, 2),
        number(part.figures["defense_system_stats"]["gate_blocks_stats"]["total_mean"], 2),
    ]


def _short(rate: dict[str, Any]) -> str:
    counted, value, _ = rate_cells(rate)
    return f"{counted} ({value})"


def _part(part: _Variant) -> Html:
    runs, records = part.runs, part.runs.records
    head = [] if runs.name is None else [element("h3", runs.name)]
    if not records:
        return join([*head, _nothing(runs)])
    names = pictures.users_of(records)
    return join(
        [
            *head,
            *_figures(part.figures),
            pictures.promotions(records),
            pictures.reputations(records, runs.config.rules.demote_at),
            pictures.network(records),
            table(
                ["voter", *names],
                pictures.vote_rows(records),
                caption="Counted votes per run: + for, − against",
            ),
            pictures.blocks(records),
            pictures.won(records),
        ]
    )


def _nothing(runs: Runs) -> Html:
    where = " The failures are below." if runs.failed else ""
    return paragraph(f"No run completed, so there is nothing to show.{where}")


def _figures(found: dict[str, Any]) -> list[Html]:
    about, threat = found["experiment_metadata"], found["threat_analysis"]
    binder = threat["mallory_binder"]
    failed = about["failed_runs"]
    shown = tiles(
        [
            ("runs completed", f"{about['successful_runs']:,} of {about['total_runs']:,}", ""),
            ("failed, excluded from rates", f"{failed:,}", "bad" if failed else ""),
            ("mallory ends as BINDER", f"{binder['final']['runs']['successes']:,}", ""),
            ("mallory ever BINDER", f"{binder['ever']['runs']['successes']:,}", ""),
            ("mallory's mean score", number(threat["mallory_score_stats"]["mean"], 2), ""),
        ]
    )
    told = facts(
        [
            ("ends as BINDER, of runs", share(binder["final"]["runs"])),
            ("ends as BINDER, of batches", share(binder["final"]["batches"])),
            ("ever BINDER, of runs", share(binder["ever"]["runs"])),
            ("ever BINDER, of batches", share(binder["ever"]["batches"])),
            (
                "mallory's messages blocked",
                share(found["defense_system_stats"]["mallory_messages_blocked"]),
            ),
            ("runs with one adjustment", share(found["immune_system"]["reliability"])),
            ("immune system", about["immune"]),
            ("parts", about.get("parts")),
            ("without", ", ".join(about["without"])),
            ("rules", ", ".join(f"{k} = {v:g}" for k, v in about["rules"].items())),
        ]
    )
    note = paragraph(
        "Rates are over completed runs; tickets count from 1 in each run.", class_="aside"
    )
    return [shown, told, note]


register(is_ours, malice_section)
